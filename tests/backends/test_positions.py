"""Position builders on arrays of the framework, against positions computed one by one."""

from itertools import pairwise

import numpy as np
import pytest

from posenc_core import AxialRotary, Rotary, augment, normalized_grid, rotate
from posenc_core._array_api.namespace import dtype_name
from posenc_core.positions import (
    counted_from,
    from_cu_seqlens,
    from_mask,
    sequence_ids,
    sequence_ids_from_positions,
    shard,
    to_cu_seqlens,
)

ROTARY = Rotary(head_dim=8, layout="half")
LENGTHS = [7, 3, 5]
MASK = np.array([[0] * (7 - length) + [1] * length for length in LENGTHS])
POSITIONS = np.array([[0] * (7 - length) + list(range(length)) for length in LENGTHS])


def tokens(*shape):
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


@pytest.fixture
def compiled(on, backend, traced):
    """The compiler of the framework for functions of arrays; Gluon compiles only blocks."""
    if "compiled" in on.known_failures or backend.__name__.endswith("mxnet"):
        pytest.skip("This framework compiles no functions.")
    return traced


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "int64"])
def test_masks_count_the_tokens_that_count(backend, to_backend, dtype):
    positions = from_mask(to_backend(MASK, dtype))
    assert dtype_name(positions) in ("int32", "int64")
    np.testing.assert_array_equal(backend.to_numpy(positions), POSITIONS)
    np.testing.assert_array_equal(backend.to_numpy(from_mask(to_backend(MASK[1], dtype))), POSITIONS[1])


@pytest.mark.parametrize("shape", [(0,), (2, 0), (0, 3)], ids=str)
def test_masks_may_be_empty(to_backend, shape):
    assert tuple(from_mask(to_backend(np.zeros(shape, int))).shape) == shape


def test_additive_masks_are_rejected(to_backend):
    with pytest.raises(TypeError, match="`mask` must be booleans or integers, got float32; cast it first"):
        from_mask(to_backend(np.where(MASK, 0.0, -1e9)))


def test_positions_from_masks_in_compiled_code(backend, to_backend, compiled):
    np.testing.assert_array_equal(backend.to_numpy(compiled(from_mask)(to_backend(MASK))), POSITIONS)


def test_left_padded_rows_are_rotated_as_without_padding(backend, to_backend):
    x, layer = tokens(3, 2, 7, 8), backend.RotaryEmbedding(ROTARY)
    padded = backend.to_numpy(layer(to_backend(x), positions=from_mask(to_backend(MASK))))
    for index, length in enumerate(LENGTHS):
        alone = backend.to_numpy(layer(to_backend(x[index : index + 1, :, 7 - length :])))
        np.testing.assert_array_equal(padded[index, :, 7 - length :], alone[0])
        np.testing.assert_array_equal(padded[index, :, : 7 - length], x[index, :, : 7 - length])


def test_a_decoding_step_rotates_each_row_at_its_own_position(backend, to_backend):
    x, layer = tokens(3, 2, 1, 8), backend.RotaryEmbedding(ROTARY)
    longer = np.concatenate([MASK, np.ones((3, 1), int)], axis=1)
    step = backend.to_numpy(layer(to_backend(x), positions=from_mask(to_backend(longer))[:, -1:]))
    np.testing.assert_array_equal(step, backend.to_numpy(layer(to_backend(x), start=LENGTHS)))


def test_left_padded_rows_are_rotated_in_compiled_code(on, backend, to_backend, compiled):
    x, layer = tokens(3, 2, 7, 8), backend.RotaryEmbedding(ROTARY)

    def rotate_padded(x, mask):
        return layer(x, positions=from_mask(mask))

    result = backend.to_numpy(compiled(rotate_padded)(to_backend(x), to_backend(MASK)))
    cos, sin = ROTARY.cos_sin(POSITIONS)
    expected = rotate(x, cos[:, None], sin[:, None], layout="half")
    np.testing.assert_allclose(result, expected, rtol=0, atol=3e-7 if on.testing.CONTRACTS else 0)


@pytest.mark.parametrize("order", ["contiguous", "zigzag"])
def test_shards_are_rotated_like_the_full_sequence(backend, to_backend, order):
    x, layer = tokens(1, 2, 12, 8), backend.RotaryEmbedding(ROTARY)
    full = backend.to_numpy(layer(to_backend(x), positions=to_backend(np.arange(12) + 2**20)))
    for rank in range(3):
        positions = shard(to_backend(np.arange(12) + 2**20), rank, 3, order=order)
        indices = shard(np.arange(12), rank, 3, order=order)
        part = backend.to_numpy(layer(to_backend(x[:, :, indices]), positions=positions))
        np.testing.assert_array_equal(part, full[:, :, indices])


def test_shards_are_cut_in_compiled_code(backend, to_backend, compiled):
    def middle(positions):
        return shard(positions, 1, 2, order="zigzag")

    part = compiled(middle)(to_backend(POSITIONS[:, :4]))
    np.testing.assert_array_equal(backend.to_numpy(part), POSITIONS[:, 1:3])


def test_packed_sequences_are_rotated_as_they_are_alone(backend, to_backend):
    x, layer = tokens(15, 2, 8), backend.RotaryEmbedding(ROTARY)
    bounds = np.cumsum([0, *LENGTHS])
    packed = backend.to_numpy(layer(to_backend(x), positions=from_cu_seqlens(bounds), seq_axis=0))
    for first, last in pairwise(bounds):
        alone = backend.to_numpy(layer(to_backend(x[first:last]), seq_axis=0))
        np.testing.assert_array_equal(packed[first:last], alone)


PACKED = {
    "from_cu_seqlens": (
        lambda bounds: from_cu_seqlens(bounds, length=11, start=[4, 0, 2, 0]),
        [0, 3, 3, 8, 10], [4, 5, 6, 2, 3, 4, 5, 6, 0, 1, 0],
    ),
    "sequence_ids": (
        lambda bounds: sequence_ids(bounds, length=11), [0, 3, 3, 8, 10], [0, 0, 0, 2, 2, 2, 2, 2, 3, 3, -1]
    ),
    "ids of positions": (
        sequence_ids_from_positions, [[0, 1, 0, 1, 2], [5, 6, 7, 8, 0]], [[0, 0, 1, 1, 1], [0, 0, 0, 0, 1]]
    ),
    "ids of one row": (sequence_ids_from_positions, [0, 1, 0, 0], [0, 0, 1, 2]),
    "to_cu_seqlens": (
        lambda at: to_cu_seqlens(at, sequences=6), [[0, 1, 0, 1, 2], [5, 6, 7, 8, 0]], [0, 2, 5, 9, 10, 10, 10]
    ),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("name", PACKED)
def test_packed_batches_are_described_in_the_framework(backend, to_backend, name, dtype):
    function, given, wanted = PACKED[name]
    result = function(to_backend(given, dtype))
    assert isinstance(result, type(to_backend(given, dtype)))
    assert dtype_name(result) in ("int32", "int64")
    np.testing.assert_array_equal(backend.to_numpy(result), wanted)


def test_packed_batches_are_described_in_compiled_code(backend, to_backend, compiled):
    def again(bounds):
        return to_cu_seqlens(from_cu_seqlens(bounds, length=10), sequences=4)

    found = compiled(again)(to_backend([0, 3, 3, 8, 10]))
    np.testing.assert_array_equal(backend.to_numpy(found), [0, 3, 8, 10, 10])


@pytest.mark.parametrize(
    "at", [[6, 7, 8], [6, 8, 7], [-1, 0, 1], [[4, 5, 6]] * 2, [[4, 5, 6], [0, 1, 2]], [[4, 6, 5], [9, 8, 7]]], ids=str
)
def test_positions_rotate_queries_and_keys_together_as_each_alone(backend, to_backend, at):
    layer, x = backend.RotaryEmbedding(ROTARY, max_len=8), tokens(2, 4, 3, 8)
    q, k = to_backend(x), to_backend(x[:, :2])
    both = layer(q, k, positions=to_backend(at, "int32"))
    cos, sin = ROTARY.cos_sin(at)
    for rotated, own in zip(both, (x, x[:, :2]), strict=True):
        wanted = rotate(own, *(row if row.ndim == 2 else row[:, None] for row in (cos, sin)), layout="half")
        np.testing.assert_allclose(backend.to_numpy(rotated), wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
def test_rows_count_from_their_starts(backend, to_backend, dtype):
    rows = backend.to_numpy(counted_from(to_backend([100, -3], dtype), 300))
    np.testing.assert_array_equal(rows, np.array([[100], [-3]]) + np.arange(300))


def test_augmented_coordinates_rotate_alike_in_every_framework(backend):
    """Tables of the layer have the bits of the encoding, whose positions follow from the seed."""
    axial = AxialRotary(head_dim=8, layout="half", axes_dims=(4, 4), base=100.0, unit="turn")
    positions = augment(normalized_grid(2, 3), seed=(1, 2), shift=0.25, jitter=1.5, rescale=2.0)
    for got, wanted in zip(backend.RotaryEmbedding(axial).cos_sin(positions), axial.cos_sin(positions), strict=True):
        np.testing.assert_array_equal(backend.to_numpy(got), wanted)
