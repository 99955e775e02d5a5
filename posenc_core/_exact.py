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
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

Frequencies: TypeAlias = tuple[Decimal, ...]
Float64s: TypeAlias = npt.NDArray[np.float64]

TURN_BITS = 256
VALUE_BITS = 200
VALUE_ERROR = 2**20  # in units of 2**-200: generous for thirty rounded terms of a series
TWO_PI = 2 * Decimal(
    "3.1415926535897932384626433832795028841971693993751058209749445923078164"
    "0628620899862803482534211706798214808651328230664709384460955"
)
_RADIANS_PER_TURN = int(TWO_PI.scaleb(100))  # scaled by 10**100


@contextmanager
def high_precision() -> Iterator[None]:
    """A `with` block in which decimal arithmetic carries 110 digits, whatever the caller's settings."""
    with localcontext(Context(prec=110)):
        yield


class Turns(NamedTuple):
    """Frequencies in turns per position: as big integers, and cut into the words that NumPy multiplies."""

    exact: tuple[int, ...]  # 2**256 is one turn
    high: npt.NDArray[np.uint64]  # the 64 bits after the point
    low: npt.NDArray[np.int64]  # the 32 bits after those
    radians: Float64s  # radians per position, rounded once


def turns_of(frequencies: Frequencies) -> Turns:
    """The frequencies, given in radians per position, in turns per position."""
    with high_precision():
        exact = tuple(int(frequency / TWO_PI * 2**TURN_BITS) for frequency in frequencies)
    return Turns(
        exact,
        np.array([(turn >> 192) % 2**64 for turn in exact], np.uint64),
        np.array([(turn >> 160) % 2**32 for turn in exact], np.int64),
        np.array([float(frequency) for frequency in frequencies], np.float64),
    )


def wrapped_angles(whole: npt.NDArray[np.int64], rest: Float64s | None, turns: Turns) -> tuple[Float64s, Float64s]:
    """Angles of the positions `whole + rest`, less whole turns, in radians, and their reach.

    Args:
        whole: below 2**31 in size, shape `(n, 1)`.
        rest: at most one half in size, shape `(n, 1)`, or `None` where all positions are whole.
    Returns:
        Angles and reach, each `(n, pairs)`; an angle is off by less than `reach * 2**-51 + 2**-60`: the product with
        `whole` by 1.5 units of 2**-64 turn, and each float64 operation after it by half a last place.
    """
    carry = (whole * turns.low) >> 32
    wrapped = (whole.view(np.uint64) * turns.high + carry.view(np.uint64)).view(np.int64)
    angles = wrapped * np.float64(math.tau * 2.0**-64)
    reach = np.abs(angles)
    if rest is not None:
        beyond = rest * turns.radians
        angles += beyond
        reach += np.abs(beyond)
    return angles, reach


def exact_cos_sin(position: float, turn: int) -> tuple[int, int]:
    """Cosine and sine of `position` × `turn` as integers in units of 2**-200, off by less than 2**20 units."""
    numerator, denominator = Fraction(position).as_integer_ratio()
    angle = (numerator * turn // denominator) % 2**TURN_BITS
    quarter = (angle + 2 ** (TURN_BITS - 3)) >> (TURN_BITS - 2)
    rest = angle - (quarter << (TURN_BITS - 2))  # at most an eighth of a turn either way
    radians = rest * _RADIANS_PER_TURN // 10**100 >> (TURN_BITS - VALUE_BITS)
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


def nearest_float32(value: int) -> np.float32:
    """`value` × 2**-200 rounded once to float32.

    Raises:
        ArithmeticError: if `value` is too near the middle of two float32 numbers to tell.
    """
    size = abs(value)
    shift = max(size.bit_length() - 24, VALUE_BITS - 149)  # a float32 has no bits below 2**-149
    half = 1 << (shift - 1)
    if abs(size % (2 * half) - half) < VALUE_ERROR:
        raise ArithmeticError(f"{value} * 2**-{VALUE_BITS} lies between two float32 numbers.")
    rounded = (size + half) >> shift
    return np.float32(math.copysign(math.ldexp(rounded, shift - VALUE_BITS), value))
