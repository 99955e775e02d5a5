"""Precision: the errors of tables whose angles are computed in float32 or bfloat16, and where they begin."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .._array_api.checks import (
    check_integer,
    check_items,
    check_known,
    check_number,
    check_numbers,
    check_rank,
    check_type,
    shown,
)
from ..encodings.rotary.base import RotaryEncoding
from ..positions.sequences import from_array
from ..tables._rounding import rows_at_a_time

Float64s = npt.NDArray[np.float64]

ARITHMETICS = ("float32", "bfloat16")
BOUNDS = (1e-3, 1e-2, 1e-1)
LIMIT = 2**22  # positions: float32 represents all integers up to here
_BLOCK = 2**18  # entries: temporaries of this size stay in the cache


@dataclass(frozen=True, kw_only=True)
class Loss:
    """The errors of a table whose angles are computed in low precision, see `errors`.

    Attributes:
        arithmetic: `"float32"` or `"bfloat16"`.
        searched: the number of positions that were searched.
        first_off: pairs of an error bound and the first position that reaches it; None if no position does.
        growing: pairs of a position and the largest error up to it, see `growing_errors`.
    """

    arithmetic: str
    searched: int
    first_off: tuple[tuple[float, int | None], ...]
    growing: tuple[tuple[int, float], ...]


def loss(rotary: RotaryEncoding, *, arithmetic: str = "float32", bounds: Sequence[float] = BOUNDS) -> Loss:
    """Measure the errors of the table of an encoding, at its valid positions below 2**22.

    Args:
        rotary: the encoding; if its frequencies depend on the length, `rotary.at(length)`.
        arithmetic: `"float32"` or `"bfloat16"`.
        bounds: the errors whose first positions are searched for, ascending.
    Raises:
        TypeError: if `rotary` is not a rotary encoding, or `bounds` are not numbers.
        ValueError: if `arithmetic` is unknown, or `bounds` are below 1e-5 or do not ascend.

    >>> from posenc_core import Rotary
    >>> loss(Rotary(head_dim=128, layout="half", base=5e5)).first_off
    ((0.001, 20121), (0.01, 160983), (0.1, 2086516))
    """
    check_type("rotary", rotary, RotaryEncoding, "a rotary encoding")
    bounds = check_items("bounds", bounds, float | int, "numbers")
    for bound in bounds:
        check_number("bounds", bound, minimum=1e-5)
    if list(bounds) != sorted(bounds):
        raise ValueError(f"`bounds` must ascend, as each search begins where the last one ends, got {shown(bounds)}.")
    limit = min(rotary.max_seq_len or LIMIT, LIMIT)
    found, start = [], 0
    for bound in bounds:
        position = first_off(rotary, by=bound, arithmetic=arithmetic, start=start, limit=limit)
        found.append((bound, position))
        start = limit if position is None else position
    return Loss(
        arithmetic=arithmetic,
        searched=limit,
        first_off=tuple(found),
        growing=growing_errors(rotary, arithmetic=arithmetic, limit=limit),
    )


def errors(rotary: RotaryEncoding, positions: npt.NDArray[np.int64], *, arithmetic: str = "float32") -> Float64s:
    """Return the largest error of a table row at each position, if angles are computed in low precision.

    Positions, frequencies and angles, their products, are rounded once; cosine, sine and attention factor are exact.
    Most models also round while they compute the frequencies: their errors are larger, and begin earlier.

    Args:
        rotary: the encoding; if its frequencies depend on the length, `rotary.at(length)`.
        positions: integers, shape `(length,)`.
        arithmetic: `"float32"` or `"bfloat16"`.
    Returns:
        The largest absolute error of a cosine or sine, shape `(length,)`.
    Raises:
        TypeError: if `rotary` is not a rotary encoding, or `positions` are not integers.
        ValueError: if `positions` have not one axis or one is out of range, or `arithmetic` is unknown.

    >>> from posenc_core import Rotary
    >>> rotary = Rotary(head_dim=2, layout="half")
    >>> errors(rotary, np.array([256, 257]), arithmetic="bfloat16").round(3)
    array([0.   , 0.859])
    """
    check_type("rotary", rotary, RotaryEncoding, "a rotary encoding")
    positions = from_array(positions)
    check_numbers("positions", positions, kinds=("int",))
    check_rank("positions", positions, minimum=1, maximum=1, axes="(length,)")
    check_known("arithmetic", arithmetic, ARITHMETICS)
    angles = _angles(_radians(rotary), positions, arithmetic)
    rows = rotary.rows(positions)
    cos, sin = np.cos(angles), np.sin(-angles if rotary.direction == "inverse" else angles)
    both = [np.abs(rotary.attention_factor * value - rows[name]) for name, value in (("cos", cos), ("sin", sin))]
    return np.maximum(*both)[:, rotary.angular_frequencies() != 0].max(axis=-1, initial=0)  # others have no angle


def first_off(
    rotary: RotaryEncoding, *, by: float = 1e-3, arithmetic: str = "float32", start: int = 0, limit: int = LIMIT
) -> int | None:
    """Find the first position where the table has an error of at least `by`, see `errors`.

    Args:
        rotary: the encoding; if its frequencies depend on the length, `rotary.at(length)`.
        by: the error, at least 1e-5.
        arithmetic: `"float32"` or `"bfloat16"`.
        start, limit: the first position of the search, and the position before which it ends, at most 2**22.
    Returns:
        The position, or None if the error is smaller everywhere.
    Raises:
        TypeError, ValueError: if a number is out of range, or `arithmetic` is unknown.

    >>> from posenc_core import Rotary
    >>> first_off(Rotary(head_dim=2, layout="half"), by=0.1, arithmetic="bfloat16")
    257
    """
    check_number("by", by, minimum=1e-5)
    start, limit = check_integer("start", start, minimum=0), check_integer("limit", limit, maximum=LIMIT)
    check_known("arithmetic", arithmetic, ARITHMETICS)
    radians, enough = _radians(rotary), 0.99 * by / rotary.attention_factor
    for positions in _blocks(start, limit, most=rows_at_a_time(_BLOCK, rotary.pairs)):
        fast = radians[radians * positions[-1] * _RELATIVE_ERROR[arithmetic] > enough]
        angle_errors = np.abs(_angles(fast, positions, arithmetic) - np.outer(positions, fast)).max(axis=-1, initial=0)
        candidates = positions[angle_errors > enough]  # the error of a cosine or sine is at most that of its angle
        found = candidates[errors(rotary, candidates, arithmetic=arithmetic) >= by] if candidates.size else candidates
        if found.size:
            return int(found[0])
    return None


def growing_errors(
    rotary: RotaryEncoding, *, arithmetic: str = "float32", limit: int = LIMIT
) -> tuple[tuple[int, float], ...]:
    """Return pairs of a position and the largest error up to it, eight positions for each doubling; see `errors`.

    The errors are sampled: sixteen consecutive positions that end at each of these positions.

    Raises:
        TypeError, ValueError: as in `errors`, or if `limit` is not an integer from 1 to 2**22.

    >>> from posenc_core import Rotary
    >>> [position for position, _ in growing_errors(Rotary(head_dim=2, layout="half"), limit=10)]
    [1, 2, 3, 4, 5, 6, 7, 8, 9]
    """
    limit = check_integer("limit", limit, maximum=LIMIT)
    ends = np.unique(np.rint(2 ** np.arange(0, np.log2(max(limit - 1, 1)) + 1e-9, 1 / 8)).astype(np.int64))
    runs = np.unique(np.maximum(ends[:, None] - np.arange(16), 0))
    largest = np.maximum.accumulate(errors(rotary, runs, arithmetic=arithmetic))
    return tuple((int(end), float(largest[i])) for end, i in zip(ends, np.searchsorted(runs, ends), strict=True))


def _blocks(start: int, limit: int, *, most: int) -> Iterator[npt.NDArray[np.int64]]:
    """Yield all positions in order, in blocks that double in size up to about `most`."""
    size = 16
    while start < limit:
        yield np.arange(start, min(start + size, limit))
        start, size = start + size, max(min(2 * size, most), 16)


def _radians(rotary: RotaryEncoding) -> Float64s:
    return rotary.frequencies()[: rotary.pairs]


def _angles(radians: Float64s, positions: npt.NDArray[np.int64], arithmetic: str) -> Float64s:
    rounded = ROUNDED[arithmetic]
    product = rounded(positions)[:, None] * rounded(radians)  # in float32, which is exact for bfloat16 factors
    return rounded(product).astype(np.float64)


def _float32(numbers: Any) -> npt.NDArray[np.float32]:
    return np.asarray(numbers, np.float32)


def _bfloat16(numbers: Any) -> npt.NDArray[np.float32]:
    """Round to the nearest bfloat16, ties to even."""
    bits = _float32(numbers).view(np.uint32)
    return ((bits + (0x7FFF + ((bits >> 16) & 1))) & 0xFFFF0000).view(np.float32)


def _float16(numbers: Any) -> npt.NDArray[np.float32]:
    with np.errstate(over="ignore"):
        return np.asarray(numbers, np.float64).astype(np.float16).astype(np.float32)


_RELATIVE_ERROR = {"float32": 2.0**-22, "bfloat16": 2.0**-7}  # more than that of any angle
ROUNDED: dict[str, Callable[[Any], npt.NDArray[np.float32]]] = {  # rounding to these dtypes, results as float32
    "float32": _float32,
    "bfloat16": _bfloat16,
    "float16": _float16,
}
