"""Each way to call a layer, against rows of the exact tables."""

import numpy as np
import pytest

from posenc_core import Alibi, Binary, Integer, Learned, Rotary, Sinusoidal, rotate

ROTARY = Rotary(head_dim=8, layout="half")
RNG = np.random.default_rng(0)


def tokens(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def rotated_by_numpy(x, positions, encoding=ROTARY):
    """Rotate `x`, `(batch, heads, length, head_dim)`, with NumPy at positions `(length,)` or `(batch, length)`."""
    cos, sin = encoding.cos_sin(np.broadcast_to(positions, (x.shape[0], x.shape[2])))
    return rotate(x, cos[:, None], sin[:, None], layout=encoding.layout)


def test_d2l_calls_work_unchanged(backend, to_backend):
    encoding = backend.PositionalEncoding(32, 0)
    result = encoding(to_backend(np.zeros((1, 60, 32))))
    assert tuple(encoding.P.shape) == (1, 1000, 32)
    np.testing.assert_array_equal(backend.to_numpy(result), backend.to_numpy(encoding.P[:, :60, :]))


def test_all_backends_have_the_same_bytes(backend):
    held = backend.to_numpy(backend.PositionalEncoding(32).P)[0]
    assert held.dtype == np.float32
    assert held.tobytes() == Sinusoidal(dim=32).table(range(1000)).tobytes()


@pytest.mark.parametrize("shape", [(5, 4), (2, 5, 4), (2, 3, 5, 4)])
def test_addition_takes_any_batch_shape(backend, to_backend, shape):
    x = tokens(*shape)
    result = backend.to_numpy(backend.PositionalEncoding(4)(to_backend(x)))
    np.testing.assert_array_equal(result, x + Sinusoidal(dim=4).table(range(5)))


def test_concat_appends_the_rows(backend, to_backend):
    x = tokens(2, 5, 3)
    result = backend.to_numpy(backend.PositionalEncoding(4, combine="concat")(to_backend(x)))
    np.testing.assert_array_equal(result[..., :3], x)
    np.testing.assert_array_equal(result[..., 3:], np.broadcast_to(Sinusoidal(dim=4).table(range(5)), (2, 5, 4)))


@pytest.mark.parametrize("start", [3, 2**20, -4], ids=["small", "far", "negative"])
def test_start_is_the_first_position(backend, to_backend, start):
    x = tokens(2, 3, 4, 8)
    result = backend.RotaryEmbedding(ROTARY)(to_backend(x), start=start)
    np.testing.assert_array_equal(backend.to_numpy(result), rotated_by_numpy(x, np.arange(start, start + 4)))


@pytest.mark.parametrize("make", [list, np.array, "native"], ids=["list", "numpy", "native"])
def test_start_may_differ_by_batch_row(backend, to_backend, make):
    x, start = tokens(2, 3, 4, 8), [7, 2045]
    argument = to_backend(start) if make == "native" else make(start)
    result = backend.RotaryEmbedding(ROTARY)(to_backend(x), start=argument)
    np.testing.assert_array_equal(backend.to_numpy(result), rotated_by_numpy(x, np.add.outer(start, np.arange(4))))


@pytest.mark.parametrize("make", [np.array, "native"], ids=["numpy", "native"])
@pytest.mark.parametrize(
    "positions",
    [[3, 1, 4, 1], [[0, 1, 2, 3], [9, 9, 2**20, 0]], [-1, 0, 2**20, -(2**20)], [0.5, 1.25, -3.75, 1e5]],
    ids=["length", "batch and length", "negative", "real"],
)
def test_positions_override_start(backend, to_backend, make, positions):
    x = tokens(2, 3, 4, 8)
    argument = to_backend(positions) if make == "native" else make(positions)
    result = backend.RotaryEmbedding(ROTARY)(to_backend(x), positions=argument)
    np.testing.assert_array_equal(backend.to_numpy(result), rotated_by_numpy(x, np.array(positions)))


@pytest.mark.parametrize("seq_axis", [-2, -3, 1, 0])
def test_the_sequence_may_be_any_axis_before_the_last(backend, to_backend, seq_axis):
    x = tokens(2, 3, 4, 8)
    moved = np.moveaxis(x, 2, seq_axis) if seq_axis != -2 else x
    argument = to_backend(np.ascontiguousarray(moved))
    result = backend.to_numpy(backend.RotaryEmbedding(ROTARY)(argument, seq_axis=seq_axis))
    np.testing.assert_array_equal(
        np.moveaxis(result, seq_axis, 2) if seq_axis != -2 else result, rotated_by_numpy(x, range(4))
    )


@pytest.mark.parametrize("seq_axis", [-2, -3, 0])
def test_positions_by_batch_row_follow_the_sequence_axis(backend, to_backend, seq_axis):
    x, start = tokens(2, 3, 4, 8), np.array([5, 0])
    axes = {-2: (0, 1, 2, 3), -3: (0, 2, 1, 3), 0: (2, 0, 1, 3)}[seq_axis]
    argument = to_backend(np.ascontiguousarray(x.transpose(axes)))
    result = backend.to_numpy(backend.RotaryEmbedding(ROTARY)(argument, start=start, seq_axis=seq_axis))
    np.testing.assert_array_equal(
        result.transpose(np.argsort(axes)), rotated_by_numpy(x, start[:, None] + np.arange(4))
    )


def test_queries_and_keys_are_rotated_alike(backend, to_backend):
    q, k = tokens(2, 4, 5, 8), tokens(2, 2, 5, 8)
    rotated = backend.RotaryEmbedding(ROTARY)(to_backend(q), to_backend(k), start=9)
    for x, result in zip((q, k), rotated, strict=True):
        np.testing.assert_array_equal(backend.to_numpy(result), rotated_by_numpy(x, range(9, 14)))


@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_channels_beyond_rotary_dim_are_unchanged(backend, to_backend, layout):
    partial = Rotary(head_dim=8, layout=layout, rotary_dim=4)
    x = tokens(1, 1, 6, 8)
    result = backend.to_numpy(backend.RotaryEmbedding(partial)(to_backend(x)))
    np.testing.assert_array_equal(result, rotated_by_numpy(x, range(6), partial))
    assert result[..., 4:].tobytes() == x[..., 4:].tobytes()


@pytest.mark.parametrize("length", [0, 1])
def test_short_inputs(backend, to_backend, length):
    x = tokens(2, 3, length, 8)
    np.testing.assert_array_equal(
        backend.to_numpy(backend.RotaryEmbedding(ROTARY)(to_backend(x))), rotated_by_numpy(x, range(length))
    )
    rows = backend.PositionalEncoding(8)(to_backend(x[:, 0]))
    np.testing.assert_array_equal(backend.to_numpy(rows), x[:, 0] + Sinusoidal(dim=8).table(np.arange(length)))


def test_transposed_views(backend, to_backend):
    x = tokens(2, 4, 3, 8)
    view = backend.namespace.permute_dims(to_backend(x), (0, 2, 1, 3))
    np.testing.assert_array_equal(
        backend.to_numpy(backend.RotaryEmbedding(ROTARY)(view)), rotated_by_numpy(x.transpose(0, 2, 1, 3), range(4))
    )


def test_the_table_grows_when_calls_go_past_it(backend, to_backend):
    layer = backend.PositionalEncoding(4, max_len=3)
    for start in range(9):
        row = backend.to_numpy(layer(to_backend(np.zeros((1, 1, 4))), start=start))
        np.testing.assert_array_equal(row[0], Sinusoidal(dim=4).table([start]))
    assert layer.P.shape[1] == 12
    long = backend.to_numpy(layer(to_backend(np.zeros((1, 100, 4)))))
    np.testing.assert_array_equal(long[0], Sinusoidal(dim=4).table(range(100)))


def test_a_lone_far_position_does_not_grow_the_table(backend, to_backend):
    layer = backend.PositionalEncoding(4, max_len=3)
    row = backend.to_numpy(layer(to_backend(np.zeros((1, 1, 4))), start=2**30))
    np.testing.assert_array_equal(row[0], Sinusoidal(dim=4).table([2**30]))
    assert layer.P.shape[1] == 3


def test_calls_do_not_depend_on_the_calls_before(backend, to_backend):
    x = to_backend(tokens(1, 2, 6, 8))
    layer = backend.RotaryEmbedding(ROTARY, max_len=4)
    first = backend.to_numpy(layer(x))
    layer(x, start=500)
    layer(x, positions=np.arange(6)[::-1].copy())
    np.testing.assert_array_equal(backend.to_numpy(layer(x)), first)


def test_layers_of_different_bases_are_independent(backend, to_backend):
    x = tokens(1, 1, 5, 8)
    for base in (10000, 500000.0):
        encoding = Rotary(head_dim=8, layout="half", base=base)
        result = backend.to_numpy(backend.RotaryEmbedding(encoding)(to_backend(x)))
        np.testing.assert_array_equal(result, rotated_by_numpy(x, range(5), encoding))


def test_integers_are_added_as_they_are(backend, to_backend):
    layer = backend.PositionalEncoding(2, encoding=Integer(dim=2))
    result = backend.to_numpy(layer(to_backend(np.zeros((1, 3, 2))), start=5))
    np.testing.assert_array_equal(result[0], [[5, 5], [6, 6], [7, 7]])


def test_learned_rows_come_from_the_parameter(on, backend, to_backend):
    layer = on.testing.eval_mode(backend.PositionalEncoding(4, encoding=Learned(dim=4, length=6)))
    table = backend.to_numpy(layer.P)[0]
    assert table.shape == (6, 4)
    assert 0 < np.abs(table).max() < 0.2
    result = backend.to_numpy(layer(to_backend(np.zeros((1, 3, 4))), start=2))
    np.testing.assert_array_equal(result[0], table[2:5])


def test_bias_counts_from_start_or_takes_positions(backend, to_backend):
    encoding = Alibi(num_heads=2)
    scores = to_backend(np.zeros((1, 2, 1, 6)))
    layer = backend.AttentionBias(encoding)
    np.testing.assert_array_equal(backend.to_numpy(layer(scores, start=5))[0], encoding.bias([5], range(6)))
    argument = layer(scores, query_positions=np.array([[4]]), key_positions=np.array([[0, 0, 1, 2, 3, 4]]))
    np.testing.assert_array_equal(backend.to_numpy(argument)[0], encoding.bias([4], [0, 0, 1, 2, 3, 4]))


@pytest.mark.parametrize("position", [None, Rotary(head_dim=20, layout="half"), Alibi(num_heads=5)], ids=str)
@pytest.mark.parametrize("valid_lens", [[3, 0], [[1, 2, 3, 4], [0, 0, 0, 1]]], ids=["rows", "queries"])
def test_a_query_without_visible_keys_gives_zeros(on, backend, to_backend, position, valid_lens):
    layer = on.testing.eval_mode(backend.MultiHeadAttention(100, 5, 0.5, position=position))
    x = to_backend(np.ones((2, 4, 100)))
    result = backend.to_numpy(layer(x, x, x, to_backend(valid_lens)))
    assert result.shape == (2, 4, 100)
    assert np.isfinite(result).all()
    assert np.abs(result[0]).max() > 0
    assert np.abs(result[1, :3]).max() == 0


def test_cross_attention(on, backend, to_backend):
    layer = on.testing.eval_mode(
        backend.MultiHeadAttention(8, 2, bias=True, position=Rotary(head_dim=4, layout="half"))
    )
    result = layer(to_backend(tokens(2, 3, 8)), to_backend(tokens(2, 7, 8)), to_backend(tokens(2, 7, 8)))
    assert tuple(result.shape) == (2, 3, 8)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_narrow_integers_do_not_overflow(on, backend, to_backend, dtype):
    keys = to_backend(np.random.default_rng(0).normal(size=(2, 300, 4)))
    layer = on.testing.eval_mode(backend.MultiHeadAttention(4, 2))
    lengths_narrow, lengths_int32 = (to_backend([100, 3], kind) for kind in (dtype, "int32"))
    got, wanted = (
        backend.to_numpy(layer(keys[:, :2, :], keys, keys, lengths)) for lengths in (lengths_narrow, lengths_int32)
    )
    np.testing.assert_array_equal(got, wanted)
    encoding = Alibi(num_heads=1)
    scores = to_backend(np.zeros((1, 1, 2, 300)))
    bias = backend.AttentionBias(encoding)(scores, query_positions=to_backend([1, 2], dtype))
    np.testing.assert_array_equal(backend.to_numpy(bias)[0], encoding.bias([1, 2], range(300)))


def test_integral_floats_are_integers(backend, to_backend):
    layer = backend.PositionalEncoding(2, encoding=Binary(dim=2))
    rows = layer(to_backend(np.zeros((1, 2, 2))), positions=to_backend([1.0, 3.0]))
    np.testing.assert_array_equal(backend.to_numpy(rows)[0], [[0, 1], [1, 1]])


def test_ranges_and_empty_lists_are_positions(backend, to_backend):
    x = tokens(1, 2, 3, 8)
    np.testing.assert_array_equal(
        backend.to_numpy(backend.RotaryEmbedding(ROTARY)(to_backend(x), positions=range(4, 7))),
        rotated_by_numpy(x, range(4, 7)),
    )
    empty = backend.PositionalEncoding(4)(to_backend(np.zeros((1, 0, 4))), positions=[])
    assert tuple(empty.shape) == (1, 0, 4)
