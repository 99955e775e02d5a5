"""Precision: how far tables are off whose angles are multiplied in float32 or bfloat16, and from which position on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .._array_api.checks import check_integer, check_known, check_number
from ..encodings.rotary.base import RotaryEncoding

Float64s = npt.NDArray[np.float64]

ARITHMETICS = ("float32", "bfloat16")
BOUNDS = (1e-3, 1e-2, 1e-1)
LIMIT = 2**22  # positions: integers that float32 has
_BLOCK = 2**18  # entries: temporaries that the cache holds


@dataclass(frozen=True, kw_only=True)
class Loss:
    """What a table loses whose angles are computed in narrow numbers, see `errors`.

    Attributes:
        arithmetic: the numbers: `"float32"` or `"bfloat16"`.
        searched: how many positions were looked at.
        first_off: by how much an entry is off, and the first position where one is; None if there is none.
        growing: positions, and the largest error up to each, see `growing_errors`.
    """

    arithmetic: str
    searched: int
    first_off: tuple[tuple[float, int | None], ...]
    growing: tuple[tuple[int, float], ...]


def loss(rotary: RotaryEncoding, *, arithmetic: str = "float32", bounds: Sequence[float] = BOUNDS) -> Loss:
    """What the table of an encoding loses at the positions it is for, of those below 2**22.

    Args:
        rotary: the encoding, for the length that it is at.
        arithmetic: `"float32"` or `"bfloat16"`.
        bounds: the errors whose first positions are looked for, ascending.
    Raises:
        ValueError: if `arithmetic` is unknown.

    >>> from posenc_core import Rotary
    >>> loss(Rotary(head_dim=128, layout="half", base=5e5)).first_off
    ((0.001, 20121), (0.01, 160983), (0.1, 2086516))
    """
    limit = min(rotary.max_seq_len or LIMIT, LIMIT)
    firsts, start = [], 0
    for by in bounds:
        first = first_off(rotary, by=by, arithmetic=arithmetic, start=start, limit=limit)
        firsts.append((by, first))
        start = limit if first is None else first
    return Loss(
        arithmetic=arithmetic,
        searched=limit,
        first_off=tuple(firsts),
        growing=growing_errors(rotary, arithmetic=arithmetic, limit=limit),
    )


def errors(rotary: RotaryEncoding, positions: npt.NDArray[np.int64], *, arithmetic: str = "float32") -> Float64s:
    """How far the table is off at each position, in its worst entry, if angles are computed in narrow numbers.

    Positions and frequencies are rounded once, and so is their product, the angle; cosine, sine and attention factor
    are exact. Models that round on the way to the frequencies, too, as most do, are off by more, and earlier.

    Args:
        rotary: the encoding, for the length that it is at.
        positions: integers, shape `(length,)`.
        arithmetic: `"float32"` or `"bfloat16"`.
    Returns:
        The largest distance of a cosine or sine from the exact one, shape `(length,)`.
    Raises:
        ValueError: if `arithmetic` is unknown.

    >>> from posenc_core import Rotary
    >>> rotary = Rotary(head_dim=2, layout="half")
    >>> errors(rotary, np.array([256, 257]), arithmetic="bfloat16").round(3)
    array([0.   , 0.859])
    """
    check_known("arithmetic", arithmetic, ARITHMETICS)
    angles = _angles(_radians(rotary), positions, arithmetic)
    rows = rotary.rows(positions)
    cos, sin = np.cos(angles), np.sin(-angles if rotary.direction == "inverse" else angles)
    off = [np.abs(rotary.attention_factor * value - rows[name]) for name, value in (("cos", cos), ("sin", sin))]
    return np.maximum(*off).max(axis=-1, initial=0)


def first_off(
    rotary: RotaryEncoding, *, by: float = 1e-3, arithmetic: str = "float32", start: int = 0, limit: int = LIMIT
) -> int | None:
    """The first position at which a table is off by so much, its angles being computed in narrow numbers; see `errors`.

    Args:
        rotary: the encoding, for the length that it is at.
        by: how far an entry is from the exact one, at least 1e-5.
        arithmetic: `"float32"` or `"bfloat16"`.
        start, limit: the first position to look at, and the one to stop before, at most 2**22.
    Returns:
        The position, or None if there is none.
    Raises:
        TypeError, ValueError: if a number is out of range, or `arithmetic` is unknown.

    >>> from posenc_core import Rotary
    >>> first_off(Rotary(head_dim=2, layout="half"), by=0.1, arithmetic="bfloat16")
    257
    """
    check_number("by", by, minimum=1e-5)
    check_integer("start", start, minimum=0)
    check_integer("limit", limit)
    check_known("arithmetic", arithmetic, ARITHMETICS)
    if limit > LIMIT:
        raise ValueError(f"`limit` must be at most {LIMIT}, got {limit!r}.")
    radians, enough = _radians(rotary), 0.99 * by / rotary.attention_factor
    for positions in _blocks(start, limit, most=_BLOCK // max(rotary.pairs, 1)):
        fast = radians[radians * positions[-1] * _REACH[arithmetic] > enough]
        beyond = np.abs(_angles(fast, positions, arithmetic) - np.outer(positions, fast)).max(axis=-1, initial=0)
        suspects = positions[beyond > enough]  # no cosine or sine is off by more than its angle
        off = suspects[errors(rotary, suspects, arithmetic=arithmetic) >= by] if suspects.size else suspects
        if off.size:
            return int(off[0])
    return None


def growing_errors(
    rotary: RotaryEncoding, *, arithmetic: str = "float32", limit: int = LIMIT
) -> tuple[tuple[int, float], ...]:
    """The largest error up to a position, for positions ever further apart, eight to the octave; see `errors`.

    Not every position is looked at: of those up to each, runs of sixteen.

    >>> from posenc_core import Rotary
    >>> [position for position, _ in growing_errors(Rotary(head_dim=2, layout="half"), limit=10)]
    [1, 2, 3, 4, 5, 6, 7, 8, 9]
    """
    ends = np.unique(np.rint(2 ** np.arange(0, np.log2(max(limit - 1, 1)) + 1e-9, 1 / 8)).astype(np.int64))
    runs = np.unique(np.maximum(ends[:, None] - np.arange(16), 0))
    off = np.maximum.accumulate(errors(rotary, runs, arithmetic=arithmetic))
    return tuple((int(end), float(off[place])) for end, place in zip(ends, np.searchsorted(runs, ends), strict=True))


def _blocks(start: int, limit: int, *, most: int) -> Iterator[npt.NDArray[np.int64]]:
    """All positions in order, in blocks that double up to `most`, or a few more."""
    size = 16
    while start < limit:
        yield np.arange(start, min(start + size, limit))
        start, size = start + size, max(min(2 * size, most), 16)


def _radians(rotary: RotaryEncoding) -> Float64s:
    return rotary.frequencies()[: rotary.pairs]


def _angles(radians: Float64s, positions: npt.NDArray[np.int64], arithmetic: str) -> Float64s:
    rounded = ROUNDED[arithmetic]
    product = rounded(positions)[:, None] * rounded(radians)  # float32: exact for numbers of bfloat16
    return rounded(product).astype(np.float64)


def _float32(numbers: Any) -> npt.NDArray[np.float32]:
    return np.asarray(numbers, np.float32)


def _bfloat16(numbers: Any) -> npt.NDArray[np.float32]:
    """The nearest numbers with eight bits, of two the even one."""
    bits = _float32(numbers).view(np.uint32)
    return ((bits + (0x7FFF + ((bits >> 16) & 1))) & 0xFFFF0000).view(np.float32)


def _float16(numbers: Any) -> npt.NDArray[np.float32]:
    with np.errstate(over="ignore"):
        return np.asarray(numbers, np.float64).astype(np.float16).astype(np.float32)


_REACH = {"float32": 2.0**-22, "bfloat16": 2.0**-7}  # no angle is off by so great a part of itself
ROUNDED: dict[str, Callable[[Any], npt.NDArray[np.float32]]] = {  # the nearest numbers of these dtypes
    "float32": _float32,
    "bfloat16": _bfloat16,
    "float16": _float16,
}
