"""Scoring encodings that use positions alone, beyond the conformance suite: long, padded, cast, misused."""

import re

import numpy as np
import pytest

from posenc_backends import numpy as reference
from posenc_core import Alibi, Fire, Kerple, Placed, Sandwich, SwinBias, T5Bias, from_mask
from posenc_core.attention.relative import expand_offsets

from ..errors import rejects

LEARNING = [
    T5Bias(num_heads=2, num_buckets=8, max_distance=20),
    Kerple(num_heads=2),
    Kerple(num_heads=2, variant="power"),
    Fire(num_heads=2, hidden=4, threshold=100),
    SwinBias(num_heads=2, window=(3, 2), prefix_tokens=1),
]


def random_parameters(encoding):
    numbers = np.random.default_rng(3)
    return {
        name: numbers.normal(p.mean, p.std or 0.1, p.shape).astype(np.float32)
        for name, p in encoding.parameters().items()
    }


def both(on, encoding):
    """Return the layer of the backend and that of NumPy with the same parameters."""
    numbers, reference_layer = random_parameters(encoding), reference.AttentionBias(encoding)
    reference_layer.set_tables(numbers)
    return on.testing.with_parameters(
        on.testing.eval_mode(on.backend.AttentionBias(encoding)), numbers
    ), reference_layer


@pytest.mark.parametrize("encoding", LEARNING, ids=str)
def test_parameters_are_as_the_encoding_says(on, backend, to_backend, monkeypatch, encoding):
    layer = on.testing.eval_mode(backend.AttentionBias(encoding))
    layer(to_backend(np.zeros((1, 2, 3, 4))))
    for name, parameter in encoding.parameters().items():
        numbers = backend.to_numpy(layer.arrays[name])
        assert numbers.shape == parameter.shape
        assert np.abs(numbers - parameter.mean).max() <= 6 * parameter.std
        assert parameter.std == 0 or numbers.std() > 0
    others = {**layer.arrays, name: to_backend(np.ones((*parameter.shape[:-1], 1)))}  # which may broadcast to all heads
    monkeypatch.setattr(type(layer), "arrays", property(lambda layer: others), raising=False)
    with pytest.raises(ValueError, match=re.escape(f"{name!r} in shape {parameter.shape} for {encoding}, got ")):
        layer(to_backend(np.zeros((1, 2, 3, 4))))


@pytest.mark.parametrize("encoding", LEARNING[:4], ids=str)
def test_long_sequences_and_far_positions(on, backend, to_backend, encoding):
    """A power is an exponential of up to 14: float32 has a relative error of 2**-20 there."""
    layer, reference_layer = both(on, encoding)
    allowed = 2.0**-18 if encoding == LEARNING[2] else 2.0**-21
    x = np.zeros((1, 2, 5, 300), np.float32)
    far = {"query_positions": 2**20 + np.arange(5), "key_positions": 2**20 - np.arange(300) ** 2}
    long = np.zeros((1, 2, 300, 5), np.float32)
    for scores, words in ((x, {"start": 295}), (x, far), (long, {})):
        got, wanted = backend.to_numpy(layer(to_backend(scores), **words)), reference_layer(scores, **words)
        np.testing.assert_allclose(got, wanted, rtol=0, atol=allowed * np.abs(wanted).max())


@pytest.mark.parametrize("encoding", [Alibi(num_heads=2), *LEARNING[:3]], ids=str)
def test_offsets_of_any_shape(on, backend, to_backend, encoding):
    layer, reference_layer = both(on, encoding)
    layer(to_backend(np.zeros((1, 2, 3, 4))))
    offsets = np.array([[0, -1, 5], [3, -30, 2]])
    at = {"query_positions": np.zeros(1, np.int64), "key_positions": offsets.reshape(-1)}
    wanted = reference_layer(np.zeros((2, 1, 6), np.float32), **at).reshape(2, 2, 3)
    found = backend.to_numpy(layer.encoding.bias_by_offset(offsets, layer.arrays))
    allowed = 2.0**-18 if encoding == LEARNING[2] else 2.0**-21  # as above
    np.testing.assert_allclose(found, wanted, rtol=0, atol=allowed * np.abs(wanted).max())


def test_left_padded_rows_agree_with_rows_without_padding(on, backend, to_backend):
    positions = from_mask(to_backend(np.array([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]])))
    for encoding in (Alibi(num_heads=2, sides="past"), LEARNING[0]):
        layer, reference_layer = both(on, encoding)
        words = {"query_positions": positions, "key_positions": positions}
        got = backend.to_numpy(layer(to_backend(np.zeros((2, 2, 5, 5))), **words))
        np.testing.assert_array_equal(got[0][:, 2:, 2:], reference_layer(np.zeros((2, 3, 3), np.float32)))
        np.testing.assert_array_equal(got[1], reference_layer(np.zeros((2, 5, 5), np.float32)))


def test_tokens_outside_a_window_are_rejected(on, backend, to_backend):
    layer = on.testing.eval_mode(backend.AttentionBias(SwinBias(num_heads=1, window=(2, 2))))
    words = "`query_positions` of SwinBias(num_heads=1, window=(2, 2)) must lie from 0 to 3, got 4."
    with pytest.raises(ValueError, match=re.escape(words)):
        layer(to_backend(np.zeros((1, 1, 5, 4))))
    with pytest.raises(ValueError, match=r"`key_positions` of .* must lie from 0 to 3, got -1\."):
        layer(to_backend(np.zeros((1, 1, 4, 2))), key_positions=to_backend([0, -1]))
    with pytest.raises(ValueError, match=r"`query_positions` of .* must lie from 0 to 3, got 4\."):
        layer(to_backend(np.zeros((1, 1, 2, 4))), start=3)


@pytest.mark.parametrize("encoding", [LEARNING[0], LEARNING[3]], ids=str)
def test_attention_of_half_precision(on, backend, to_backend, encoding):
    """Parameters stay float32 with float16 scores; the sum is rounded once."""
    if "float16" in on.known_failures:
        pytest.skip(on.known_failures["float16"])
    layer, reference_layer = both(on, encoding)
    scores = on.testing.cast(to_backend(np.full((1, 2, 4, 6), 0.5)), "float16")
    layer = on.testing.eval_mode(layer, "float16")
    got = backend.to_numpy(layer(scores))
    assert got.dtype == np.float16
    np.testing.assert_allclose(got, reference_layer(np.full((1, 2, 4, 6), 0.5, np.float32)), rtol=2**-10)


@pytest.mark.parametrize("encoding", [LEARNING[0], *LEARNING[2:]], ids=str)
def test_empty_scores(on, backend, to_backend, encoding):
    layer, _ = both(on, encoding)
    for shape in ((1, 2, 0, 4), (1, 2, 3, 0)):
        assert tuple(layer(to_backend(np.zeros(shape))).shape) == shape


@pytest.mark.parametrize("encoding", [LEARNING[0], LEARNING[3]], ids=str)
def test_learned_biases_inside_attention(on, backend, to_backend, encoding):
    layer = on.testing.eval_mode(backend.MultiHeadAttention(4, 2, position=encoding))
    x = to_backend(np.random.default_rng(0).normal(size=(2, 6, 4)))
    result = backend.to_numpy(layer(x, x, x))
    assert result.shape == (2, 6, 4)
    assert np.isfinite(result).all()


@pytest.mark.parametrize(
    "encoding",
    [Alibi(num_heads=2, sides="past"), Sandwich(num_heads=2, max_distance=50, dim=4), *LEARNING[:3], LEARNING[4]],
    ids=str,
)
def test_plain_sequences_are_as_their_positions_given(on, backend, to_backend, encoding):
    """Tables by offset, which grow with the calls, have the numbers of the formula, which positions are given to."""
    layer, _ = both(on, encoding)
    calls = [(0, 3, 4), (6, 1, 7), (200, 1, 201), (70, 64, 134), (10**6, 2, 3), (0, 5, 5)]
    for start, queries, keys in calls[:2] if isinstance(encoding, SwinBias) else calls:
        scores = to_backend(np.zeros((1, 2, queries, keys), np.float32))
        given = {"query_positions": start + np.arange(queries), "key_positions": np.arange(keys)}
        plain, general = (backend.to_numpy(x) for x in (layer(scores, start=start), layer(scores, **given)))
        rtol, atol = (2.0**-20, 2.0**-100) if isinstance(encoding, Kerple) else (0, 0)  # it takes logarithms
        np.testing.assert_allclose(plain, general, rtol=rtol, atol=atol)


@pytest.mark.parametrize("first", [0, 3])
@pytest.mark.parametrize(("queries", "keys"), [(3, 5), (5, 3), (1, 7), (6, 1), (0, 4)])
def test_biases_by_offset_are_expanded_to_queries_and_keys(on, to_backend, queries, keys, first):
    given = np.arange(2.0 * (queries + keys + first)).reshape(2, -1) ** 2
    by_offset = to_backend(given)
    one, other = (expand_offsets(x, queries=queries, keys=keys, first=first) for x in (by_offset, by_offset + 1))
    wanted = [[[row[first + j - i + queries - 1] for j in range(keys)] for i in range(queries)] for row in given]
    shape = (2, queries, keys)
    np.testing.assert_array_equal(on.backend.to_numpy(one), np.reshape(wanted, shape))
    np.testing.assert_array_equal(on.backend.to_numpy(other), np.reshape(wanted, shape) + 1)
    np.testing.assert_array_equal(on.backend.to_numpy(by_offset), given)


def test_expanded_offsets_have_gradients(on, to_backend):
    if not hasattr(on.testing, "gradient"):
        pytest.skip("This framework has no gradients.")
    weights = np.arange(15.0).reshape(1, 3, 5) ** 2
    found = on.testing.gradient(
        lambda x: expand_offsets(x, queries=3, keys=5), to_backend(np.ones((1, 8))), to_backend(weights)
    )
    wanted = [np.trace(weights[0], offset=offset) for offset in range(-2, 5)]
    np.testing.assert_array_equal(on.backend.to_numpy(found), [[*wanted, 0]])


def test_real_positions_are_refused_where_offsets_are_looked_up(to_backend):
    at, table = to_backend(np.array([0.5, 1.5], np.float32)), to_backend(np.zeros((32, 2), np.float32))
    with rejects(TypeError, "key_positions"):
        Placed(T5Bias(num_heads=2), range(2), at, {"table": table})
