"""Numbers finer than float64: frequencies as 110-digit decimals, angles as 256-bit fractions of a turn.

A turn is a whole rotation, 2π radians. Counting angles in turns makes their reduction exact: the whole turns
of an integer product fall off the left end of the machine word by themselves.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

Frequencies: TypeAlias = tuple[Decimal, ...]
Float64s: TypeAlias = npt.NDArray[np.float64]

TURN_BITS = 256
VALUE_BITS = 200
VALUE_ERROR = 2**20  # in units of 2**-200: generous for thirty rounded terms of a series
TWO_PI = Decimal(  # written out: at import, arithmetic would have the caller's precision
    "6.283185307179586476925286766559005768394338798750211641949889184615632812572417"
    "99725606965068423413596429617302656461329418768921910116446345071881626"
)
_RADIANS_PER_TURN = int(Fraction(TWO_PI) * 2**TURN_BITS)  # in units of 2**-256


@contextmanager
def high_precision(digits: int = 110) -> Iterator[None]:
    """A `with` block in which decimal arithmetic carries so many digits, whatever the caller's settings."""
    with localcontext(Context(prec=digits)):
        yield


class TurnFractions(NamedTuple):
    """Frequencies in turns per position: as big integers, and cut into the words that NumPy multiplies."""

    exact: tuple[int, ...]  # 2**256 is one turn
    high: npt.NDArray[np.uint64]  # the 64 bits after the point
    low: npt.NDArray[np.int64]  # the 32 bits after those
    radians: Float64s  # radians per position, rounded once


def turns_of(frequencies: Frequencies) -> TurnFractions:
    """The frequencies, given in radians per position, in turns per position."""
    with high_precision():
        exact = tuple(int(frequency / TWO_PI * 2**TURN_BITS) for frequency in frequencies)
    return TurnFractions(
        exact,
        np.array([(turn >> 192) % 2**64 for turn in exact], np.uint64),
        np.array([(turn >> 160) % 2**32 for turn in exact], np.int64),
        np.array([float(frequency) for frequency in frequencies], np.float64),
    )


def wrapped_angles(positions: npt.NDArray[Any], turns: TurnFractions) -> tuple[Float64s, Float64s, Float64s]:
    """Angles of positions, less whole turns, in radians, and how far they may be off.

    Args:
        positions: int64 or float64, below 2**31 in size, shape `(n, 1)`.
    Returns:
        Angles and reach, each `(n, pairs)`, and floor, `(pairs,)`: an angle is off by less than
        `reach * 2**-51 + floor`. The reach is its size, and that of what was added to it, each float64 operation being
        off by half a last place. The floor is 1.5 units of 2**-64 turn, or 0 for a frequency so low that no position makes
        a turn and the plain product will do.
    """
    whole = np.rint(positions).astype(np.int64) if positions.dtype.kind == "f" else positions
    carry = (whole * turns.low) >> 32
    wrapped = (whole.view(np.uint64) * turns.high + carry.view(np.uint64)).view(np.int64)
    angles: Float64s = wrapped * np.float64(math.tau * 2.0**-64)
    reach = np.abs(angles)
    if positions.dtype.kind == "f":
        beyond = (positions - whole) * turns.radians
        angles += beyond
        reach += np.abs(beyond)
    slow = np.max(np.abs(positions), initial=0) * turns.radians < 1
    if slow.any():
        angles[:, slow] = positions * turns.radians[slow]
        reach[:, slow] = np.abs(angles[:, slow])
    return angles, reach, np.where(slow, 0, 2.0**-60)


def exact_cos_sin(position: float, turn: int) -> tuple[int, int]:
    """Cosine and sine of `position` × `turn` as integers in units of 2**-200, off by less than 2**20 units."""
    numerator, denominator = position.as_integer_ratio()
    angle = (numerator * turn // denominator) % 2**TURN_BITS
    quarter = (angle + 2 ** (TURN_BITS - 3)) >> (TURN_BITS - 2)
    rest = angle - (quarter << (TURN_BITS - 2))  # at most an eighth of a turn either way
    radians = rest * _RADIANS_PER_TURN >> (2 * TURN_BITS - VALUE_BITS)
    cos, sin = _series(2**VALUE_BITS, 0, radians), _series(radians, 1, radians)
    return ((cos, sin), (-sin, cos), (-cos, -sin), (sin, -cos))[quarter % 4]


def _series(term: int, order: int, radians: int) -> int:
    """The Taylor series of cosine (from order 0) or sine (from order 1), in units of 2**-200."""
    square = radians * radians >> VALUE_BITS
    total = 0
    while term not in (0, -1):  # a right shift rounds negative terms to -1, never to 0
        total += term
        order += 2
        term = -(term * square >> VALUE_BITS) // (order * (order - 1))
    return total


def nearest_float32(value: int, *, error: int = VALUE_ERROR) -> np.float32:
    """`value` × 2**-200, known up to `error`, rounded once to float32; if exact, a tie goes to the even number.

    Raises:
        ArithmeticError: if the error does not let it tell between two float32 numbers.
    """
    size = abs(value)
    shift = max(size.bit_length() - 24, VALUE_BITS - 149)  # a float32 has no bits below 2**-149
    half = 1 << (shift - 1)
    rounded, rest = divmod(size, 2 * half)
    if abs(rest - half) < error:
        raise ArithmeticError(f"{value} * 2**-{VALUE_BITS} lies between two float32 numbers.")
    rounded += rest > half or (rest == half and rounded % 2 == 1)
    return np.float32(math.copysign(math.ldexp(rounded, shift - VALUE_BITS), value))
