"""Blocks: arrays that their library cuts into blocks, to compute them one after the other when it is asked to.

Such a library offers `apply_gufunc`, which runs a function on each block, which is a NumPy array. So rows are made and
turned there as they are here: they are the same bytes, a block is one task, and nothing is computed before its time.
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
    """`tables(positions)`; of positions that are cut into blocks, later and cut as they are.

    Args:
        tables: makes a table `(..., length, columns)`, or several, of positions `(..., length)` or `(axes, ..., length)`.
        positions: numbers, or an array.

    >>> tables_by_block(lambda positions: np.stack([positions, positions], axis=-1), np.array([1, 2]))
    array([[1, 1],
           [2, 2]])
    """
    apply = _apply_of(positions)
    if apply is None:
        return tables(positions)
    check_rank("positions", positions, minimum=1, axes="(..., length)")
    made: Any = _of_none(tables, positions)
    samples = made if isinstance(made, tuple) else (made,)
    by_axis = samples[0].ndim == positions.ndim
    dtypes = [sample.dtype for sample in samples]
    return apply(
        partial(_of_axes_last, tables) if by_axis else tables,
        ("(axes)" if by_axis else "()") + "->" + ",".join(["(columns)"] * len(samples)),
        positions,
        axes=[(0,) if by_axis else (), *[(-1,)] * len(samples)],
        output_dtypes=dtypes if isinstance(made, tuple) else dtypes[0],
        output_sizes={"columns": samples[0].shape[-1]},
        allow_rechunk=True,
    )


def _of_none(tables: Callable[[Any], Any], positions: Any) -> Any:
    """Tables of no positions of that kind; what is wrong with all of them is told now."""
    sizes = tuple(0 if isinstance(size, float) else size for size in positions.shape)
    try:
        return tables(np.empty((*sizes[:-1], 0), positions.dtype))
    except ValueError:
        wrong = np.broadcast_to(np.zeros((), positions.dtype), sizes)
    return tables(wrong)  # the same error, with the length that the user knows


def _of_axes_last(tables: Callable[[Any], Any], positions: Any) -> Any:
    return tables(np.moveaxis(positions, -1, 0))


def map_blocks(function: Callable[..., A], x: A, *tables: Array) -> A:
    """`function(x, *tables)`, which makes a row `(width,)` of one of `x` and one of each table; cut as `x` is.

    Tables broadcast to `x`, but for the last axis; its own is not cut.

    >>> map_blocks(np.add, np.ones((2, 1)), np.array([[1.0], [2.0]]))
    array([[2.],
           [3.]])
    """
    apply = _apply_of(x)
    if apply is None:
        return function(x, *tables)
    lazy: Any = x
    whole = lazy.rechunk({-1: -1})
    cut = (_cut_as(whole, table) for table in tables)
    return apply(function, "(width)" + ",(columns)" * len(tables) + "->(width)", whole, *cut, output_dtypes=x.dtype)


def _cut_as(x: Any, table: Any) -> Any:
    """A table cut as `x` is, where it has an axis of that size; elsewhere it has one of size 1, and the columns."""
    table = namespace_of(x).asarray(table)
    axes = range(-table.ndim, 0)
    cut = (axis for axis in axes if axis < -1 and table.shape[axis] == x.shape[axis])
    return table.rechunk(dict.fromkeys(axes, -1) | {axis: x.chunks[axis] for axis in cut})


def positions_by_block(known: Callable[[Any], Any], *positions: Any) -> list[Any]:
    """`known(positions)` of each; where some are cut into blocks, later and block by block, and all of that library."""
    libraries = [namespace_of(each) for each in positions if _apply_of(each) is not None]
    if not libraries:
        return [known(each) for each in positions]
    return [_known_by_block(known, each, libraries[0]) for each in positions]


def _known_by_block(known: Callable[[Any], Any], positions: Any, xp: Any) -> Any:
    apply = _apply_of(positions)
    if apply is None:
        return xp.asarray(known(positions))
    check_rank("positions", positions, minimum=1, axes="(..., length)")
    kind = known(np.ones((1,) * positions.ndim, positions.dtype)).dtype
    return apply(known, "()->()", positions, output_dtypes=kind)


def _apply_of(x: object) -> Callable[..., Any] | None:
    """What runs a function on the blocks of `x`, where its library cuts arrays into them."""
    try:
        return getattr(namespace_of(x), "apply_gufunc", None)
    except TypeError:  # numbers, or of no known library: others tell
        return None
