"""Round to float32 once: from float64 if its error bound decides the entry, otherwise from big integers (Ziv)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from .._array_api.checks import check_decimals, check_number
from ._fixed_point import (
    VALUE_ERROR,
    Float64s,
    Frequencies,
    TurnFractions,
    exact_cos_sin,
    high_precision,
    nearest_float32,
)

Positions: TypeAlias = npt.NDArray[Any]
Table: TypeAlias = npt.NDArray[Any]  # float32 or float64


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

    def __post_init__(self) -> None:
        object.__setattr__(self, "rates", check_decimals("rates", self.rates))
        check_number("center", self.center)


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
        """Compute an entry of the cosine (0) or the sine (1) by big integers, rounded once."""
        position, turn, factor = self.positions[row].item(), self.turns.exact[column], self.factors[column]
        if function_index and not position * turn:
            return np.float32(0)
        exact = exact_cos_sin(position, turn)[function_index]
        with high_precision():
            if self.envelope is None:  # the cosine of 0 is exact, so the entry may be a tie
                return nearest_float32(int(exact * factor), error=VALUE_ERROR if position * turn else 0)
            distance = Decimal(position) - Decimal(self.envelope.center)
            scale = factor * (distance * self.envelope.rates[column]).exp()
            return nearest_float32(int(exact * scale), error=VALUE_ERROR * int(scale + 1))


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
