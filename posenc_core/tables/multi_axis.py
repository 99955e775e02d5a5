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

from .._array_api.checks import check_decimals, check_rank, host_array, shown
from ..positions.sequences import from_array
from ._fixed_point import (
    TURN_BITS,
    TWO_PI,
    VALUE_BITS,
    Float64s,
    Frequencies,
    cos_sin_to_bits,
    exact_cos_sin,
    high_precision,
    nearest_float32,
)
from ._rounding import Table, round_once, round_or_recompute, rows_at_a_time
from .sincos import DType, check_dtype

MOST_TURNS = 2**64  # per position: products with positions are exact fractions of few bits
_BLOCK = 2**14  # products: float64 temporaries of this size fit into the second-level cache


def cos_sin_of_sums(
    positions: npt.NDArray[Any], turns: Float64s, *, factors: Frequencies | None = None, dtype: DType = np.float32
) -> tuple[Table, Table]:
    """Compute cosine and sine of `sum(positions[a] * turns[a])` turns, each `(..., length, features)`.

    Args:
        positions: int64 or float64, shape `(axes, ..., length)`, below 2**31 in size.
        turns: turns per position, shape `(axes, features)`.
        factors: one for each feature, which multiplies its cosine and sine; the default is 1.
        dtype: float32 or float64, which takes some 400 times as long.
    Returns:
        Two arrays of `dtype`, correctly rounded.
    Raises:
        TypeError: if positions or turns are not real numbers, or the factors are not decimals.
        ValueError: if one of them is out of range, or sizes do not fit each other.
    Source: Tancik et al. 2020, section 5 (arXiv:2006.10739).

    >>> cos_sin_of_sums(np.array([[0.25], [1.0]]), np.array([[1.0], [0.25]]))[0]
    array([[-1.]], dtype=float32)
    """
    positions, turns = from_array(positions), host_array("turns", turns)
    check_rank("positions", positions, minimum=2, axes="(axes, ..., length)")
    check_rank("turns", turns, minimum=2, maximum=2, axes="(axes, features)")
    if turns.dtype.kind not in "iuf" or not float(np.abs(turns).max(initial=0)) < MOST_TURNS:
        raise TypeError(f"`turns` must be finite numbers below 2**64 in size, got {shown(turns)}.")
    if len(turns) != len(positions):
        raise ValueError(f"`turns` must have a row for each of {len(positions)} axes, got shape {turns.shape}.")
    flat = positions.reshape(len(positions), math.prod(positions.shape[1:]))
    factors = check_decimals("factors", (Decimal(1),) * turns.shape[1] if factors is None else factors)
    if len(factors) != turns.shape[1]:
        raise ValueError(f"`factors` must be one for each of {turns.shape[1]} features, got {len(factors)}.")
    turns = turns.astype(np.float64, copy=False)
    tables = np.empty((2, flat.shape[1], turns.shape[1]), check_dtype(dtype))
    step = rows_at_a_time(_BLOCK, turns.size)
    for first in range(0, flat.shape[1], step):
        rows = slice(first, first + step)
        write = _write_float64 if tables.dtype == np.float64 else _write
        write(tables[:, rows], flat[:, rows].astype(np.float64), turns, factors)
    cos, sin = tables.reshape(2, *positions.shape[1:], turns.shape[1])
    return cos, sin


def _write(tables: Table, flat: Float64s, turns: Float64s, factors: Frequencies) -> None:
    """Write cosine and sine of a block of positions, `(axes, rows) -> (2, rows, features)`."""
    products = flat[..., None] * turns[:, None, :]
    angles = (products - np.rint(products)).sum(axis=0) * math.tau  # at most half a turn of each axis
    # A product errs by up to half an ulp, a sum by one, and cosine and sine in libraries by 4 ulp of 1.
    error = (np.abs(products).sum(axis=0) + 1) * (len(flat) * 2.0**-48) * products.any(axis=0)
    scales = np.array([float(factor) for factor in factors])
    for index, function in enumerate((np.cos, np.sin)):
        exact = _exact(flat, turns, index, factors)
        round_or_recompute(tables[index], function(angles) * scales, error * np.abs(scales), exact)


def _write_float64(tables: Table, flat: Float64s, turns: Float64s, factors: Frequencies) -> None:
    """Write as `_write`, all by big integers."""
    with high_precision():
        for row, column in np.ndindex(*tables.shape[1:]):
            for index, value in enumerate(_cos_sin(flat[:, row], turns[:, column])):
                tables[index, row, column] = float(value * factors[column] / 2**VALUE_BITS)


def _exact(
    positions: Float64s, turns: Float64s, function_index: int, factors: Frequencies
) -> Callable[[int, int], np.float32]:
    """Return the function that computes an entry of the cosine (0) or the sine (1) by big integers."""

    def entry(row: int, column: int) -> np.float32:
        turn, factor = _turn(positions[:, row], turns[:, column]), Fraction(factors[column])
        if (4 * turn).denominator == 1:  # all other binary fractions of a turn have irrational cosines and sines
            return nearest_float32((1, 0, -1, 0)[int(4 * turn) - function_index & 3] * factor)
        angle = (turn - round(turn)) * Fraction(TWO_PI)

        def value(bits: int) -> tuple[int, int]:
            units = cos_sin_to_bits(angle, bits)[function_index]
            return int(units * factor), 3 * int(abs(factor) + 1)

        return round_once(value)

    return entry


def _turn(position: Float64s, turns: Float64s) -> Fraction:
    """Return the angle of one position, `(axes,)`, from 0 up to but not including 1 turn."""
    pairs = zip(position.tolist(), turns.tolist(), strict=True)
    return sum((Fraction(number) * Fraction(turn) for number, turn in pairs), Fraction(0)) % 1


def _cos_sin(position: Float64s, turns: Float64s) -> tuple[int, int]:
    """Return cosine and sine of one position, `(axes,)`, in units of 2**-200."""
    return exact_cos_sin(1, int(_turn(position, turns) * 2**TURN_BITS))
