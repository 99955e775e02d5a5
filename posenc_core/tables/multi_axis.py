"""Sums: cosine and sine of angles to which several axes contribute, every float32 entry rounded once.

As in `tables`, float64 decides what it can, and big integers the rest: products and sums of float64 numbers are
fractions, whose whole turns fall off.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from ._fixed_point import (
    TURN_BITS,
    Float64s,
    Frequencies,
    exact_cos_sin,
    high_precision,
    nearest_float32,
)
from ._rounding import Table, round_or_recompute

_BLOCK = 2**14  # products: float64 temporaries of this size stay in the second-level cache


def cos_sin_of_sums(
    positions: npt.NDArray[Any], turns: Float64s, *, factors: Frequencies | None = None
) -> tuple[Table, Table]:
    """Cosine and sine of `sum(positions[a] * turns[a])` turns, each `(..., length, features)`.

    Args:
        positions: int64 or float64, shape `(axes, ..., length)`, below 2**31 in size.
        turns: turns per position, shape `(axes, features)`.
        factors: what to multiply them by, one number for each feature.
    Returns:
        Two float32 arrays, correctly rounded.
    Source: Tancik et al. 2020, section 5 (arXiv:2006.10739).

    >>> cos_sin_of_sums(np.array([[0.25], [1.0]]), np.array([[1.0], [0.25]]))[0]
    array([[-1.]], dtype=float32)
    """
    flat = positions.reshape(len(positions), -1)
    factors = (Decimal(1),) * turns.shape[1] if factors is None else factors
    tables = np.empty((2, flat.shape[1], turns.shape[1]), np.float32)
    step = max(_BLOCK // max(turns.size, 1), 1)
    for first in range(0, flat.shape[1], step):
        rows = slice(first, first + step)
        _write(tables[:, rows], flat[:, rows].astype(np.float64), turns, factors)
    cos, sin = tables.reshape(2, *positions.shape[1:], turns.shape[1])
    return cos, sin


def _write(tables: Table, flat: Float64s, turns: Float64s, factors: Frequencies) -> None:
    """Write both functions of a block of positions, `(axes, rows) -> (2, rows, features)`."""
    products = flat[..., None] * turns[:, None, :]
    part = (products - np.rint(products)).sum(axis=0)
    angles = (part - np.rint(part)) * math.tau
    # A product is off by half a last place, a sum by one, and libraries promise 4 of 1 for what they make of it.
    slack = (np.abs(products).sum(axis=0) + 1) * (len(flat) * 2.0**-48) * products.any(axis=0)
    own = np.array([float(factor) for factor in factors])
    for kind, function in enumerate((np.cos, np.sin)):
        exact = _exact(flat, turns, kind, factors)
        round_or_recompute(tables[kind], function(angles) * own, slack * np.abs(own), exact)


def _exact(positions: Float64s, turns: Float64s, kind: int, factors: Frequencies) -> Callable[[int, int], np.float32]:
    """What tells one entry of a table by big integers."""

    def golden_case(row: int, column: int) -> np.float32:
        each = zip(positions[:, row].tolist(), turns[:, column].tolist(), strict=True)
        angle = sum((Fraction(position) * Fraction(turn) for position, turn in each), Fraction(0)) % 1
        with high_precision():
            return nearest_float32(int(exact_cos_sin(1, int(angle * 2**TURN_BITS))[kind] * factors[column]))

    return golden_case
