"""Round to float32 once: from float64 if its error bound decides the entry, otherwise from big integers (Ziv)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from .._array_api.checks import check_decimals, check_number
from ._fixed_point import (
    VALUE_BITS,
    VALUE_ERROR,
    Float64s,
    Frequencies,
    TurnFractions,
    cos_sin_to_bits,
    exact_cos_sin,
    high_precision,
    nearest_float32,
)

Positions: TypeAlias = npt.NDArray[Any]
Table: TypeAlias = npt.NDArray[Any]  # float32 or float64

MOST_BITS = 2048  # of a rational number that may lie between two float32 numbers, once a factor of 53 bits divides it


def rows_at_a_time(entries: int, columns: int) -> int:
    """Return how many rows a block of about this many entries has: at least one."""
    return max(entries // max(columns, 1), 1)


@dataclass(frozen=True)
class Envelope:
    """The growth of a table along positions: column j is multiplied by `exp((position - center) * rates[j])`.

    Args:
        rates: decimals, one for each frequency.
        center: the position where the factor of all columns is 1.
    Raises:
        TypeError: if the rates are not decimals, or the center is not a number.
        ValueError: if one of them is not finite, or a rate is above 2**127 in size.
    """

    rates: Frequencies
    center: float = 0
    _bases: tuple[Fraction, ...] = field(default=(), init=False, repr=False)
    _span: Fraction = field(default=Fraction(1), init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rates", check_decimals("rates", self.rates))
        check_number("center", self.center)

    @classmethod
    def of_powers(cls, bases: tuple[Fraction, ...], *, span: float, center: float) -> Envelope:
        """Return the growth `base ** ((position - center) / span)` of each column.

        Its powers that are rational are known exactly, so that a tie between two float32 numbers is seen.
        """
        with high_precision():
            rates = tuple(_decimal(base).ln() / Decimal(span) for base in bases)
        envelope = cls(rates, center)
        object.__setattr__(envelope, "_bases", bases)
        object.__setattr__(envelope, "_span", Fraction(span))
        return envelope

    def rational(self, position: float, column: int) -> Fraction | None:
        """Return the factor of a column at a position if it is rational and may lie between two float32 numbers."""
        distance = (Fraction(position) - Fraction(self.center)) / self._span
        if not distance or not self.rates[column]:
            return Fraction(1)
        return rational_power(self._bases[column], distance) if self._bases else None

    def decimal(self, position: float, column: int) -> Decimal:
        """Return the factor of a column at a position, to the digits of the decimal context."""
        distance = _decimal((Fraction(position) - Fraction(self.center)) / self._span)
        return (distance * (_decimal(self._bases[column]).ln() if self._bases else self.rates[column])).exp()


def _decimal(number: Fraction) -> Decimal:
    return Decimal(number.numerator) / number.denominator


class TableSpec(NamedTuple):
    """The tables to write and the arguments of their entries; a table of fewer columns takes the first frequencies."""

    positions: Positions  # (rows,)
    cos: Table | None  # None: not wanted
    sin: Table | None
    turns: TurnFractions
    factors: Frequencies  # one for each frequency
    envelope: Envelope | None

    def part(self, rows: slice) -> TableSpec:
        """Return the spec of some of the rows."""
        cos, sin = (None if table is None else table[rows] for table in (self.cos, self.sin))
        return self._replace(positions=self.positions[rows], cos=cos, sin=sin)

    def exact(self, row: int, column: int, function_index: int) -> np.float32:
        """Compute an entry of the cosine (0) or the sine (1), rounded once."""
        position, turn, factor = self.positions[row].item(), self.turns.exact[column], self.factors[column]
        frequency, envelope = self.turns.decimals[column], self.envelope
        if not position or not frequency:
            grown = envelope.rational(position, column) if envelope else Fraction(1)
            if function_index or grown is not None:
                return nearest_float32((grown or 0) * (1 - function_index) * Fraction(factor))

        def entry(bits: int) -> tuple[int, int]:
            known, error = exact_cos_sin(position, turn), VALUE_ERROR
            if bits > VALUE_BITS:
                known, error = cos_sin_to_bits(Fraction(position) * Fraction(frequency), bits), 4
            with high_precision(max(bits // 3 + 20, 110)):
                scale = factor * envelope.decimal(position, column) if envelope else factor
                return int(known[function_index] * scale), error * int(scale + 1)

        return round_once(entry)


def round_once(number: Callable[[int], tuple[int, int]]) -> np.float32:
    """Return the float32 nearest to a number that lies not exactly between two.

    Args:
        number: the function that returns it in units of 2**-bits, and a bound on its error, which must decide for some
            number of bits.
    """
    bits = VALUE_BITS
    while True:
        value, error = number(bits)
        shift = max(abs(value).bit_length() - 24, bits - 149)  # a float32 has no bits below 2**-149
        rounded, rest = divmod(abs(value), 1 << shift)
        above = rest - (1 << (shift - 1))
        if abs(above) > error:
            return np.float32(math.copysign(math.ldexp(rounded + (above > 0), shift - bits), -(value < 0)))
        bits *= 2


def rational_power(base: Fraction, exponent: Fraction) -> Fraction | None:
    """Return `base ** exponent` if it is a rational number of some hundred bits, otherwise None; `base` is above 0."""
    root, power = exponent.denominator, exponent.numerator
    if root > MOST_BITS or abs(power) * max(base.numerator, base.denominator).bit_length() > MOST_BITS * root:
        return None
    parts = [round(part ** (1 / root)) for part in base.as_integer_ratio()]
    if [part**root for part in parts] != list(base.as_integer_ratio()):
        return None
    return Fraction(*parts) ** power


def float_factors(spec: TableSpec) -> Float64s | None:
    """Return the factor of each column, rounded to float64, or None if all are 1."""
    if all(factor == 1 for factor in spec.factors):
        return None
    return np.array([float(factor) for factor in spec.factors])


def growth(envelope: Envelope, distances: npt.NDArray[Any]) -> tuple[Float64s, Float64s]:
    """Return the envelope at distances from its center, `(n, columns)`, and a bound on its relative error.

    The error of an exponent is two roundings, that of `exp` 4 ulp.
    """
    exponents = distances[:, None] * np.array([float(rate) for rate in envelope.rates])
    return np.exp(exponents), (np.abs(exponents) + 8) * 2.0**-50


def round_or_recompute(out: Table, value: Float64s, error: Float64s, exact: Callable[[Any, Any], np.float32]) -> None:
    """Write `value`, rounded to float32; write `exact(row, column)` if `value ± error` rounds to two numbers."""
    upper = (value + error).astype(np.float32)
    np.subtract(value, error, out=out, casting="same_kind")
    for row, column in zip(*np.nonzero(out != upper), strict=True):
        out[row, column] = exact(row, column)
