"""Cosine and sine of angles that are sums over several axes: every float32 entry is rounded once.

Float64 with an error bound decides most entries, big integers the rest: products and sums of float64 numbers are
fractions, whose whole turns can be removed exactly.
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

_BLOCK = 2**14  # products: float64 temporaries of this size fit into the second-level cache


def cos_sin_of_sums(
    positions: npt.NDArray[Any], turns: Float64s, *, factors: Frequencies | None = None
) -> tuple[Table, Table]:
    """Compute cosine and sine of `sum(positions[a] * turns[a])` turns, each `(..., length, features)`.

    Args:
        positions: int64 or float64, shape `(axes, ..., length)`, below 2**31 in size.
        turns: turns per position, shape `(axes, features)`.
        factors: one for each feature, which multiplies its cosine and sine; the default is 1.
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
    """Write cosine and sine of a block of positions, `(axes, rows) -> (2, rows, features)`."""
    products = flat[..., None] * turns[:, None, :]
    fractions = (products - np.rint(products)).sum(axis=0)
    angles = (fractions - np.rint(fractions)) * math.tau
    # A product errs by up to half an ulp, a sum by one, and cosine and sine in libraries by 4 ulp of 1.
    error = (np.abs(products).sum(axis=0) + 1) * (len(flat) * 2.0**-48) * products.any(axis=0)
    scales = np.array([float(factor) for factor in factors])
    for index, function in enumerate((np.cos, np.sin)):
        exact = _exact(flat, turns, index, factors)
        round_or_recompute(tables[index], function(angles) * scales, error * np.abs(scales), exact)


def _exact(
    positions: Float64s, turns: Float64s, function_index: int, factors: Frequencies
) -> Callable[[int, int], np.float32]:
    """Return the function that computes an entry of the cosine (0) or the sine (1) by big integers."""

    def entry(row: int, column: int) -> np.float32:
        pairs = zip(positions[:, row].tolist(), turns[:, column].tolist(), strict=True)
        angle = sum((Fraction(position) * Fraction(turn) for position, turn in pairs), Fraction(0)) % 1
        with high_precision():
            return nearest_float32(int(exact_cos_sin(1, int(angle * 2**TURN_BITS))[function_index] * factors[column]))

    return entry
