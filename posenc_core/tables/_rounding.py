"""Drafts: tables of cosine and sine that are being written, and their entries that float64 cannot decide."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

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
Table: TypeAlias = npt.NDArray[np.float32]


class Envelope(NamedTuple):
    """What a table grows or shrinks by along positions: column j by `exp((position - center) * rates[j])`."""

    rates: Frequencies
    center: float = 0


class TableSpec(NamedTuple):
    """Rows to be written, each of the two tables taking the first of the frequencies, or being None."""

    positions: Positions  # (rows,)
    cos: Table | None
    sin: Table | None
    turns: TurnFractions
    factors: Frequencies  # one for each frequency
    envelope: Envelope | None

    def part(self, rows: slice) -> TableSpec:
        """Some of the rows."""
        cos, sin = (None if table is None else table[rows] for table in (self.cos, self.sin))
        return self._replace(positions=self.positions[rows], cos=cos, sin=sin)

    def exact(self, row: int, column: int, kind: int) -> np.float32:
        """An entry of the cosine (0) or the sine (1), by big integers; where the angle is 0, it is 0 or the factor itself."""
        position, turn, factor = self.positions[row].item(), self.turns.exact[column], self.factors[column]
        if kind and not position * turn:
            return np.float32(0)
        exact = exact_cos_sin(position, turn)[kind]
        with high_precision():
            if self.envelope is None:
                return nearest_float32(int(exact * factor), error=VALUE_ERROR if position * turn else 0)
            distance = Decimal(position) - Decimal(self.envelope.center)
            grown = factor * (distance * self.envelope.rates[column]).exp()
            return nearest_float32(int(exact * grown), error=VALUE_ERROR * int(grown + 1))


def float_factors(spec: TableSpec) -> Float64s | None:
    """What each column is multiplied by, rounded to float64; None where that is 1."""
    if all(factor == 1 for factor in spec.factors):
        return None
    return np.array([float(factor) for factor in spec.factors])


def growth(envelope: Envelope, distances: npt.NDArray[Any]) -> tuple[Float64s, Float64s]:
    """How much columns grow over distances, `(n, columns)`, and how far that may be off, in shares of itself.

    An exponent is off by two roundings, `exp` by four last places.
    """
    exponents = distances[:, None] * np.array([float(rate) for rate in envelope.rates])
    return np.exp(exponents), (np.abs(exponents) + 8) * 2.0**-50


def round_or_recompute(
    out: npt.NDArray[np.float32], value: Float64s, slack: Float64s, exact: Callable[[Any, Any], np.float32]
) -> None:
    """Write values that are known up to a slack, rounded to float32; where that leaves two, ask for `exact(row, column)`."""
    upper = (value + slack).astype(np.float32)
    np.subtract(value, slack, out=out, casting="same_kind")
    for row, column in zip(*np.nonzero(out != upper), strict=True):
        out[row, column] = exact(row, column)
