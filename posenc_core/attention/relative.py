"""Relative: from one number per offset of key and query to one per query and key, and back."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from .._array_api.namespace import Array, cut_off, difference, dtype_name, is_floating, namespace_of, paired, shape_of

Stated: TypeAlias = Array | range


def expand_offsets(by_offset: Array, *, queries: Any, keys: Any) -> Array:
    """What belongs to each query and key, from what belongs to each offset: one result in memory.

    Where rows of a view may overlap it is one copy of such a view; elsewhere it is looked up, by an index that heads share.

    Args:
        by_offset: shape `(heads, queries + keys - 1 or more)`; the first column is for the first key as the last query
            sees it, at offset `-(queries - 1)` from the first query.
        queries, keys: how many there are.
    Returns:
        Array of shape `(heads, queries, keys)`: for query i and key j, column `j - i + queries - 1`.

    >>> import numpy as np
    >>> expand_offsets(np.array([[-1, 0, 1, 2]]), queries=2, keys=3)
    array([[[ 0,  1,  2],
            [-1,  0,  1]]])
    """
    xp = namespace_of(by_offset)
    if isinstance(by_offset, np.ndarray):
        return np.array(rows_that_overlap(by_offset, queries, keys), order="C")
    own = getattr(xp, "expand_offsets", None)
    copied: Array | None = None if own is None else own(by_offset, queries, keys)
    if copied is not None:
        return copied
    columns = xp.arange(queries + keys, device=getattr(by_offset, "device", None))
    index = xp.expand_dims(columns[:keys] + (queries - 1), axis=0) - xp.expand_dims(columns[:queries], axis=-1)
    taken = xp.take(by_offset, xp.reshape(index, (-1,)), axis=1)
    return xp.reshape(taken, (shape_of(by_offset)[0], queries, keys))


def rows_that_overlap(by_offset: npt.NDArray[Any], queries: int, keys: int) -> npt.NDArray[Any]:
    """`spread` as a view: in memory each row begins a number before that of the query before."""
    backwards = sliding_window_view(by_offset, keys, axis=-1)[:, :queries]  # the last query's row first
    return backwards[:, ::-1]


def relative_shift(by_offset: Array, *, keys: Any) -> Array:
    """What belongs to each query and key, where every query has its own numbers for the offsets; nothing is indexed.

    Args:
        by_offset: shape `(..., queries, queries + keys + 1)`, from offset `-queries` on.
        keys: how many there are.
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
    """`relative_shift` undone: every query's numbers for the keys, moved to the columns of their offsets, and 0 elsewhere.

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


def picked(by_column: Array, columns: Array) -> Array:
    """For each row some of its columns: `(*more, *rows, width), (*rows, keys) -> (*more, *rows, keys)`.

    >>> import numpy as np
    >>> picked(np.array([[1, 2, 3], [4, 5, 6]]), np.array([[2, 2, 0, 1], [0, 0, 1, 2]]))
    array([[3, 3, 1, 2],
           [4, 4, 5, 6]])
    """
    xp = namespace_of(by_column)
    *rows, keys = shape_of(columns)
    *lead, width = shape_of(by_column)
    more, count = lead[: len(lead) - len(rows)], math.prod(rows)
    first = xp.arange(count, device=getattr(by_column, "device", None)) * width
    index = xp.astype(columns, first.dtype) + xp.reshape(first, (*rows, 1))
    taken = xp.take(xp.reshape(by_column, (*more, count * width)), xp.reshape(index, (-1,)), axis=-1)
    return xp.reshape(taken, (*more, *rows, keys))


@dataclass(frozen=True, eq=False)
class ContiguousOffsets:
    """The offsets of plain sequences, from that of the first key as a query after the last one would see it.

    Attributes:
        rows: for each of them the row of a table that it is looked up in, shape `(queries + keys + 1,)`.
        keys: how many there are.
    """

    rows: Array
    keys: int

    def expand_offsets(self, by_offset: Array) -> Array:
        """`(..., queries, rows) -> (..., queries, keys)`; what is given is twice as large, and not copied."""
        return relative_shift(by_offset, keys=self.keys)

    def gathered(self, by_key: Array) -> Array:
        """Each key's number at its offset: `(..., queries, keys) -> (..., queries, rows)`; three times the memory, at most."""
        return relative_unshift(by_key)


@dataclass(frozen=True, eq=False)
class GeneralOffsets:
    """The offsets of any positions.

    Attributes:
        rows: all rows of the table that they are looked up in, shape `(rows,)`.
        columns: which of them each query and key has, shape `(queries, keys)` or `(batch, queries, keys)`.
    """

    rows: Array
    columns: Array

    def expand_offsets(self, by_offset: Array) -> Array:
        """`(..., queries, rows) -> (..., queries, keys)`: one result in memory, and an index that the heads share."""
        if len(self.columns.shape) == 2:
            return picked(by_offset, self.columns)
        xp = namespace_of(by_offset)
        sizes = shape_of(by_offset)[-3:]  # a batch may be missing
        of_batch = xp.broadcast_to(by_offset, (shape_of(self.columns)[0], *sizes))
        return xp.permute_dims(picked(xp.permute_dims(of_batch, (1, 0, 2, 3)), self.columns), (1, 0, 2, 3))

    def gathered(self, by_key: Array) -> Array:
        """The sums over the keys of one row: `(..., queries, keys) -> (..., queries, rows)`, one row at a time."""
        xp = namespace_of(by_key)
        columns = self.columns if len(self.columns.shape) == 2 else xp.expand_dims(self.columns, axis=-3)
        nothing = xp.zeros_like(by_key)

        def total(row: int) -> Array:
            kept = xp.where((columns >= row) & (columns <= row), by_key, nothing)
            return xp.sum(kept, axis=-1, keepdims=False)

        return xp.stack([total(row) for row in range(self.rows.shape[0])], axis=-1)


def offsets(
    query_positions: Stated, key_positions: Stated, *, limit: int, like: Array
) -> ContiguousOffsets | GeneralOffsets:
    """Key minus query position, cut off at `±limit`, as rows of a table that has `2 * limit + 1` of them.

    Args:
        query_positions: shape `(queries,)` or `(batch, queries)`, or a range of step 1.
        key_positions: shape `(keys,)` or `(batch, keys)`, or a range of step 1.
        limit: the farthest offset that the table tells apart.
        like: an array of the library and on the device to work with.
    Raises:
        TypeError: if positions are not integers.

    >>> import numpy as np
    >>> offsets(range(1), range(4), limit=2, like=np.ones(1)).rows
    array([1, 2, 3, 4, 4, 4])
    """
    xp, device = namespace_of(like), getattr(like, "device", None)
    if isinstance(query_positions, range) and isinstance(key_positions, range):
        steps = xp.arange(len(query_positions) + len(key_positions) + 1, device=device)
        apart = cut_off(steps + (key_positions.start - query_positions.stop), limit=limit)
        return ContiguousOffsets(apart + limit, len(key_positions))
    queries, keys = paired(
        _whole("query_positions", query_positions, like), _whole("key_positions", key_positions, like)
    )
    columns = difference(keys, queries, limit=limit) + limit
    if len(columns.shape) == 3 and columns.shape[0] == 1:
        columns = columns[0, ...]  # the same for all rows
    return GeneralOffsets(xp.arange(2 * limit + 1, device=device), columns)


def _whole(name: str, positions: Stated, like: Array) -> Array:
    if isinstance(positions, range):
        return namespace_of(like).arange(len(positions), device=getattr(like, "device", None)) + positions.start
    if is_floating(positions):
        raise TypeError(f"`{name}` must be integers where offsets are looked up, got {dtype_name(positions)}.")
    return positions
