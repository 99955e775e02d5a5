"""Arithmetic finer than float64: frequencies as 110-digit decimals, angles as 256-bit fractions of a turn.

A turn is 2π radians. In turns the reduction of angles is exact: integer products overflow the machine word by whole
turns.
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
TWO_PI = Decimal(  # a literal: arithmetic at import would have the precision of the caller's context
    "6.283185307179586476925286766559005768394338798750211641949889184615632812572417"
    "99725606965068423413596429617302656461329418768921910116446345071881626"
)
_RADIANS_PER_TURN = int(Fraction(TWO_PI) * 2**TURN_BITS)  # in units of 2**-256


@contextmanager
def high_precision(digits: int = 110) -> Iterator[None]:
    """Compute decimals with so many digits inside a `with` block, whatever the caller's context is."""
    with localcontext(Context(prec=digits)):
        yield


class TurnFractions(NamedTuple):
    """Frequencies in turns per position: as big integers, and cut into the words that NumPy multiplies."""

    exact: tuple[int, ...]  # in units of 2**-256 turn
    high: npt.NDArray[np.uint64]  # the 64 bits after the point
    low: npt.NDArray[np.int64]  # the 32 bits after those
    radians: Float64s  # radians per position, rounded once
    decimals: Frequencies  # radians per position


def turns_of(frequencies: Frequencies) -> TurnFractions:
    """Convert frequencies from radians per position to turns per position."""
    with high_precision():
        exact = tuple(int(frequency / TWO_PI * 2**TURN_BITS) for frequency in frequencies)
    return TurnFractions(
        exact,
        np.array([(turn >> 192) % 2**64 for turn in exact], np.uint64),
        np.array([(turn >> 160) % 2**32 for turn in exact], np.int64),
        np.array([float(frequency) for frequency in frequencies], np.float64),
        frequencies,
    )


def wrapped_angles(positions: npt.NDArray[Any], turns: TurnFractions) -> tuple[Float64s, Float64s, Float64s]:
    """Compute angles modulo whole turns, in radians, and bounds on their errors.

    Args:
        positions: int64 or float64, below 2**31 in size, shape `(n, 1)`.
    Returns:
        Angles and sizes, each `(n, pairs)`, and floor, `(pairs,)`: the error of an angle is below
        `sizes * 2**-51 + floor`. The size of an angle includes that of each summand, because every float64 operation
        errs by up to half an ulp. The floor is 1.5 units of 2**-64 turn, or 0 for a frequency so low that no position
        completes a turn, for which the float64 product is precise enough.
    """
    whole = np.rint(positions).astype(np.int64) if positions.dtype.kind == "f" else positions
    carry = (whole * turns.low) >> 32
    wrapped = (whole.view(np.uint64) * turns.high + carry.view(np.uint64)).view(np.int64)
    angles: Float64s = wrapped * np.float64(math.tau * 2.0**-64)
    sizes = np.abs(angles)
    if positions.dtype.kind == "f":
        fractional = (positions - whole) * turns.radians
        angles += fractional
        sizes += np.abs(fractional)
    is_low = np.max(np.abs(positions), initial=0) * turns.radians < 1
    if is_low.any():
        angles[:, is_low] = positions * turns.radians[is_low]
        sizes[:, is_low] = np.abs(angles[:, is_low])
    return angles, sizes, np.where(is_low, 0, 2.0**-60)


def exact_cos_sin(position: float, turn: int) -> tuple[int, int]:
    """Compute cosine and sine of `position` × `turn` in units of 2**-200, with an error below 2**20 units."""
    numerator, denominator = position.as_integer_ratio()
    angle = (numerator * turn // denominator) % 2**TURN_BITS
    quarter = (angle + 2 ** (TURN_BITS - 3)) >> (TURN_BITS - 2)
    rest = angle - (quarter << (TURN_BITS - 2))  # from -1/8 to 1/8 turn
    radians = rest * _RADIANS_PER_TURN >> (2 * TURN_BITS - VALUE_BITS)
    sin = _sine(radians)
    cos = math.isqrt(4**VALUE_BITS - sin * sin)  # at least 0.7, so that its error is no larger than that of the sine
    return ((cos, sin), (-sin, cos), (-cos, -sin), (sin, -cos))[quarter % 4]


def cos_sin_to_bits(angle: Fraction, bits: int) -> tuple[int, int]:
    """Compute cosine and sine of an angle in radians in units of 2**-bits, with an error below 2 units.

    The angle is halved until it is below 2**-8; each doubling of angle and error is one square of a complex number.
    """
    halvings = max(angle.numerator.bit_length() - angle.denominator.bit_length() + 9, 0)
    unit = bits + halvings + 16
    sin = _sine((angle.numerator << bits + 16) // angle.denominator, unit)
    cos = math.isqrt(4**unit - sin * sin)
    for _ in range(halvings):
        cos, sin = (cos * cos - sin * sin) >> unit, (cos * sin) >> (unit - 1)
    return cos >> (unit - bits), sin >> (unit - bits)


def _sine(radians: int, bits: int = VALUE_BITS) -> int:
    """Sum the Taylor series of the sine, in units of 2**-bits."""
    square = radians * radians >> bits
    total, order, term = 0, 1, radians
    while term not in (0, -1):  # a right shift rounds negative terms to -1, never to 0
        total += term
        order += 2
        term = -(term * square >> bits) // (order * (order - 1))
    return total


def nearest_float32(number: Fraction) -> np.float32:
    """Round a number once to float32; a tie goes to the even number."""
    size, divisor = abs(number.numerator), number.denominator
    unit = max(math.frexp(size / divisor)[1] - 24, -149)  # a float32 has no bits below 2**-149
    rounded, rest = divmod(size << max(-unit, 0), divisor << max(unit, 0))
    rounded += 2 * rest + rounded % 2 > divisor << max(unit, 0)
    return np.float32(math.copysign(math.ldexp(rounded, unit), number))
