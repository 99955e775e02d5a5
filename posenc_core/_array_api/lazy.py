"""Lazy arrays: compute tables and rotations chunk by chunk for libraries that split arrays into chunks, such as dask.

Such a library has `apply_gufunc` in its namespace, which applies a function to each chunk, as a NumPy array, when the
result is asked for. The bytes are those of one call on the whole array.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import numpy as np

from .checks import check_rank
from .namespace import A, Array, namespace_of

T = TypeVar("T")


def tables_by_block(tables: Callable[[Any], T], positions: Any) -> T:
    """Return `tables(positions)`, lazily and with the same chunks if the positions are a lazy array.

    Args:
        tables: computes one table `(..., length, columns)`, or a tuple of several, from positions `(..., length)` or
            `(axes, ..., length)`.
        positions: numbers, or an array.

    >>> tables_by_block(lambda positions: np.stack([positions, positions], axis=-1), np.array([1, 2]))
    array([[1, 1],
           [2, 2]])
    """
    apply = _gufunc_applier(positions)
    if apply is None:
        return tables(positions)
    check_rank("positions", positions, minimum=1, axes="(..., length)")
    empty: Any = _empty_tables(tables, positions)
    samples = empty if isinstance(empty, tuple) else (empty,)
    has_axes = samples[0].ndim == positions.ndim
    dtypes = [sample.dtype for sample in samples]
    return apply(
        partial(_with_axes_first, tables) if has_axes else tables,
        ("(axes)" if has_axes else "()") + "->" + ",".join(["(columns)"] * len(samples)),
        positions,
        axes=[(0,) if has_axes else (), *[(-1,)] * len(samples)],
        output_dtypes=dtypes if isinstance(empty, tuple) else dtypes[0],
        output_sizes={"columns": samples[0].shape[-1]},
        allow_rechunk=True,
    )


def _empty_tables(tables: Callable[[Any], Any], positions: Any) -> Any:
    """Return the tables of no positions, for their dtypes and widths; raise what `tables` raises for this shape."""
    sizes = tuple(0 if isinstance(size, float) else size for size in positions.shape)
    try:
        return tables(np.empty((*sizes[:-1], 0), positions.dtype))
    except ValueError:
        zeros = np.broadcast_to(np.zeros((), positions.dtype), sizes)
    return tables(zeros)  # raises the same error, but with the length that the caller passed


def _with_axes_first(tables: Callable[[Any], Any], positions: Any) -> Any:
    return tables(np.moveaxis(positions, -1, 0))


def map_blocks(function: Callable[..., A], x: A, *tables: Array) -> A:
    """Return `function(x, *tables)`, lazily and with the chunks of `x` if that is a lazy array.

    Args:
        function: computes a row `(width,)` from one row of `x` and one of each table.
        x: shape `(..., width)`; the last axis becomes one chunk.
        tables: shape `(..., columns)`; they broadcast to `x`, except for the last axis.

    >>> map_blocks(np.add, np.ones((2, 1)), np.array([[1.0], [2.0]]))
    array([[2.],
           [3.]])
    """
    apply = _gufunc_applier(x)
    if apply is None:
        return function(x, *tables)
    lazy: Any = x
    rows = lazy.rechunk({-1: -1})
    chunked = (_rechunk_like(rows, table) for table in tables)
    return apply(function, "(width)" + ",(columns)" * len(tables) + "->(width)", rows, *chunked, output_dtypes=x.dtype)


def _rechunk_like(x: Any, table: Any) -> Any:
    """Return the table with the chunks of `x` on axes of the same size, and one chunk on the others."""
    table = namespace_of(x).asarray(table)
    axes = range(-table.ndim, 0)
    shared = (axis for axis in axes if axis < -1 and table.shape[axis] == x.shape[axis])
    return table.rechunk(dict.fromkeys(axes, -1) | {axis: x.chunks[axis] for axis in shared})


def positions_by_block(convert: Callable[[Any], Any], *positions: Any) -> list[Any]:
    """Return `convert` of each of the positions; if one is a lazy array, all results are lazy arrays of its library."""
    libraries = [namespace_of(each) for each in positions if _gufunc_applier(each) is not None]
    if not libraries:
        return [convert(each) for each in positions]
    return [_convert_lazily(convert, each, libraries[0]) for each in positions]


def _convert_lazily(convert: Callable[[Any], Any], positions: Any, xp: Any) -> Any:
    apply = _gufunc_applier(positions)
    if apply is None:
        return xp.asarray(convert(positions))
    check_rank("positions", positions, minimum=1, axes="(..., length)")
    dtype = convert(np.ones((1,) * positions.ndim, positions.dtype)).dtype
    return apply(convert, "()->()", positions, output_dtypes=dtype)


def _gufunc_applier(x: object) -> Callable[..., Any] | None:
    """Return the `apply_gufunc` of the library of `x`, or None if `x` is not a lazy array."""
    try:
        return getattr(namespace_of(x), "apply_gufunc", None)
    except TypeError:  # a number, or an array of an unknown library, which later code rejects
        return None
