"""Every mistake is an error that names the argument and the value, the same in every backend."""

import numpy as np
import pytest

from posenc_core import (
    Alibi,
    Binary,
    Learned,
    Normalized,
    Rotary,
    Sinusoidal,
    attend,
    attend_by_block,
    attention_weights,
)

from ..errors import rejects
from ..hostile import complaint

ROTARY = Rotary(head_dim=4, layout="half")


@pytest.mark.parametrize(
    ("arguments", "keywords", "error", "argument", "values"),
    [
        ((0,), {}, ValueError, "num_hiddens", [0]),
        ((4.0,), {}, TypeError, "num_hiddens", [4.0]),
        ((4, 1.0), {}, ValueError, "dropout", [1.0]),
        ((4, 0.0, -1), {}, ValueError, "max_len", [-1]),
        ((4,), {"combine": "multiply"}, ValueError, "combine", ["'add'", "'concat'", "'multiply'"]),
        ((4,), {"encoding": ROTARY}, TypeError, "encoding", [ROTARY]),
        ((4,), {"encoding": Sinusoidal(dim=6)}, ValueError, "encoding", ["`dim`", 4, Sinusoidal(dim=6)]),
    ],
)
def test_positional_encoding_is_checked_when_made(backend, arguments, keywords, error, argument, values):
    with rejects(error, argument, *values):
        backend.PositionalEncoding(*arguments, **keywords)


def test_rotary_embedding_is_checked_when_made(backend):
    with rejects(TypeError, "encoding", Alibi(num_heads=2)):
        backend.RotaryEmbedding(Alibi(num_heads=2))
    with rejects(ValueError, "max_len", 0):
        backend.RotaryEmbedding(ROTARY, max_len=0)


def test_attention_bias_is_checked_when_made(backend):
    with rejects(TypeError, "encoding", ROTARY):
        backend.AttentionBias(ROTARY)


@pytest.mark.parametrize(
    ("arguments", "position", "error", "argument", "values"),
    [
        ((10, 3), None, ValueError, "num_hiddens", [3, 10]),
        ((10, 0), None, ValueError, "num_heads", [0]),
        ((12, 2, 2.0), None, ValueError, "dropout", [2.0]),
        ((12, 2), ROTARY, ValueError, "position", ["`head_dim`", 6, ROTARY]),
        ((12, 2), Alibi(num_heads=3), ValueError, "position", ["`num_heads`", 2, Alibi(num_heads=3)]),
        ((12, 2), Sinusoidal(dim=12), TypeError, "position", [Sinusoidal(dim=12)]),
    ],
)
def test_attention_is_checked_when_made(backend, arguments, position, error, argument, values):
    with rejects(error, argument, *values):
        backend.MultiHeadAttention(*arguments, position=position)


def test_tokens_must_be_floating(backend, to_backend):
    with rejects(TypeError, "x", "int32"):
        backend.PositionalEncoding(4)(to_backend(np.ones((1, 2, 4), int)))
    with rejects(TypeError, "q", "int32"):
        backend.RotaryEmbedding(ROTARY)(to_backend(np.ones((1, 2, 4), int)))
    with rejects(TypeError, "scores", "int32"):
        backend.AttentionBias(Alibi(num_heads=1))(to_backend(np.ones((1, 2, 4), int)))


def test_tokens_must_be_as_wide_as_the_encoding(backend, to_backend):
    with rejects(ValueError, "x", 4, (1, 2, 6)):
        backend.PositionalEncoding(4)(to_backend(np.ones((1, 2, 6), float)))
    with rejects(ValueError, "k", 4, (1, 2, 6)):
        backend.RotaryEmbedding(ROTARY)(to_backend(np.ones((1, 2, 4), float)), to_backend(np.ones((1, 2, 6), float)))


def test_tokens_need_a_sequence_axis(backend, to_backend):
    with rejects(ValueError, "x", (4,)):
        backend.PositionalEncoding(4)(to_backend(np.ones(4, float)))
    with rejects(ValueError, "q", (4,)):
        backend.RotaryEmbedding(ROTARY)(to_backend(np.ones(4, float)))
    with rejects(ValueError, "scores", (2, 4)):
        backend.AttentionBias(Alibi(num_heads=1))(to_backend(np.ones((2, 4), float)))
    with rejects(ValueError, "seq_axis", -1, 3):
        backend.RotaryEmbedding(ROTARY)(to_backend(np.ones((1, 2, 4), float)), seq_axis=-1)


@pytest.mark.parametrize("wrong", [None, "x"], ids=repr)
def test_tokens_are_arrays_of_the_framework(on, backend, wrong):
    for layer in (
        backend.PositionalEncoding(4),
        backend.RotaryEmbedding(ROTARY),
        backend.AttentionBias(Alibi(num_heads=1)),
    ):
        with pytest.raises((TypeError, ValueError)) as raised:
            on.testing.eval_mode(layer)(wrong)
        assert not isinstance(raised.value, AttributeError)


@pytest.mark.parametrize(
    "keywords", [{"start": None}, {"start": "3"}, {"positions": "abc"}, {"positions": {}}], ids=str
)
def test_positions_are_numbers(backend, to_backend, keywords):
    with rejects(TypeError, None, *map(repr, keywords.values())):
        backend.RotaryEmbedding(ROTARY)(to_backend(np.ones((1, 2, 4))), **keywords)


def test_seq_axis_is_an_integer(backend, to_backend):
    with rejects(TypeError, "seq_axis", 1.0):
        backend.RotaryEmbedding(ROTARY)(to_backend(np.ones((1, 2, 4))), seq_axis=1.0)


def test_keys_of_another_length_need_a_call_of_their_own(backend, to_backend):
    with rejects(ValueError, "k", "`q`", 5, 2):
        backend.RotaryEmbedding(ROTARY)(to_backend(np.ones((1, 2, 4), float)), to_backend(np.ones((1, 5, 4), float)))


def test_scores_must_have_the_heads_of_the_encoding(backend, to_backend):
    with rejects(ValueError, "scores", 3, (1, 2, 4, 4)):
        backend.AttentionBias(Alibi(num_heads=3))(to_backend(np.ones((1, 2, 4, 4), float)))


@pytest.mark.parametrize(
    ("keywords", "error", "argument", "values"),
    [
        ({"positions": np.arange(3)}, ValueError, "positions", [(2,), (1, 2), (5, 2), (3,)]),
        ({"positions": np.zeros((3, 2), int)}, ValueError, "positions", [(2,), (1, 2), (5, 2), (3, 2)]),
        ({"positions": np.zeros((1, 1, 2), int)}, ValueError, "positions", [(1, 1, 2)]),
        ({"positions": np.array([True, False])}, TypeError, "positions", ["bool"]),
        ({"positions": np.array([0, np.nan])}, ValueError, "positions", ["nan"]),
        ({"positions": np.array([0, 2**31])}, ValueError, "positions", [2**31]),
        ({"start": 2**31 - 1}, ValueError, "positions", [2**31 - 1, 2**31]),
        ({"start": -(2**70)}, ValueError, "start", [-(2**70)]),
        ({"start": [1, 2, 3]}, ValueError, "start", [(), (1,), (5,), (3,)]),
        ({"start": [0.5] * 5}, TypeError, "start", [[0.5] * 5]),
        ({"start": 1.5}, TypeError, "start", [1.5]),
        ({"start": True}, TypeError, "start", [True]),
    ],
)
def test_positions_must_fit_the_tokens(backend, to_backend, keywords, error, argument, values):
    with rejects(error, argument, *values):
        backend.RotaryEmbedding(ROTARY)(to_backend(np.ones((5, 3, 2, 4), float)), **keywords)


def test_tokens_without_a_batch_have_one_start(backend, to_backend):
    with rejects(ValueError, "start", (), (1,)):
        backend.PositionalEncoding(4)(to_backend(np.ones((2, 4), float)), start=[3])


@pytest.mark.parametrize(
    ("keywords", "error", "argument", "values"),
    [
        ({"query_positions": np.array([5])}, ValueError, "query_positions", [(3,), (1, 3), (2, 3), (1,)]),
        ({"key_positions": np.arange(3)}, ValueError, "key_positions", [(4,), (1, 4), (2, 4), (3,)]),
        ({"key_positions": np.array([0, 1, 2, np.nan])}, ValueError, "positions", ["nan"]),
        ({"start": 1.5}, TypeError, "start", [1.5]),
        ({"start": [1, 2, 3]}, ValueError, "start", [(), (1,), (2,), (3,)]),
    ],
)
def test_positions_must_fit_the_scores(backend, to_backend, keywords, error, argument, values):
    with rejects(error, argument, *values):
        backend.AttentionBias(Alibi(num_heads=1))(to_backend(np.zeros((2, 1, 3, 4))), **keywords)


@pytest.mark.parametrize(
    ("encoding", "start", "limits", "wrong"),
    [
        (Learned(dim=2, length=4), 3, [3], 4),
        (Learned(dim=2, length=4), -1, [0, 3], -1),
        (Binary(dim=2), 3, [3], 4),
        (Binary(dim=2, start=1), -1, [0, 2], -1),
        (Normalized(dim=2, length=4), 3, [3], 4),
        (Normalized(dim=2, length=4), -2, [0, 3], -2),
    ],
)
def test_encodings_of_limited_length_name_the_limit(on, backend, to_backend, encoding, start, limits, wrong):
    layer = on.testing.eval_mode(backend.PositionalEncoding(2, encoding=encoding))
    with rejects(ValueError, "positions", encoding, *limits, wrong):
        layer(to_backend(np.zeros((1, 2, 2))), start=start)


@pytest.mark.parametrize(
    ("valid_lens", "error", "values"),
    [
        ([1], ValueError, [(2,), (2, 3), (1,)]),
        ([[1, 2], [1, 2]], ValueError, [(2,), (2, 3), (2, 2)]),
        ([1, 6], ValueError, [5, 6]),
        ([1.5, 5.0], TypeError, ["float32"]),
        ([-1, 5], ValueError, [5, -1]),
    ],
)
def test_valid_lens_must_fit_the_keys(on, backend, to_backend, valid_lens, error, values):
    layer = on.testing.eval_mode(backend.MultiHeadAttention(4, 2))
    queries, keys = to_backend(np.zeros((2, 3, 4))), to_backend(np.zeros((2, 5, 4)))
    with rejects(error, "valid_lens", *values):
        layer(queries, keys, keys, to_backend(valid_lens))


@pytest.mark.parametrize(
    ("queries", "keys", "error", "argument", "values"),
    [
        (np.zeros((3, 4)), None, ValueError, "queries", [(3, 4)]),
        (np.zeros((1, 2, 3, 4)), None, ValueError, "queries", [(1, 2, 3, 4)]),
        (np.zeros((2, 3, 4), int), None, TypeError, "queries", ["int32"]),
        (np.zeros((2, 3, 6)), None, ValueError, "queries", [4, (2, 3, 6)]),
        (np.zeros((2, 3, 4)), np.zeros((3, 3, 4)), ValueError, "keys", [(2, 3, 4), (3, 3, 4)]),
    ],
)
def test_attention_takes_tokens_of_one_batch(on, to_backend, queries, keys, error, argument, values):
    layer = on.testing.eval_mode(on.backend.MultiHeadAttention(4, 2))
    with rejects(error, argument, *values):
        layer(
            to_backend(queries),
            to_backend(queries if keys is None else keys),
            to_backend(queries if keys is None else keys),
        )


def test_attention_takes_a_value_for_every_key(on, backend, to_backend):
    layer = on.testing.eval_mode(backend.MultiHeadAttention(4, 2))
    with rejects(ValueError, "values", "`keys`", 2, 3):
        layer(*(to_backend(np.zeros((1, length, 4))) for length in (1, 3, 2)))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_positions_in_half_precision_are_refused(on, to_backend, dtype):
    if dtype in on.known_failures:
        pytest.skip(on.known_failures[dtype])
    positions = on.testing.cast(to_backend([0.0, 1.0]), dtype)
    for layer, x in (
        (on.backend.PositionalEncoding(4), to_backend(np.ones((1, 2, 4)))),
        (on.backend.RotaryEmbedding(ROTARY), to_backend(np.ones((1, 2, 4)))),
    ):
        with rejects(TypeError, None, dtype):
            layer(x, positions=positions)
        with rejects(TypeError, None, dtype):
            layer(x, start=on.testing.cast(to_backend([3.0]), dtype))
    with rejects(TypeError, None, dtype):
        scores = to_backend(np.ones((1, 1, 2, 2)))
        on.backend.AttentionBias(Alibi(num_heads=1))(scores, query_positions=positions)
    with rejects(TypeError, None, dtype):
        tokens = [to_backend(np.ones((1, 2, 4)))] * 3
        on.testing.eval_mode(on.backend.MultiHeadAttention(4, 1))(*tokens, on.testing.cast(to_backend([1.0]), dtype))


@pytest.mark.parametrize("name", ["q", "k", "v", "bias", "mask"])
def test_an_array_of_another_library_is_used_or_named(backend, to_backend, name):
    x = np.ones((1, 2, 3, 4), np.float32)
    arrays = {"q": x, "k": x, "v": x, "bias": np.zeros((3, 3), np.float32), "mask": np.ones((3, 3), bool)}
    mixed = {each: array if each == name else to_backend(array) for each, array in arrays.items()}
    weighed = {each: array for each, array in mixed.items() if each != "v"}
    calls = [lambda: attend(**mixed), lambda: attend_by_block(**mixed, block=2), lambda: attention_weights(**weighed)]
    calls.append(lambda: attend(**{each: array for each, array in mixed.items() if each != "bias"}))  # fused kernels
    assert [complaint(call) for call in calls] == [None] * 4
