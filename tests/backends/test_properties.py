"""A few examples of the properties that `tests/core/properties` tests at random, in float32."""

import numpy as np
import pytest

from posenc_core import Alibi, Rotary, ShawBias, Sinusoidal
from posenc_core.encodings import Scoring
from posenc_core.encodings.examples import examples

RNG = np.random.default_rng(23)
UNIT = 2.0**-24
FAR = 2**20
HEADS = {"num_heads": 4}
ONE_OF_EACH = [Rotary(head_dim=4, layout="half"), Alibi(**HEADS), ShawBias(**HEADS, head_dim=4, max_distance=3)]
IN_ATTENTION_TESTS = ("Alibi", "ShawBias", "T5Bias")  # `test_attention.py` decodes with them
CACHED = [
    encoding
    for encoding in examples(Scoring, **HEADS, head_dim=4, window=(3, 3))
    if type(encoding).__name__ not in IN_ATTENTION_TESTS
]


def class_name(encoding):
    return type(encoding).__name__


def tokens(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def attention(on, position=None):
    """Return a layer of four heads with fixed parameters."""
    rng = np.random.default_rng(5)
    layer = on.testing.eval_mode(on.backend.MultiHeadAttention(16, 4, position=position))
    if position is not None and position.parameters():
        numbers = {
            name: (parameter.mean + max(parameter.std, 0.3) * rng.normal(size=parameter.shape)).astype(np.float32)
            for name, parameter in position.parameters().items()
        }
        if on.testing.with_parameters(layer.scoring, numbers) is not layer.scoring:  # immutable layers (JAX)
            layer = on.testing.with_parameters(layer, numbers)
    names = ("W_q", "W_k", "W_v", "W_o")
    return on.testing.with_projections(
        layer, {name: rng.normal(size=(16, 16)).astype(np.float32) / 4 for name in names}
    )


def close(on, got, wanted):
    """Compare numbers of 2 or 3, each a sum of 16 rounded products."""
    np.testing.assert_allclose(on.backend.to_numpy(got), wanted, rtol=0, atol=4e-6)


@pytest.mark.parametrize("convention", ["interleaved", "concatenated", "tensor2tensor", "timestep"])
def test_products_of_rows_depend_only_on_the_distance(on, to_backend, convention):
    layer = on.testing.eval_mode(on.backend.PositionalEncoding(10, encoding=Sinusoidal(dim=10, convention=convention)))
    rows = [
        on.backend.to_numpy(layer(to_backend(np.zeros((1, 3, 10))), positions=np.array([0, 5, 300]) + by))[0]
        for by in (0, 77, FAR)
    ]
    here, *there = ((products_of.astype(np.float64)) @ products_of.astype(np.float64).T for products_of in rows)
    for products in there:
        np.testing.assert_allclose(products, here, rtol=0, atol=5 * 4 * UNIT)  # five pairs, each off by 2**-24.5


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_rotation_keeps_norms_and_scores_depend_only_on_the_distance(on, to_backend, layout):
    layer, x = on.backend.RotaryEmbedding(Rotary(head_dim=8, layout=layout)), tokens(1, 1, 4, 8)
    scores, norms = [], np.linalg.norm(x[0, 0].astype(np.float64), axis=-1)
    for by in (0, 77, FAR):
        rotated = on.backend.to_numpy(layer(to_backend(x), positions=np.array([0, 5, 300, 9]) + by))[0, 0].astype(
            np.float64
        )
        np.testing.assert_allclose(np.linalg.norm(rotated, axis=-1), norms, rtol=4 * UNIT)  # table, products and sum
        scores.append(rotated @ rotated.T)
    for there in scores[1:]:
        np.testing.assert_array_less(np.abs(there - scores[0]), 16 * UNIT * np.outer(norms, norms))


def test_a_projection_of_a_concatenation_is_a_sum_of_projections(on, to_backend):
    layer = on.testing.eval_mode(on.backend.PositionalEncoding(6, combine="concat"))
    x, matrix = tokens(2, 3, 5), RNG.normal(size=(11, 4))
    both = on.backend.to_numpy(layer(to_backend(x)))
    np.testing.assert_array_equal(both[..., :5], x)
    rows = Sinusoidal(dim=6).table(range(3)).astype(np.float64)
    np.testing.assert_allclose(both @ matrix, x @ matrix[:5] + rows @ matrix[5:], rtol=0, atol=1e-13)


def test_attention_follows_a_permutation_of_its_tokens(on, to_backend):
    layer, x, order = attention(on), tokens(2, 6, 16), np.array([3, 0, 5, 1, 4, 2])
    wanted = on.backend.to_numpy(layer(*[to_backend(x)] * 3))
    close(on, layer(*[to_backend(x[:, order])] * 3), wanted[:, order])


@pytest.mark.parametrize("position", ONE_OF_EACH, ids=class_name)
def test_attention_with_positions_does_not_follow_a_permutation(on, to_backend, position):
    layer, x, order = attention(on, position), tokens(2, 6, 16), np.array([3, 0, 5, 1, 4, 2])
    wanted = on.backend.to_numpy(layer(*[to_backend(x)] * 3))
    mixed = on.backend.to_numpy(layer(*[to_backend(x[:, order])] * 3))
    assert np.abs(mixed - wanted[:, order]).max() > 1e-3


@pytest.mark.parametrize("position", CACHED, ids=class_name)
def test_decoding_with_a_cache_agrees_with_one_call(on, to_backend, position):
    layer, x = attention(on, position), tokens(2, 7, 16)
    in_one_call, cache = on.backend.to_numpy(layer(*[to_backend(x)] * 3, causal=True)), ()
    for begin, end in ((0, 4), (4, 7)):
        piece = to_backend(x[:, begin:end])
        result, _, cache = layer(piece, piece, piece, start=begin, causal=True, cache=cache)
        close(on, result, in_one_call[:, begin:end])
