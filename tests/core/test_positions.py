import numpy as np
import pytest

from posenc_core.positions import (
    arange_like,
    counted_from,
    from_array,
    from_cu_seqlens,
    from_mask,
    sequence,
    shard,
)

from ..errors import rejects

RNG = np.random.default_rng(0)


def test_a_sequence_counts_from_start():
    np.testing.assert_array_equal(sequence(4), [0, 1, 2, 3])
    np.testing.assert_array_equal(sequence(2, start=-1), [-1, 0])
    assert sequence(0).shape == (0,)


def test_arrays_become_int64_or_float64():
    assert from_array(np.array([1, 2], np.uint8)).dtype == np.int64
    assert from_array(np.array([1, 2], np.float32)).dtype == np.float64
    assert from_array([[0.5]]).shape == (1, 1)


@pytest.mark.parametrize(
    ("positions", "kind", "names"),
    [
        (3, ValueError, ("positions", "3")),
        ([True], TypeError, ("positions", "bool")),
        ([1j], TypeError, ("positions", "complex128")),
        (["a"], TypeError, ("positions", "<U1")),
        ([np.inf], ValueError, ("positions", "inf")),
        ([-(2**31)], ValueError, ("positions", "-2147483648")),
        (np.array([2**64 - 5], np.uint64), ValueError, ("positions", "18446744073709551611")),
        ([np.iinfo(np.int64).min], ValueError, ("positions", "-9223372036854775808")),
    ],
)
def test_other_positions_are_refused(positions, kind, names):
    with rejects(kind, *names):
        from_array(positions)


def test_sequences_stay_within_the_limit():
    with rejects(ValueError, "start", "-1180591620717411303424"):
        sequence(2, start=-(2**70))
    assert sequence(1, start=2**31 - 1) == 2**31 - 1


def test_negative_lengths_are_refused():
    with rejects(ValueError, "length", "-1"):
        sequence(-1)


def test_positions_are_arrays_of_any_library(xp):
    like = xp.zeros(3)
    np.testing.assert_array_equal(np.asarray(arange_like(4, like=like)), np.arange(4))
    rows = counted_from(xp.asarray([0, 10]), 3)
    np.testing.assert_array_equal(np.asarray(rows), [[0, 1, 2], [10, 11, 12]])


def test_positions_start_from_lists_and_narrow_integers(xp):
    np.testing.assert_array_equal(counted_from([3, -1], 2), [[3, 4], [-1, 0]])
    narrow = counted_from(xp.asarray([100, 0], dtype=xp.int8), 300)
    np.testing.assert_array_equal(np.asarray(narrow), np.array([[100], [0]]) + np.arange(300))
    wide = counted_from(xp.asarray([2**40], dtype=xp.int64), 2)
    np.testing.assert_array_equal(np.asarray(wide), [[2**40, 2**40 + 1]])


def test_counting_starts_at_integers():
    with rejects(TypeError, "start", "float64"):
        counted_from([0.5], 3)


def expected_positions(mask):
    """Return the positions of one row, token by token; 0 for padding."""
    positions, seen = [], 0
    for counts in mask:
        positions.append(seen if counts else 0)
        seen += bool(counts)
    return positions


MASKS = {
    "left": [[0, 0, 0, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1]],
    "right": [[1, 1, 1, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0, 0]],
    "both and holes": [[0, 1, 0, 0, 1, 1, 0], [1, 0, 1, 0, 1, 0, 1]],
    "nothing": [[0, 0, 0, 0, 0, 0, 0]],
    "one row": [0, 1, 1],
    "random": RNG.integers(0, 2, (5, 33)).tolist(),
}


@pytest.mark.parametrize("kind", ["bool", "uint8", "int32", "int64"])
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_masks_give_positions_of_real_tokens(xp, mask, kind):
    rows = np.atleast_2d(mask)
    expected = np.reshape([expected_positions(row) for row in rows], np.shape(mask))
    positions = from_mask(xp.asarray(mask, dtype=getattr(xp, kind)))
    assert positions.dtype in (xp.int32, xp.int64)
    np.testing.assert_array_equal(np.asarray(positions), expected)
    np.testing.assert_array_equal(from_mask(mask), expected)


def test_mask_values_other_than_0_are_real_tokens():
    np.testing.assert_array_equal(from_mask([0, 2, -1, 0, 3]), [0, 0, 1, 0, 2])


def test_long_rows_are_counted_to_their_end():
    mask = np.ones((1, 2**21), np.uint8)
    mask[0, :5] = 0
    assert from_mask(mask)[0, -1] == 2**21 - 6


def test_a_decode_step_continues_each_row():
    mask = np.array([[0, 0, 1, 1], [1, 1, 1, 1]])
    prompt = from_mask(mask)
    step = from_mask(np.concatenate([mask, np.ones((2, 1), int)], axis=1))
    np.testing.assert_array_equal(step[:, :-1], prompt)
    np.testing.assert_array_equal(step[:, -1], prompt[:, -1] + 1)


@pytest.mark.parametrize(
    ("mask", "kind", "names"),
    [
        ([[0.0, -np.inf]], TypeError, ("mask", "float64")),
        (["a"], TypeError, ("mask", "<U1")),
        (None, TypeError, (None, "NoneType")),
        (np.array(1), ValueError, ("mask", "()")),
        (np.ones((1, 1, 2, 2), bool), ValueError, ("mask", "(1, 1, 2, 2)")),
    ],
)
def test_other_masks_are_refused(mask, kind, names):
    with rejects(kind, *names):
        from_mask(mask)


@pytest.mark.parametrize("lengths", [[3, 2], [0, 4, 0, 0, 1, 0], [], [1], [5, 1, 7]], ids=str)
@pytest.mark.parametrize("spare", [None, 0, 3])
def test_packed_sequences_start_at_0(lengths, spare):
    expected = [position for length in lengths for position in range(length)] + [0] * (spare or 0)
    bounds = [sum(lengths[:count]) for count in range(len(lengths) + 1)]
    for kind in (np.int32, np.uint32, np.int64):
        length = None if spare is None else sum(lengths) + spare
        positions = from_cu_seqlens(np.array(bounds, kind), length=length)
        assert positions.dtype == np.int64
        np.testing.assert_array_equal(positions, expected)


@pytest.mark.parametrize(
    ("given", "length", "kind", "names"),
    [
        ([1, 3], None, ValueError, ("cu_seqlens", "1")),
        ([0, 3, 2], None, ValueError, ("cu_seqlens", "2")),
        (np.array([0, 3, 2], np.uint8), None, ValueError, ("cu_seqlens", "2")),
        ([[0, 3]], None, ValueError, ("cu_seqlens", "(1, 2)")),
        (np.zeros(0, int), None, ValueError, ("cu_seqlens", "(0,)")),
        ([0, 1.5], None, TypeError, ("cu_seqlens", "float64")),
        ([False, True], None, TypeError, ("cu_seqlens", "bool")),
        ([0, 5], 4, ValueError, ("length", "4")),
        ([0, 5], 6.0, TypeError, ("length", "6.0")),
    ],
)
def test_other_bounds_are_refused(given, length, kind, names):
    with rejects(kind, *names):
        from_cu_seqlens(given, length=length)


@pytest.mark.parametrize("shape", [(24,), (3, 24), (3, 2, 48), (0,)], ids=str)
@pytest.mark.parametrize("world_size", [1, 2, 3, 4])
def test_shards_are_equal_chunks_of_the_whole(xp, shape, world_size):
    whole = RNG.integers(0, 2**30, shape)
    parts = [np.asarray(shard(xp.asarray(whole), rank, world_size)) for rank in range(world_size)]
    np.testing.assert_array_equal(np.concatenate(parts, axis=-1), whole)
    assert len({part.shape for part in parts}) == 1


@pytest.mark.parametrize("shape", [(24,), (3, 24), (3, 2, 48), (0,)], ids=str)
@pytest.mark.parametrize("world_size", [1, 2, 3, 4])
def test_zigzag_shards_fold_the_sequence(xp, shape, world_size):
    """Each rank has a chunk of the first half and the mirrored chunk of the second half."""
    whole = RNG.integers(0, 2**30, shape)
    half = shape[-1] // 2
    front, back = whole[..., :half], whole[..., half:][..., ::-1]
    for rank in range(world_size):
        part = np.asarray(shard(xp.asarray(whole), rank, world_size, order="zigzag"))
        own = slice(rank * half // world_size, (rank + 1) * half // world_size)
        np.testing.assert_array_equal(part, np.concatenate([front[..., own], back[..., own][..., ::-1]], axis=-1))


def test_zigzag_shards_see_the_same_number_of_keys():
    """Under a causal mask, position p sees p + 1 keys."""
    work = [int((shard(range(48), rank, 4, order="zigzag") + 1).sum()) for rank in range(4)]
    assert work == [48 * 49 // 2 // 4] * 4
    assert len({int((shard(range(48), rank, 4) + 1).sum()) for rank in range(4)}) == 4


@pytest.mark.parametrize(
    ("arguments", "order", "kind", "names"),
    [
        ((range(9), 0, 2), "contiguous", ValueError, ("positions", "9")),
        ((range(6), 0, 2), "zigzag", ValueError, ("positions", "6")),
        ((range(8), 2, 2), "contiguous", ValueError, ("rank", "2")),
        ((range(8), -1, 2), "contiguous", ValueError, ("rank", "-1")),
        ((range(8), 0, 0), "contiguous", ValueError, ("world_size", "0")),
        ((range(8), 0, 2), "striped", ValueError, ("order", "'striped'")),
        ((np.array(3), 0, 1), "contiguous", ValueError, ("positions", "()")),
        ((3, 0, 1), "contiguous", TypeError, ("positions", "int")),
    ],
)
def test_other_shards_are_refused(arguments, order, kind, names):
    with rejects(kind, *names):
        shard(*arguments, order=order)


class Unsized:
    """A traced array of unknown length."""

    shape = (2, None)

    def __getitem__(self, _):
        return self


def test_a_length_that_a_tracer_does_not_know_is_not_cut():
    with rejects(ValueError, "positions", "None"):
        shard(Unsized(), 0, 2)


def test_half_precision_does_not_warn():
    np.testing.assert_array_equal(from_array(np.array([0.5, 3.0], np.float16)), [0.5, 3.0])


@pytest.mark.parametrize("dtype", [np.int64, np.float64])
def test_positions_are_below_2_to_the_31_in_size(dtype):
    farthest = np.array([2**31 - 1, 1 - 2**31], dtype)
    np.testing.assert_array_equal(from_array(farthest), farthest)
    for wrong in (2**31, -(2**31)):
        with rejects(ValueError, "positions", str(dtype(wrong))):
            from_array(np.array([0, wrong], dtype))


def test_real_positions_are_finite():
    for wrong in (np.nan, np.inf, -np.inf):
        with rejects(ValueError, "positions", "finite"):
            from_array([0.5, wrong])
