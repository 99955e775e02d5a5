"""`MultiHeadAttention` against NumPy in float64: masks, positions, grouped heads, caches, weights."""

import re
from itertools import pairwise

import numpy as np
import pytest

from posenc_backends.conformance.cases import cases
from posenc_core import (
    Alibi,
    AxialRotary,
    DynamicNTK,
    MultimodalRotary,
    Rotary,
    Sinusoidal,
    XPos,
    from_cu_seqlens,
    from_mask,
    same_sequence,
    sequence_ids,
)
from posenc_core.attention.attend import attend
from posenc_core.encodings import Encoding, FoPE, LearnedRotary, RotaryEncoding, ShawBias, T5Bias

RNG = np.random.default_rng(17)
NAMES = ("W_q", "W_k", "W_v", "W_o")
ROTARY = Rotary(head_dim=4, layout="half")
POSITIONS = [
    None,
    ROTARY,
    Rotary(head_dim=4, layout="interleaved"),
    XPos(head_dim=4, layout="half", scale_base=8),
    LearnedRotary(head_dim=4, layout="half", std=0.5),
    FoPE(head_dim=4, layout="half", length=32, std=0.5),
    FoPE(head_dim=4, layout="half", num_terms=2, num_heads=2, std=0.5),
    MultimodalRotary(head_dim=4, layout="half", sections=(1, 1, 0)),
    Alibi(num_heads=4),
    T5Bias(num_heads=4, num_buckets=8, max_distance=6),
    ShawBias(num_heads=4, head_dim=4, max_distance=3),
]


def class_name(position):
    return type(position).__name__


def raises(error, message):
    return pytest.raises(error, match=re.escape(message))


def tokens(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def make_layer(on, position=None, num_kv_heads=2, num_hiddens=16):
    """Return a layer of four heads and its projections; learned positions are as the backend initializes them."""
    layer = on.testing.eval_mode(
        on.backend.MultiHeadAttention(num_hiddens, 4, position=position, num_kv_heads=num_kv_heads)
    )
    kv_width = num_hiddens * num_kv_heads // 4
    widths = dict(zip(NAMES, (num_hiddens, kv_width, kv_width, num_hiddens), strict=True))
    rng = np.random.default_rng(5)
    matrices = {name: rng.normal(size=(num_hiddens, width)).astype(np.float32) / 4 for name, width in widths.items()}
    return on.testing.with_projections(layer, matrices), matrices


def attention_in_float64(matrices, q, k, v, *, rotate=None, bias=0.0, mask=True):
    """Return the result and weights of four heads in float64; `rotate(x, which)` rotates queries and keys."""
    q, k, v = (x.astype(np.float64) @ matrices[name] for x, name in zip((q, k, v), NAMES, strict=False))
    q, k, v = (x.reshape(*x.shape[:2], -1, 4).swapaxes(1, 2) for x in (q, k, v))
    if rotate is not None:
        q, k = rotate(q, "queries"), rotate(k, "keys")
    k, v = (np.repeat(x, 4 // x.shape[1], axis=1) for x in (k, v))
    scores = np.where(mask, q @ k.swapaxes(-1, -2) / 2 + bias, -np.inf)
    peak = scores.max(-1, keepdims=True)
    parts = np.exp(scores - np.where(np.isfinite(peak), peak, 0))
    weights = parts / np.maximum(parts.sum(-1, keepdims=True), 1e-300)
    result = (weights @ v).swapaxes(1, 2).reshape(*q.shape[:1], q.shape[2], -1) @ matrices["W_o"]
    return result, weights


def rotation_at(at_queries, at_keys):
    """Return a function that rotates by the definition: pair i of the half layout by position × 10000 ** (-i / 2)."""

    def rotate(x, which):
        angles = np.asarray(at_queries if which == "queries" else at_keys)[..., None] * np.array([1, 0.01])
        cos, sin = (f(angles if angles.ndim == 2 else angles[:, None]) for f in (np.cos, np.sin))
        first, second = x[..., :2], x[..., 2:]
        return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)

    return rotate


def close(on, got, wanted):
    np.testing.assert_allclose(
        on.backend.to_numpy(got), wanted, rtol=0, atol=4e-6
    )  # of numbers of 2 or 3: 16 roundings


@pytest.fixture(params=["kernel", "core"])
def kernel(request, on, monkeypatch):
    """With the framework's own fused attention, if the backend has one, and without."""
    namespace = on.backend.namespace
    if request.param == "core":
        monkeypatch.delattr(namespace, "fused_attention", raising=False)
    elif not hasattr(namespace, "fused_attention"):
        pytest.skip("The backend has no kernel.")


def test_masks_and_lengths_and_causality_are_combined(on, to_backend, kernel):
    layer, matrices = make_layer(on)
    x, lengths = tokens(2, 5, 16), np.array([[5, 5, 5, 5, 2], [0, 5, 5, 4, 5]])
    mask = RNG.random((2, 4, 5, 5)) < 0.7
    got = layer(*[to_backend(x)] * 3, to_backend(lengths), mask=on.backend.from_numpy(mask), causal=True)
    seen = mask & np.tri(5, dtype=bool) & (np.arange(5) < lengths[..., None])[:, None]
    assert not seen.any(-1).all()
    wanted = attention_in_float64(matrices, x, x, x, mask=seen)[0]
    close(on, got, wanted)
    close(on, layer(*[to_backend(x)] * 3, lengths, mask=mask, causal=True), wanted)


@pytest.mark.parametrize(("num_kv_heads", "start"), [(1, 0), (2, 3), (4, 3)])
def test_grouped_heads_and_cross_attention(on, to_backend, num_kv_heads, start, kernel):
    layer, matrices = make_layer(on, ROTARY, num_kv_heads)
    q, k, v = tokens(2, 3, 16), tokens(2, 7, 16), tokens(2, 7, 16)
    got = layer(to_backend(q), to_backend(k), to_backend(v), start=start, causal=True)
    rotate = rotation_at(range(start, start + 3), range(7))
    close(on, got, attention_in_float64(matrices, q, k, v, rotate=rotate, mask=np.tri(3, 7, start, dtype=bool))[0])


def test_a_start_for_each_row(on, to_backend):
    layer, matrices = make_layer(on, ROTARY)
    q, k = tokens(2, 3, 16), tokens(2, 7, 16)
    at = np.array([[4, 5, 6], [0, 1, 2]])
    got = layer(to_backend(q), to_backend(k), to_backend(k), None, to_backend([4, 0]), causal=True)
    seen = (at[..., None] >= np.arange(7))[:, None]
    close(on, got, attention_in_float64(matrices, q, k, k, rotate=rotation_at(at, range(7)), mask=seen)[0])


def test_given_positions_may_be_far_or_real(on, to_backend):
    layer, matrices = make_layer(on, ROTARY)
    x = tokens(2, 4, 16)
    for at in (
        np.array([2**20 + 7, 3, 2**20, -5]),
        np.array([0.5, 2.25, -1.0, 3.0]),
        np.array([[0, 1, 1, 9], [4, 3, 2, 1]]),
    ):
        got = layer(*[to_backend(x)] * 3, positions=at, key_positions=at, causal=True)
        seen = at[..., :, None] >= at[..., None, :]
        seen = seen if at.ndim == 1 else seen[:, None]
        close(on, got, attention_in_float64(matrices, x, x, x, rotate=rotation_at(at, at), mask=seen)[0])


def test_biases_at_given_positions(on, to_backend):
    layer, matrices = make_layer(on, Alibi(num_heads=4))
    q, k, at, of_keys = tokens(2, 3, 16), tokens(2, 4, 16), np.array([[9, 1, 4], [0, 0, 2]]), np.array([0, 7, 2, 3])
    got = layer(
        to_backend(q), to_backend(k), to_backend(k), positions=to_backend(at), key_positions=to_backend(of_keys)
    )
    slopes = 2.0 ** -np.array([2, 4, 6, 8])
    bias = -slopes[:, None, None] * np.abs(at[..., None] - of_keys)[:, None]
    close(on, got, attention_in_float64(matrices, q, k, k, bias=bias)[0])


def test_weights_are_returned_on_request(on, to_backend):
    layer, matrices = make_layer(on, ROTARY)
    x = tokens(2, 5, 16)
    got = layer(*[to_backend(x)] * 3, to_backend([4, 0]), causal=True, weights=True)
    seen = np.tri(5, dtype=bool) & (np.arange(5) < np.array([4, 0])[:, None, None, None])
    result, weights = attention_in_float64(matrices, x, x, x, rotate=rotation_at(range(5), range(5)), mask=seen)
    close(on, got.result, result)
    close(on, got.weights, weights)
    assert got.cache == ()
    assert on.backend.to_numpy(got.weights).shape == (2, 4, 5, 5)


@pytest.mark.parametrize("position", POSITIONS, ids=class_name)
@pytest.mark.parametrize("cuts", [(3, 7), (0, 1, 9)])
def test_decoding_with_a_cache_agrees_with_one_call(on, to_backend, position, cuts):
    layer, _ = make_layer(on, position)
    x = tokens(2, 9, 16)
    in_one_call = on.backend.to_numpy(layer(*[to_backend(x)] * 3, causal=True))
    cache, parts = (), []
    for begin, end in zip((0, *cuts), (*cuts, 9), strict=True):
        piece = to_backend(x[:, begin:end])
        got = layer(piece, piece, piece, start=begin, causal=True, cache=cache)
        cache = got.cache
        assert [tuple(array.shape) for array in cache] == [(2, 2, end, 4)] * 2
        parts.append(on.backend.to_numpy(got.result))
    np.testing.assert_allclose(np.concatenate(parts, axis=1), in_one_call, rtol=0, atol=4e-6)


@pytest.mark.parametrize("position", [ROTARY, Alibi(num_heads=4)], ids=class_name)
def test_left_padded_rows_decode_as_without_padding(on, to_backend, position):
    layer, _ = make_layer(on, position)
    x = tokens(1, 6, 16)
    wanted = on.backend.to_numpy(layer(*[to_backend(x)] * 3, causal=True))
    padded = np.concatenate([tokens(1, 2, 16), x], axis=1)
    counts = np.array([[0, 0, 1, 1, 1, 1, 1, 1]])
    positions, seen = from_mask(counts), (counts > 0)[:, None, None]
    first, rest = to_backend(padded[:, :5]), to_backend(padded[:, 5:])
    order = np.tri(8, dtype=bool)
    first_call = layer(
        first, first, first, positions=positions[:, :5], key_positions=positions[:, :5], cache=(),
        mask=seen[..., :5] & order[:5, :5],
    )  # fmt: skip
    second_call = layer(
        rest, rest, rest, start=5, positions=positions[:, 5:], key_positions=positions, cache=first_call.cache,
        mask=seen & order[5:],
    )  # fmt: skip
    got = np.concatenate([on.backend.to_numpy(part.result) for part in (first_call, second_call)], axis=1)[:, 2:]
    np.testing.assert_allclose(got, wanted, rtol=0, atol=4e-6)


@pytest.mark.parametrize("position", [ROTARY, Alibi(num_heads=4)], ids=class_name)
def test_packed_sequences_attend_as_they_do_alone(on, to_backend, position):
    layer, _ = make_layer(on, position)
    bounds, x = [0, 4, 5, 8], tokens(1, 9, 16)
    at, ids = from_cu_seqlens(bounds, length=9), sequence_ids(bounds, length=9)
    packed = layer(
        *[to_backend(x)] * 3,
        positions=at,
        key_positions=at,
        mask=on.backend.from_numpy(same_sequence(ids, ids)),
        causal=True,
    )
    alone = [
        on.backend.to_numpy(layer(*[to_backend(x[:, begin:end])] * 3, causal=True)) for begin, end in pairwise(bounds)
    ]
    np.testing.assert_allclose(on.backend.to_numpy(packed)[:, :8], np.concatenate(alone, axis=1), rtol=0, atol=4e-6)
    assert np.abs(on.backend.to_numpy(packed)[:, 8]).max() == 0


def test_positions_on_several_axes_are_causal_in_the_order_of_the_sequence(on, to_backend):
    encoding = MultimodalRotary(head_dim=4, layout="half", sections=(1, 0, 1))
    layer, matrices = make_layer(on, encoding)
    x, at = tokens(2, 4, 16), np.array([[0, 5, 5, 2], [0, 1, 1, 1], [3, 2, 1, 0]])
    for positions in (at, np.stack([at, at], axis=1)):
        got = layer(*[to_backend(x)] * 3, positions=positions, key_positions=positions, causal=True)

        def rotate(x, which):
            angles = np.stack([at[0] * 1.0, at[2] * 0.01], axis=-1)
            first, second = x[..., :2], x[..., 2:]
            cos, sin = np.cos(angles), np.sin(angles)
            return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)

        close(on, got, attention_in_float64(matrices, x, x, x, rotate=rotate, mask=np.tri(4, dtype=bool))[0])


def test_images_have_positions_on_a_grid(on, to_backend):
    encoding = AxialRotary(head_dim=4, layout="half", axes_dims=(2, 2))
    layer, matrices = make_layer(on, encoding)
    x, at = tokens(1, 6, 16), np.stack(np.divmod(np.arange(6), 3))

    def rotate(x, which):
        angles = at.T.astype(np.float64)  # each axis has one pair, of frequency 1
        first, second = x[..., :2], x[..., 2:]
        cos, sin = np.cos(angles), np.sin(angles)
        return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)

    close(
        on,
        layer(*[to_backend(x)] * 3, positions=at, key_positions=at),
        attention_in_float64(matrices, x, x, x, rotate=rotate)[0],
    )
    with raises(ValueError, "`positions` must have shape (2, ..., length), got (3, 6)."):
        layer(*[to_backend(x)] * 3, positions=np.zeros((3, 6)), key_positions=np.zeros((3, 6)))


def test_frequencies_depend_on_the_total_length(on, to_backend):
    encoding = Rotary(head_dim=4, layout="half", scaling=DynamicNTK(factor=2, original_max_position_embeddings=4))
    assert isinstance(encoding, RotaryEncoding)
    x = to_backend(tokens(1, 9, 16))
    layer, _ = make_layer(on, encoding)
    wanted = on.backend.to_numpy(make_layer(on, encoding.at(9))[0](x, x, x, causal=True))
    np.testing.assert_array_equal(on.backend.to_numpy(layer(x, x, x, causal=True)), wanted)
    at = np.arange(9)
    got = on.backend.to_numpy(layer(x, x, x, positions=at, key_positions=at, causal=True))
    np.testing.assert_array_equal(got, wanted)
    step = layer(
        x[:, 8:, :],
        x[:, 8:, :],
        x[:, 8:, :],
        start=8,
        causal=True,
        cache=cache_of(make_layer(on, encoding.at(9))[0], x[:, :8, :]),
    )
    np.testing.assert_allclose(on.backend.to_numpy(step.result)[:, 0], wanted[:, 8], rtol=0, atol=4e-6)


def cache_of(layer, x):
    return layer(x, x, x, causal=True, cache=()).cache


def test_no_queries_and_no_keys(on, to_backend):
    layer, _ = make_layer(on, ROTARY)
    none, some = to_backend(np.zeros((2, 0, 16))), to_backend(tokens(2, 3, 16))
    assert tuple(layer(none, some, some).shape) == (2, 0, 16)
    got = layer(some, none, none, weights=True)
    assert np.abs(on.backend.to_numpy(got.result)).max() == 0
    assert tuple(got.weights.shape) == (2, 4, 3, 0)


@pytest.mark.parametrize(
    ("arguments", "position", "error", "message"),
    [
        ({"num_kv_heads": 3}, None, ValueError, "`num_kv_heads` must divide `num_heads` 4, as 1, 2, 4 do, got 3."),
        ({"num_kv_heads": 0}, None, ValueError, "`num_kv_heads` must be at least 1, got 0."),
        (
            {"num_kv_heads": 2},
            FoPE(head_dim=4, layout="half", num_terms=1, num_heads=4),
            ValueError,
            "`position` must have `num_heads` that divide 2, got FoPE(",
        ),
        ({}, Sinusoidal(dim=16), TypeError, "got Sinusoidal(dim=16); PositionalEncoding adds the others to tokens."),
        (
            {},
            AxialRotary(head_dim=8, layout="half", axes_dims=(4, 4)),
            ValueError,
            "must have `head_dim` 4, num_hiddens",
        ),
        (
            {},
            ShawBias(num_heads=4, head_dim=8, max_distance=2),
            ValueError,
            "must have `head_dim` 4, num_hiddens / num_h",
        ),
    ],
)
def test_wrong_arguments_of_the_constructor(backend, arguments, position, error, message):
    with raises(error, message):
        backend.MultiHeadAttention(16, 4, position=position, **arguments)


def pair(length, *, batch=2, heads=2, width=4):
    return [np.zeros((batch, heads, length, width))] * 2


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"cache": 3}, TypeError, "`cache` must be a pair (keys, values), or () to begin with, got int."),
        ({"cache": pair(2)[:1]}, TypeError, "`cache` must be a pair (keys, values), or () to begin with, got list."),
        ({"cache": pair(5), "start": 3}, ValueError, "`start` must be the length of the `cache`, 5, got 3."),
        ({"cache": (), "start": 3}, ValueError, "`start` must be the length of the `cache`, 0, got 3."),
        ({"cache": pair(3, heads=4), "start": 3}, ValueError,
         "`cache` must have shape (2, 2, 3, 4) to go before the new"),
        ({"cache": pair(3, batch=1), "start": 3}, ValueError, "new keys, got (1, 2, 3, 4)."),
        ({"cache": [np.zeros((2, 3, 8))] * 2, "start": 3}, ValueError,
         "shape (batch, num_kv_heads, start, head_dim), got 3"),
        ({"cache": pair(3), "start": np.array([3, 2])}, ValueError,
         "`start` must be one integer with a `cache`, its len"),
        ({"start": 1.5}, TypeError, "`start` must be an integer, or one for each batch row, got 1.5."),
        ({"mask": np.ones((5, 5))}, TypeError, "`mask` must be bool, True where a query sees a key, got float32."),
        ({"mask": np.ones((5, 4), bool)}, ValueError, "`mask` must broadcast to shape (2, 4, 5, 5), got (5, 4)."),
        ({"positions": range(5)}, ValueError,
         "`key_positions` must be given with `positions`; those of self-attention"),
        ({"positions": range(4), "key_positions": range(5)}, ValueError,
         "`positions` must have shape (5,) or (1, 5) or (2, 5)"),
        ({"key_positions": range(6)}, ValueError,
         "`key_positions` must have shape (5,) or (1, 5) or (2, 5) to fit the"),
        ({"key_positions": [[0] * 5] * 3}, ValueError,
         "`key_positions` must have shape (5,) or (1, 5) or (2, 5) to fit"),
        ({"key_positions": [0, 1, 2, 3, np.nan]}, ValueError,
         "`positions` must be finite and below 2**31 in size, got nan"),
        ({"valid_lens": np.array([6, 0])}, ValueError, "`valid_lens` must lie from 0 to the number of keys 5, got 6."),
    ],
)  # fmt: skip
def test_wrong_arguments_of_a_call(on, to_backend, options, error, message):
    layer, x = make_layer(on, ROTARY)[0], to_backend(tokens(2, 5, 16))
    options = {
        name: [to_backend(array) for array in value] if name == "cache" and isinstance(value, list) else value
        for name, value in options.items()
    }
    if isinstance(options.get("mask"), np.ndarray):
        options["mask"] = on.backend.from_numpy(options["mask"].astype(options["mask"].dtype.name.replace("64", "32")))
    with raises(error, message):
        layer(x, x, x, **options)


def test_a_cache_past_the_end_of_an_encoding(on, to_backend):
    encoding = XPos(head_dim=4, layout="half", scale_base=1)
    x, end = to_backend(tokens(1, 1, 16)), encoding.limit
    cache = [to_backend(np.zeros((1, 2, end, 4)))] * 2
    with raises(ValueError, f"end at {end - 1}, got {end}."):
        make_layer(on, encoding)[0](x, x, x, start=end, cache=cache)


@pytest.mark.parametrize(  # golden numbers show that other positions are compiled
    "position",
    [None, *(pytest.param(one, marks=pytest.mark.slow) for one in (ROTARY, Alibi(num_heads=4), POSITIONS[7]))],
    ids=class_name,
)
def test_causal_calls_are_compiled(on, to_backend, position, traced):
    if "compiled" in on.known_failures:
        pytest.skip("This framework has no compiler.")
    layer, _ = make_layer(on, position)
    x = to_backend(tokens(2, 6, 16))
    lengths = to_backend([6, 4])
    eager = [on.backend.to_numpy(layer(x, x, x, valid_lens, causal=True)) for valid_lens in (None, lengths)]
    compiled = traced(layer)
    for valid_lens, wanted in zip((None, lengths), eager, strict=True):
        arguments = () if valid_lens is None else (valid_lens,)
        got = compiled(x, x, x, *arguments, causal=True)
        np.testing.assert_allclose(on.backend.to_numpy(got), wanted, rtol=0, atol=4e-6)


@pytest.mark.parametrize("position", [None, Encoding.from_dict(ROTARY.to_dict()), Alibi(num_heads=4)], ids=class_name)
def test_gradients_agree_with_finite_differences(on, to_backend, position, kernel):
    """Compare with central differences in float64; the second row has no visible key, and no gradient."""
    if "gradient" in on.known_failures:
        pytest.skip("This framework has no gradients.")
    layer, matrices = make_layer(on, position)
    q, k, cotangent = tokens(2, 3, 16), tokens(2, 4, 16), tokens(2, 3, 16)
    mask = np.tri(3, 4, dtype=bool)[None, None] & np.array([True, False])[:, None, None, None]
    slopes = 2.0 ** -np.array([2, 4, 6, 8])
    distance = np.abs(np.subtract.outer(range(3), range(4)))
    bias = -slopes[:, None, None] * distance if isinstance(position, Alibi) else 0.0
    rotate = rotation_at(range(3), range(4)) if isinstance(position, Rotary) else None

    def loss(q):
        return (attention_in_float64(matrices, q, k, k, rotate=rotate, bias=bias, mask=mask)[0] * cotangent).sum()

    wanted = np.zeros(q.shape)
    for index in np.ndindex(*q.shape):
        step = np.zeros(q.shape)
        step[index] = 1e-5
        wanted[index] = (loss(q + step) - loss(q - step)) / 2e-5
    native_mask = on.backend.from_numpy(mask)
    call = lambda x: layer(x, to_backend(k), to_backend(k), mask=native_mask)
    got = on.backend.to_numpy(on.testing.gradient(call, to_backend(q), to_backend(cotangent)))
    np.testing.assert_allclose(got, wanted, rtol=0, atol=2e-5)
    assert np.abs(got[1]).max() == 0


@pytest.mark.parametrize(
    "case",
    [
        case
        for case in cases()
        if case.label.startswith(("MultiHeadAttention", "attend"))
        and case.check != "compiled"
        and not any(name in case.label for name in ("SelfExtend", "ReRoPE", "DualChunk"))  # which no kernel computes
    ],
    ids=lambda case: case.name,
)
def test_golden_numbers_without_the_fused_kernel(on, monkeypatch, case):
    if not hasattr(on.backend.namespace, "fused_attention") or case.known_failure(on.known_failures):
        pytest.skip("The backend has no kernel, or this is a known failure.")
    monkeypatch.delattr(on.backend.namespace, "fused_attention")
    assert case.run(on).passed


def test_float64_is_not_rounded_to_float32(backend):
    q = np.random.default_rng(0).normal(size=(1, 2, 5, 4))
    x = backend.from_numpy(q)
    if "float64" not in str(x.dtype):
        pytest.skip("float64 is switched off in this framework.")
    parts = np.exp(q @ q.swapaxes(-1, -2) / 2)
    wanted = parts / parts.sum(axis=-1, keepdims=True) @ q
    np.testing.assert_allclose(backend.to_numpy(attend(x, x, x)), wanted, rtol=0, atol=1e-14)
