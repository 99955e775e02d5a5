"""Rotation of NumPy arrays part by part, so that what is worked out on the way stays in the caches."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

Host: TypeAlias = npt.NDArray[Any]
PART = 1 << 15  # numbers of a part, which lie in the second cache with all that becomes of them


class Turn(NamedTuple):
    """Pairs that turn together: where their numbers come from, where these go, and by which columns."""

    first: slice
    second: slice
    to_first: slice
    to_second: slice
    columns: slice


def supports(x: Host) -> bool:
    """Whether parts are worth it."""
    return x.size > PART and x.dtype.name in ("float16", "float32", "float64")


def turned(x: Host, cos: Host, sin: Host, pairing: Any, out: Host | None = None) -> Host | None:
    """`x`, turned by checked tables; None if `out` overlaps `x` without being it, or overlaps a table."""
    result = np.empty(x.shape, x.dtype) if out is None else out
    over_tables = any(np.may_share_memory(table, result) for table in (cos, sin))
    if over_tables or (np.may_share_memory(x, result) and not lies_as(result, x)):
        return None
    wide = np.promote_types(x.dtype, np.float32)
    c, s = (np.broadcast_to(np.asarray(table, wide), (*x.shape[:-1], cos.shape[-1])) for table in (cos, sin))
    turns, still = _turns(x.shape[-1], cos.shape[-1], pairing)
    for part in _parts(x.shape):
        for channels in still if out is not x else ():
            result[part][..., channels] = x[part][..., channels]
        _turn(np.asarray(x[part], wide), c[part], s[part], turns, result[part])
    return result


def lies_as(one: Host, other: Host) -> bool:
    """Whether two arrays are the same memory in the same order, each number at a place of its own."""
    alike = one.ctypes.data == other.ctypes.data and one.strides == other.strides and one.shape == other.shape
    return alike and one.flags.c_contiguous


def _turns(width: int, pairs: int, pairing: Any) -> tuple[list[Turn], list[slice]]:
    """Which channels turn, block by block, and which stand still."""
    size, start = pairs // pairing.blocks, width - 2 * pairs if pairing.placement == "trail" else 0
    turns = []
    for block in range(pairing.blocks):
        sides = (_slices(start + 2 * size * block, size, width, layout, pairing) for layout in pairing[:2])
        turns.append(Turn(*chain(*sides, [slice(size * block, size * (block + 1))])))
    if pairing.placement == "spread" and pairing.split == "half":
        return turns, [slice(pairs, width // 2), slice(width // 2 + pairs, width)]
    return turns, [slice(start), slice(start + 2 * pairs, width)]


def _slices(start: int, size: int, width: int, layout: str, pairing: Any) -> tuple[slice, slice]:
    """The first and the second channels of a block of pairs."""
    if layout == "interleaved":
        return slice(start, start + 2 * size, 2), slice(start + 1, start + 2 * size, 2)
    middle = width // 2 if pairing.placement == "spread" else start + size
    return slice(start, start + size), slice(middle, middle + size)


def _turn(x: Host, cos: Host, sin: Host, turns: list[Turn], out: Host) -> None:
    for turn in turns:
        first, second = x[..., turn.first], x[..., turn.second]
        c, s = cos[..., turn.columns], sin[..., turn.columns]
        turned_first, turned_second = first * c, second * c
        turned_first -= second * s
        turned_second += first * s
        out[..., turn.to_first], out[..., turn.to_second] = turned_first, turned_second


def _parts(shape: tuple[int, ...]) -> Iterator[tuple[Any, ...]]:
    """Indices of parts of about one size: whole where they are small enough, along an axis where not; no row is cut."""
    if len(shape) < 2:
        yield (...,)
        return
    rows_axis = len(shape) - 2
    axis = next((axis for axis in range(rows_axis) if math.prod(shape[axis + 1 :]) <= PART), rows_axis)
    rows = max(1, PART // max(1, math.prod(shape[axis + 1 :])))
    for index in np.ndindex(*shape[:axis]):
        for start in range(0, shape[axis], rows):
            yield (*index, slice(start, start + rows))
