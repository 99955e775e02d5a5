"""Every mistake is an error that names the argument, the value and the fix; the same in every room."""

import re

import numpy as np
import pytest

from posenc_core import Alibi, Binary, Learned, Normalized, Rotary, Sinusoidal

ROTARY = Rotary(head_dim=4, layout="half")


def raises(kind, message):
    return pytest.raises(kind, match=re.escape(message))


@pytest.mark.parametrize(
    ("arguments", "keywords", "kind", "message"),
    [
        ((0,), {}, ValueError, "`num_hiddens` must be at least 1, got 0."),
        ((4.0,), {}, TypeError, "`num_hiddens` must be an integer, got 4.0."),
        ((4, 1.0), {}, ValueError, "`dropout` must be from 0 up to but not including 1, got 1.0."),
        ((4, 0.0, -1), {}, ValueError, "`max_len` must be at least 1, got -1."),
        ((4,), {"combine": "multiply"}, ValueError, "`combine` must be one of 'add', 'concat', got 'multiply'."),
        ((4,), {"encoding": ROTARY}, TypeError, "`encoding` must be an additive encoding, got Rotary("),
        ((4,), {"encoding": Sinusoidal(dim=6)}, ValueError, "`encoding` must have `dim` 4, as `num_hiddens` says"),
    ],
)
def test_positional_encoding_is_checked_when_made(backend, arguments, keywords, kind, message):
    with raises(kind, message):
        backend.PositionalEncoding(*arguments, **keywords)


def test_rotary_embedding_is_checked_when_made(backend):
    with raises(TypeError, "`encoding` must be a rotary encoding, got Alibi(num_heads=2)."):
        backend.RotaryEmbedding(Alibi(num_heads=2))
    with raises(ValueError, "`max_len` must be at least 1, got 0."):
        backend.RotaryEmbedding(ROTARY, max_len=0)


def test_attention_bias_is_checked_when_made(backend):
    with raises(TypeError, "`encoding` must be a scoring encoding, got Rotary("):
        backend.AttentionBias(ROTARY)


@pytest.mark.parametrize(
    ("arguments", "position", "kind", "message"),
    [
        ((10, 3), None, ValueError, "`num_hiddens` must be a multiple of `num_heads` 3, got 10."),
        ((10, 0), None, ValueError, "`num_heads` must be at least 1, got 0."),
        ((12, 2, 2.0), None, ValueError, "`dropout` must be from 0 up to but not including 1, got 2.0."),
        ((12, 2), ROTARY, ValueError, "`position` must have `head_dim` 6, num_hiddens / num_heads, got Rotary("),
        ((12, 2), Alibi(num_heads=3), ValueError, "`position` must have `num_heads` 2, got Alibi(num_heads=3)."),
        ((12, 2), Sinusoidal(dim=12), TypeError, "`position` must be a rotary or scoring encoding or None"),
    ],
)
def test_attention_is_checked_when_made(backend, arguments, position, kind, message):
    with raises(kind, message):
        backend.MultiHeadAttention(*arguments, position=position)


def test_tokens_must_be_floating(backend, to_backend):
    with raises(TypeError, "`x` must be floating-point, got int32; cast it first."):
        backend.PositionalEncoding(4)(to_backend(np.ones((1, 2, 4), int)))
    with raises(TypeError, "`q` must be floating-point, got int32; cast it first."):
        backend.RotaryEmbedding(ROTARY)(to_backend(np.ones((1, 2, 4), int)))
    with raises(TypeError, "`scores` must be floating-point, got int32; cast it first."):
        backend.AttentionBias(Alibi(num_heads=1))(to_backend(np.ones((1, 2, 4), int)))


def test_tokens_must_be_as_wide_as_the_encoding(backend, to_backend):
    with raises(ValueError, "`x` must be 4 wide, got shape (1, 2, 6)."):
        backend.PositionalEncoding(4)(to_backend(np.ones((1, 2, 6), float)))
    with raises(ValueError, "`k` must be 4 wide, got shape (1, 2, 6)."):
        backend.RotaryEmbedding(ROTARY)(to_backend(np.ones((1, 2, 4), float)), to_backend(np.ones((1, 2, 6), float)))


def test_tokens_need_a_sequence_axis(backend, to_backend):
    with raises(ValueError, "`x` must have shape (..., length, width), got 1 axes: (4,)."):
        backend.PositionalEncoding(4)(to_backend(np.ones(4, float)))
    with raises(ValueError, "`q` must have shape (..., length, width), got 1 axes: (4,)."):
        backend.RotaryEmbedding(ROTARY)(to_backend(np.ones(4, float)))
    with raises(
        ValueError, "`scores` must have shape (heads, queries, keys), with a batch or without, got 2 axes: (2, 4)."
    ):
        backend.AttentionBias(Alibi(num_heads=1))(to_backend(np.ones((2, 4), float)))
    with raises(ValueError, "`seq_axis` must be an axis of `x` before its last, got -1 for 3 axes."):
        backend.RotaryEmbedding(ROTARY)(to_backend(np.ones((1, 2, 4), float)), seq_axis=-1)


@pytest.mark.parametrize("wrong", [None, "x"], ids=repr)
def test_tokens_are_arrays_of_the_framework(on, backend, wrong):
    for layer in (
        backend.PositionalEncoding(4),
        backend.RotaryEmbedding(ROTARY),
        backend.AttentionBias(Alibi(num_heads=1)),
    ):
        with pytest.raises((TypeError, ValueError)) as told:
            on.testing.eval_mode(layer)(wrong)
        assert not isinstance(told.value, AttributeError)


@pytest.mark.parametrize(
    "keywords", [{"start": None}, {"start": "3"}, {"positions": "abc"}, {"positions": {}}], ids=str
)
def test_positions_are_numbers(backend, to_backend, keywords):
    with raises(TypeError, "Positions and lengths must be numbers, lists or arrays, got "):
        backend.RotaryEmbedding(ROTARY)(to_backend(np.ones((1, 2, 4))), **keywords)


def test_seq_axis_is_an_integer(backend, to_backend):
    with raises(TypeError, "`seq_axis` must be an integer, got 1.0."):
        backend.RotaryEmbedding(ROTARY)(to_backend(np.ones((1, 2, 4))), seq_axis=1.0)


def test_keys_of_another_length_need_a_call_of_their_own(backend, to_backend):
    with raises(ValueError, "`k` must be as long as `q`, got 5 and 2; rotate them in two calls"):
        backend.RotaryEmbedding(ROTARY)(to_backend(np.ones((1, 2, 4), float)), to_backend(np.ones((1, 5, 4), float)))


def test_scores_must_have_the_heads_of_the_encoding(backend, to_backend):
    with raises(ValueError, "`scores` must have 3 heads, got shape (1, 2, 4, 4)."):
        backend.AttentionBias(Alibi(num_heads=3))(to_backend(np.ones((1, 2, 4, 4), float)))


@pytest.mark.parametrize(
    ("keywords", "kind", "message"),
    [
        (
            {"positions": np.arange(3)},
            ValueError,
            "`positions` must have shape (2,) or (1, 2) or (5, 2) to fit the tokens",
        ),
        ({"positions": np.zeros((3, 2), int)}, ValueError, "(2,) or (1, 2) or (5, 2) to fit the tokens, got (3, 2)."),
        ({"positions": np.zeros((1, 1, 2), int)}, ValueError, "to fit the tokens, got (1, 1, 2)."),
        ({"positions": np.array([True, False])}, TypeError, "`positions` must be integers or real numbers, got bool."),
        (
            {"positions": np.array([0, np.nan])},
            ValueError,
            "`positions` must be finite and below 2**31 in size, got nan.",
        ),
        ({"positions": np.array([0, 2**31])}, ValueError, "below 2**31 in size, got 2147483648."),
        ({"start": 2**31 - 1}, ValueError, "end at 2147483647, got 2147483648."),
        ({"start": -(2**70)}, ValueError, "`start` must be below 2**31 in size, got -1180591620717411303424."),
        ({"start": [1, 2, 3]}, ValueError, "`start` must have shape () or (1,) or (5,) to fit the tokens, got (3,)."),
        ({"start": [0.5] * 5}, TypeError, "`start` must be an integer, or one for each batch row, got [0.5, "),
        ({"start": 1.5}, TypeError, "`start` must be an integer, or one for each batch row, got 1.5."),
        ({"start": True}, TypeError, "`start` must be an integer, or one for each batch row, got True."),
    ],
)
def test_positions_must_fit_the_tokens(backend, to_backend, keywords, kind, message):
    with raises(kind, message):
        backend.RotaryEmbedding(ROTARY)(to_backend(np.ones((5, 3, 2, 4), float)), **keywords)


def test_tokens_without_a_batch_have_one_start(backend, to_backend):
    with raises(ValueError, "`start` must have shape () to fit the tokens, got (1,)."):
        backend.PositionalEncoding(4)(to_backend(np.ones((2, 4), float)), start=[3])


@pytest.mark.parametrize(
    ("keywords", "kind", "message"),
    [
        ({"query_positions": np.array([5])}, ValueError, "`query_positions` must have shape (3,) or (1, 3) or (2, 3)"),
        ({"key_positions": np.arange(3)}, ValueError, "`key_positions` must have shape (4,) or (1, 4) or (2, 4)"),
        ({"key_positions": np.array([0, 1, 2, np.nan])}, ValueError, "`positions` must be finite"),
        ({"start": 1.5}, TypeError, "`start` must be an integer, or one for each batch row, got 1.5."),
        ({"start": [1, 2, 3]}, ValueError, "`start` must have shape () or (1,) or (2,) to fit the tokens, got (3,)."),
    ],
)
def test_positions_must_fit_the_scores(backend, to_backend, keywords, kind, message):
    with raises(kind, message):
        backend.AttentionBias(Alibi(num_heads=1))(to_backend(np.zeros((2, 1, 3, 4))), **keywords)


@pytest.mark.parametrize(
    ("encoding", "start", "message"),
    [
        (Learned(dim=2, length=4), 3, "`positions` of Learned(dim=2, length=4) end at 3, got 4."),
        (Learned(dim=2, length=4), -1, "must lie from 0 to 3, got -1."),
        (Binary(dim=2), 3, "end at 3, got 4."),
        (Binary(dim=2, start=1), -1, "must lie from 0 to 2, got -1."),
        (Normalized(dim=2, length=4), 3, "end at 3, got 4."),
        (Normalized(dim=2, length=4), -2, "must lie from 0 to 3, got -2."),
    ],
)
def test_encodings_with_an_end_say_where_it_is(on, backend, to_backend, encoding, start, message):
    layer = on.testing.eval_mode(backend.PositionalEncoding(2, encoding=encoding))
    with raises(ValueError, message):
        layer(to_backend(np.zeros((1, 2, 2))), start=start)


@pytest.mark.parametrize(
    ("valid_lens", "message"),
    [
        ([1], "`valid_lens` must have shape (2,) or (2, 3), got (1,)."),
        ([[1, 2], [1, 2]], "`valid_lens` must have shape (2,) or (2, 3), got (2, 2)."),
        ([1, 6], "`valid_lens` must lie from 0 to the number of keys 5, got 6."),
        ([1.5, 5.0], "`valid_lens` must be integers, got float32"),
        ([-1, 5], "`valid_lens` must lie from 0 to the number of keys 5, got -1."),
    ],
)
def test_valid_lens_must_fit_the_keys(on, backend, to_backend, valid_lens, message):
    layer = on.testing.eval_mode(backend.MultiHeadAttention(4, 2))
    queries, keys = to_backend(np.zeros((2, 3, 4))), to_backend(np.zeros((2, 5, 4)))
    with raises(TypeError if "integers" in message else ValueError, message):
        layer(queries, keys, keys, to_backend(valid_lens))


@pytest.mark.parametrize(
    ("queries", "keys", "kind", "message"),
    [
        (
            np.zeros((3, 4)),
            None,
            ValueError,
            "`queries` must have shape (batch, length, num_hiddens), got 2 axes: (3, 4).",
        ),
        (np.zeros((1, 2, 3, 4)), None, ValueError, "got 4 axes: (1, 2, 3, 4)."),
        (np.zeros((2, 3, 4), int), None, TypeError, "`queries` must be floating-point, got int32; cast it first."),
        (np.zeros((2, 3, 6)), None, ValueError, "`queries` must be 4 wide, got shape (2, 3, 6)."),
        (
            np.zeros((2, 3, 4)),
            np.zeros((3, 3, 4)),
            ValueError,
            "`keys` must broadcast to shape (2, 3, 4), got (3, 3, 4).",
        ),
    ],
)
def test_attention_takes_tokens_of_one_batch(on, backend, to_backend, queries, keys, kind, message):
    layer = on.testing.eval_mode(backend.MultiHeadAttention(4, 2))
    with raises(kind, message):
        layer(
            to_backend(queries),
            to_backend(queries if keys is None else keys),
            to_backend(queries if keys is None else keys),
        )


def test_attention_takes_a_value_for_every_key(on, backend, to_backend):
    layer = on.testing.eval_mode(backend.MultiHeadAttention(4, 2))
    with raises(ValueError, "`values` must be as long as `keys`, got 2 and 3."):
        layer(*(to_backend(np.zeros((1, length, 4))) for length in (1, 3, 2)))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_positions_in_half_precision_are_refused(on, to_backend, dtype):
    if dtype in on.known_failures:
        pytest.skip(on.known_failures[dtype])
    positions, message = (
        on.testing.cast(to_backend([0.0, 1.0]), dtype),
        f"must be integers or float32, got {dtype}, which",
    )
    for layer, x in (
        (on.backend.PositionalEncoding(4), to_backend(np.ones((1, 2, 4)))),
        (on.backend.RotaryEmbedding(ROTARY), to_backend(np.ones((1, 2, 4)))),
    ):
        with raises(TypeError, message):
            layer(x, positions=positions)
        with raises(TypeError, message):
            layer(x, start=on.testing.cast(to_backend([3.0]), dtype))
    with raises(TypeError, message):
        scores = to_backend(np.ones((1, 1, 2, 2)))
        on.backend.AttentionBias(Alibi(num_heads=1))(scores, query_positions=positions)
    with raises(TypeError, message):
        tokens = [to_backend(np.ones((1, 2, 4)))] * 3
        on.testing.eval_mode(on.backend.MultiHeadAttention(4, 1))(*tokens, on.testing.cast(to_backend([1.0]), dtype))
