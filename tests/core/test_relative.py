import numpy as np
import pytest

from posenc_core.attention.relative import (
    ContiguousOffsets,
    GeneralOffsets,
    expand_offsets,
    offsets,
    pick_columns,
    relative_shift,
    relative_unshift,
)

from ..errors import rejects

RNG = np.random.default_rng(2)
SIZES = [(1, 1), (1, 5), (5, 1), (3, 5), (5, 3), (4, 4)]


@pytest.mark.parametrize(("queries", "keys"), SIZES)
@pytest.mark.parametrize("lead", [(), (3,), (2, 3)])
def test_the_shift_takes_every_offset_to_its_key(xp, lead, queries, keys):
    by_offset = RNG.normal(size=(*lead, queries, queries + keys + 1))
    wanted = np.stack([[by_offset[..., i, j - i + queries] for j in range(keys)] for i in range(queries)])
    got = np.asarray(relative_shift(xp.asarray(by_offset), keys=keys))
    np.testing.assert_array_equal(got, np.moveaxis(wanted, (0, 1), (-2, -1)))


@pytest.mark.parametrize(("queries", "keys"), SIZES)
@pytest.mark.parametrize("lead", [(), (3,), (2, 3)])
def test_it_is_undone_and_nothing_is_left_elsewhere(xp, lead, queries, keys):
    by_key = RNG.normal(size=(*lead, queries, keys))
    moved = relative_unshift(xp.asarray(by_key))
    assert moved.shape == (*lead, queries, queries + keys + 1)
    np.testing.assert_array_equal(np.asarray(relative_shift(moved, keys=keys)), by_key)
    assert np.count_nonzero(np.asarray(moved)) == by_key.size


def test_columns_are_picked_row_by_row(xp):
    by_column, columns = RNG.normal(size=(2, 3, 4, 5)), RNG.integers(0, 5, size=(2, 3, 4, 7))
    got = pick_columns(xp.asarray(by_column), xp.asarray(columns))
    np.testing.assert_array_equal(np.asarray(got), np.take_along_axis(by_column, columns, axis=-1))
    got = pick_columns(xp.asarray(by_column), xp.asarray(columns[0, 0]))
    shared = np.broadcast_to(columns[0, 0], columns.shape)
    np.testing.assert_array_equal(np.asarray(got), np.take_along_axis(by_column, shared, axis=-1))


@pytest.mark.parametrize("first", [(0, 0), (4, 0), (0, 6), (2**20, 2**20 - 2)])
@pytest.mark.parametrize(("queries", "keys"), SIZES)
def test_plain_sequences_are_as_any_other_positions(xp, first, queries, keys):
    ranges = range(first[0], first[0] + queries), range(first[1], first[1] + keys)
    like, table = xp.zeros(1), RNG.normal(size=(3, queries, 7))
    plain = offsets(*ranges, limit=3, like=like)
    given = offsets(*(xp.asarray(list(positions)) for positions in ranges), limit=3, like=like)
    assert isinstance(plain, ContiguousOffsets)
    assert isinstance(given, GeneralOffsets)
    one, other = (apart.expand_offsets(xp.take(xp.asarray(table), apart.rows, axis=-1)) for apart in (plain, given))
    np.testing.assert_array_equal(np.asarray(one), np.asarray(other))
    row = np.clip(np.subtract.outer(list(ranges[1]), list(ranges[0])).T, -3, 3) + 3
    np.testing.assert_array_equal(np.asarray(one), np.take_along_axis(table, np.broadcast_to(row, one.shape), axis=-1))
    by_key = RNG.normal(size=(3, queries, keys))
    wanted = np.stack([np.where(row == column, by_key, 0).sum(-1) for column in range(7)], axis=-1)
    np.testing.assert_allclose(np.asarray(given.sum_by_offset(xp.asarray(by_key))), wanted, atol=1e-15)
    together = np.zeros((*by_key.shape[:-1], 7))
    np.add.at(together, (..., np.asarray(plain.rows)), np.asarray(plain.sum_by_offset(xp.asarray(by_key))))
    np.testing.assert_allclose(together, wanted, atol=1e-15)


@pytest.mark.parametrize("heads", [1, 2])
def test_rows_of_a_single_query_are_a_copy(heads):
    by_offset = RNG.normal(size=(heads, 7))
    rows = expand_offsets(by_offset, queries=1, keys=6)
    np.testing.assert_array_equal(rows[:, 0], by_offset[:, :6])
    rows += 1
    assert not np.shares_memory(rows, by_offset)


def test_offsets_of_real_positions_are_refused(xp):
    with rejects(TypeError, "key_positions", "float64"):
        offsets(xp.asarray([0, 1]), xp.asarray([0.5, 1.0]), limit=1, like=xp.zeros(1))
