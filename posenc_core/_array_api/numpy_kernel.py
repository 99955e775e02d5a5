"""Rotation of NumPy arrays part by part, so that intermediate results stay in the caches."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Host: TypeAlias = npt.NDArray[Any]
PART = 1 << 15  # numbers in a part: with its intermediate results it fits the second-level cache


def supports(x: Any, out: Any = None) -> bool:
    """Return whether the array is large enough for parts to pay, and the result can be written as it is computed."""
    writable = out is None or (type(out) is np.ndarray and out.flags.writeable)
    return writable and x.size > PART and x.dtype.name in ("float16", "float32", "float64")


def rotate(x: Any, cos: Any, sin: Any, blocks: Any, unrotated: Any, out: Any = None) -> Any:
    """Rotate `x` by checked tables; return None if `out` overlaps `x` without being it, or overlaps a table.

    Args:
        x: tokens that `supports` accepts, shape `(..., length, width)`.
        cos, sin: tables that broadcast to `x`, but for the last axis.
        blocks, unrotated: what `posenc_core.rotation.pair_slices` returns.
        out: where to write the result; a new array by default.
    """
    result = np.empty(x.shape, x.dtype) if out is None else out
    over_tables = any(np.may_share_memory(table, result) for table in (cos, sin))
    if over_tables or (np.may_share_memory(x, result) and not lies_as(result, x)):
        return None
    wide = np.promote_types(x.dtype, np.float32)
    c, s = (np.broadcast_to(np.asarray(table, wide), (*x.shape[:-1], cos.shape[-1])) for table in (cos, sin))
    for part in _parts(x.shape):
        for channels in unrotated if out is not x else ():
            result[part][..., channels] = x[part][..., channels]
        _rotate_part(np.asarray(x[part], wide), c[part], s[part], blocks, result[part])
    return result


def lies_as(one: Host, other: Host) -> bool:
    """Return whether two arrays are the same memory in the same order, each number at a place of its own."""
    alike = one.ctypes.data == other.ctypes.data and one.strides == other.strides and one.shape == other.shape
    return alike and one.flags.c_contiguous


def _rotate_part(x: Host, cos: Host, sin: Host, blocks: Any, out: Host) -> None:
    for block in blocks:
        first, second = x[..., block.first], x[..., block.second]
        c, s = cos[..., block.columns], sin[..., block.columns]
        rotated_first, rotated_second = first * c, second * c
        rotated_first -= second * s
        rotated_second += first * s
        out[..., block.to_first], out[..., block.to_second] = rotated_first, rotated_second


def _parts(shape: tuple[int, ...]) -> Iterator[tuple[Any, ...]]:
    """Yield the indices of parts of about `PART` numbers, cut along one axis but never within a row."""
    if len(shape) < 2:
        yield (...,)
        return
    rows_axis = len(shape) - 2
    axis = next((axis for axis in range(rows_axis) if math.prod(shape[axis + 1 :]) <= PART), rows_axis)
    rows = max(1, PART // math.prod(shape[axis + 1 :]))
    for index in np.ndindex(*shape[:axis]):
        for start in range(0, shape[axis], rows):
            yield (*index, slice(start, start + rows))
