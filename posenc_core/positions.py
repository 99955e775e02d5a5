"""Positions: where tokens stand. Integers or reals; the first stage of every encoding."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ._arrays import Array, namespace_of
from ._checks import check_integer

LIMIT = 2**31


def sequence(length: int, *, start: int = 0) -> npt.NDArray[np.int64]:
    """The positions `start … start + length - 1`, shape `(length,)`.

    Raises:
        ValueError: if `length` is negative, or a position not below 2**31 in size.

    >>> sequence(3, start=5)
    array([5, 6, 7])
    """
    check_integer("length", length, minimum=0)
    if not -LIMIT < start <= LIMIT - length:
        raise ValueError(f"`start` must keep positions below 2**31 in size, got {start} for {length} positions.")
    return np.arange(start, start + length, dtype=np.int64)


def from_array(positions: Any) -> npt.NDArray[Any]:
    """Positions given as numbers, as a NumPy array of int64 or float64, shape `(..., length)`.

    Raises:
        TypeError: if they are not real numbers.
        ValueError: if one is not finite, or not below 2**31 in size.

    >>> from_array([0, 7, -3])
    array([ 0,  7, -3])
    """
    given = np.asarray(positions)
    if given.dtype.kind not in "iuf":
        raise TypeError(f"`positions` must be integers or real numbers, got {given.dtype}.")
    if given.ndim == 0:
        raise ValueError(f"`positions` must have shape (..., length), got the single number {given}.")
    outside = given[~((given > -LIMIT) & (given < LIMIT))]
    if outside.size:
        raise ValueError(f"`positions` must be finite and below 2**31 in size, got {outside[0]}.")
    return given.astype(np.float64 if given.dtype.kind == "f" and given.size else np.int64, copy=False)


def counted_from(start: Array, length: Any) -> Array:
    """`length` positions for each row, the first of them in `start`: `(batch,) -> (batch, length)`.

    >>> counted_from(np.array([0, 5]), 3)
    array([[0, 1, 2],
           [5, 6, 7]])
    """
    xp = namespace_of(start)
    steps = xp.astype(counted(length, like=start), start.dtype)
    return xp.expand_dims(start, axis=-1) + xp.expand_dims(steps, axis=0)


def counted(length: Any, *, like: Array) -> Array:
    """The positions `0 … length - 1` in the library and on the device of `like`, shape `(length,)`."""
    return namespace_of(like).arange(length, device=getattr(like, "device", None))
