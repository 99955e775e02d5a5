"""Relative positions: from one number per offset (key less query) to one per query and key, and back."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from .._array_api.namespace import (
    Array,
    beside,
    cut_off,
    difference,
    dtype_name,
    is_floating,
    namespace_of,
    paired,
    shape_of,
)

Positions: TypeAlias = Array | range


def expand_offsets(by_offset: Array, *, queries: Any, keys: Any, first: int = 0) -> Array:
    """Return a number for each query and key, from one number for each offset: one result in memory.

    Where rows of a view may overlap, the result is a copy of such a view; elsewhere an index that heads share gathers
    it.

    Args:
        by_offset: a number for each head and offset, shape `(heads, offsets)`.
        queries, keys: their numbers.
        first: the column for the last query and the first key; the offsets of `queries + keys - 1` columns from it on
            are used.
    Returns:
        Array of shape `(heads, queries, keys)`: for query i and key j, column `first + j - i + queries - 1`.

    >>> import numpy as np
    >>> expand_offsets(np.array([[-1, 0, 1, 2]]), queries=2, keys=3)
    array([[[ 0,  1,  2],
            [-1,  0,  1]]])
    """
    xp = namespace_of(by_offset)
    if isinstance(by_offset, np.ndarray):
        return np.array(rows_that_overlap(by_offset[:, first:], queries, keys), order="C")
    own = getattr(xp, "expand_offsets", None)
    copied: Array | None = None if own is None else own(by_offset, queries, keys, first)
    if copied is not None:
        return copied
    columns = xp.arange(queries + keys, **beside(by_offset))
    index = xp.expand_dims(columns[:keys] + (first + queries - 1), axis=0) - xp.expand_dims(columns[:queries], axis=-1)
    taken = xp.take(by_offset, xp.reshape(index, (-1,)), axis=1)
    return xp.reshape(taken, (shape_of(by_offset)[0], queries, keys))


def rows_that_overlap(by_offset: npt.NDArray[Any], queries: int, keys: int) -> npt.NDArray[Any]:
    """Return `expand_offsets` as a view: in memory, the row of each query begins one number before that of the last."""
    backwards = sliding_window_view(by_offset, keys, axis=-1)[:, :queries]  # the last query's row first
    return backwards[:, ::-1]


def relative_shift(by_offset: Array, *, keys: Any) -> Array:
    """Return a number for each query and key, where each query has its own numbers for the offsets, by reshaping alone.

    Args:
        by_offset: shape `(..., queries, queries + keys + 1)`, from offset `-queries` on.
        keys: their number.
    Returns:
        Array of shape `(..., queries, keys)`; `[..., i, j]` is `by_offset[..., i, j - i + queries]`.
    Source: Dai et al. 2019, appendix B (arXiv:1901.02860), from the first offset to the last.

    >>> import numpy as np
    >>> relative_shift(np.array([[-2, -1, 0, 1, 2, 3], [-2, -1, 0, 1, 2, 3]]), keys=3)
    array([[ 0,  1,  2],
           [-1,  0,  1]])
    """
    xp = namespace_of(by_offset)
    *lead, queries, width = shape_of(by_offset)
    flat = xp.reshape(by_offset, (*lead, queries * width))
    return xp.reshape(flat[..., queries:], (*lead, queries, width - 1))[..., :keys]


def relative_unshift(by_key: Array) -> Array:
    """Undo `relative_shift`: move every query's numbers for the keys to the columns of their offsets, with 0 elsewhere.

    Args:
        by_key: shape `(..., queries, keys)`, neither of them 0.
    Returns:
        Array of shape `(..., queries, queries + keys + 1)`, from offset `-queries` on.

    >>> import numpy as np
    >>> relative_unshift(np.array([[1, 2, 3], [4, 5, 6]]))
    array([[0, 0, 1, 2, 3, 0],
           [0, 4, 5, 6, 0, 0]])
    """
    xp = namespace_of(by_key)
    *lead, queries, keys = shape_of(by_key)
    rows = xp.concat([by_key, xp.zeros_like(by_key[..., :1, :])], axis=-2)
    before = xp.broadcast_to(xp.zeros_like(rows[..., :1]), (*lead, queries + 1, queries))
    flat = xp.reshape(xp.concat([before, rows], axis=-1), (*lead, (queries + 1) * (queries + keys)))
    width = queries + keys + 1
    return xp.reshape(flat[..., : queries * width], (*lead, queries, width))


def pick_columns(by_column: Array, columns: Array) -> Array:
    """Return for each row some of its columns: `(*more, *rows, width), (*rows, keys) -> (*more, *rows, keys)`.

    >>> import numpy as np
    >>> pick_columns(np.array([[1, 2, 3], [4, 5, 6]]), np.array([[2, 2, 0, 1], [0, 0, 1, 2]]))
    array([[3, 3, 1, 2],
           [4, 4, 5, 6]])
    """
    xp = namespace_of(by_column)
    *rows, keys = shape_of(columns)
    *lead, width = shape_of(by_column)
    more, count = lead[: len(lead) - len(rows)], math.prod(rows)
    first = xp.arange(count, **beside(by_column)) * width
    index = xp.astype(columns, first.dtype) + xp.reshape(first, (*rows, 1))
    taken = xp.take(xp.reshape(by_column, (*more, count * width)), xp.reshape(index, (-1,)), axis=-1)
    return xp.reshape(taken, (*more, *rows, keys))


@dataclass(frozen=True, eq=False)
class ContiguousOffsets:
    """The offsets of two ranges, in order; the first is that of the first key from one position after the last query.

    Attributes:
        rows: the row of a table that belongs to each offset, shape `(queries + keys + 1,)`.
        keys: the number of keys.
    """

    rows: Array
    keys: int

    def expand_offsets(self, by_offset: Array) -> Array:
        """Return the number at the offset of each key: `(..., queries, rows) -> (..., queries, keys)`, not copied."""
        return relative_shift(by_offset, keys=self.keys)

    def sum_by_offset(self, by_key: Array) -> Array:
        """Return each key's number at its offset: `(..., queries, keys) -> (..., queries, rows)`.

        This takes at most three times the memory.
        """
        return relative_unshift(by_key)


@dataclass(frozen=True, eq=False)
class GeneralOffsets:
    """The offsets of arrays of positions.

    Attributes:
        rows: the numbers of all rows of a table with one row per offset, shape `(rows,)`.
        columns: the row that belongs to each query and key, shape `(queries, keys)` or `(batch, queries, keys)`.
    """

    rows: Array
    columns: Array

    def expand_offsets(self, by_offset: Array) -> Array:
        """Return the number at the offset of each key: `(..., queries, rows) -> (..., queries, keys)`.

        All heads share one index.
        """
        if len(self.columns.shape) == 2:
            return pick_columns(by_offset, self.columns)
        xp = namespace_of(by_offset)
        sizes = shape_of(by_offset)[-3:]  # a batch may be missing
        of_batch = xp.broadcast_to(by_offset, (shape_of(self.columns)[0], *sizes))
        return xp.permute_dims(pick_columns(xp.permute_dims(of_batch, (1, 0, 2, 3)), self.columns), (1, 0, 2, 3))

    def sum_by_offset(self, by_key: Array) -> Array:
        """Return the sums over the keys of each row: `(..., queries, keys) -> (..., queries, rows)`, row by row."""
        xp = namespace_of(by_key)
        columns = self.columns if len(self.columns.shape) == 2 else xp.expand_dims(self.columns, axis=-3)
        zeros = xp.zeros_like(by_key)

        def total(row: int) -> Array:
            return xp.sum(xp.where((columns >= row) & (columns <= row), by_key, zeros), axis=-1, keepdims=False)

        return xp.stack([total(row) for row in range(self.rows.shape[0])], axis=-1)


def offsets(
    query_positions: Positions, key_positions: Positions, *, limit: int, like: Array
) -> ContiguousOffsets | GeneralOffsets:
    """Return key minus query position, clipped to `±limit`, as rows of a table that has `2 * limit + 1` of them.

    Args:
        query_positions: shape `(queries,)` or `(batch, queries)`, or a range of step 1.
        key_positions: shape `(keys,)` or `(batch, keys)`, or a range of step 1.
        limit: the largest offset with a row of its own.
        like: an array of the library and on the device of the result.
    Raises:
        TypeError: if positions are not integers.

    >>> import numpy as np
    >>> offsets(range(1), range(4), limit=2, like=np.ones(1)).rows
    array([1, 2, 3, 4, 4, 4])
    """
    xp = namespace_of(like)
    if isinstance(query_positions, range) and isinstance(key_positions, range):
        steps = xp.arange(len(query_positions) + len(key_positions) + 1, **beside(like))
        clipped = cut_off(steps + (key_positions.start - query_positions.stop), limit=limit)
        return ContiguousOffsets(clipped + limit, len(key_positions))
    queries, keys = paired(
        integers_of("query_positions", query_positions, like), integers_of("key_positions", key_positions, like)
    )
    columns = difference(keys, queries, limit=limit) + limit
    if len(columns.shape) == 3 and columns.shape[0] == 1:
        columns = columns[0, ...]  # the same for all rows
    return GeneralOffsets(xp.arange(2 * limit + 1, **beside(like)), columns)


def integers_of(name: str, positions: Positions, like: Array) -> Array:
    """Return positions, or a range of step 1, as integers of the library and on the device of `like`."""
    if isinstance(positions, range):
        return namespace_of(like).arange(len(positions), **beside(like)) + positions.start
    if is_floating(positions):
        raise TypeError(f"`{name}` must be integers where offsets are looked up, got {dtype_name(positions)}.")
    return positions
