"""Exact factors of queries: the formulas of `QueryScale` and logarithms, every float32 entry rounded once."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from ._fixed_point import Float64s, high_precision
from ._rounding import Table, round_once, round_or_recompute
from .sincos import DType

Growth: TypeAlias = Literal["steps", "log", "power"]


def query_factors(counts: npt.NDArray[np.int64], *, growth: Growth, length: int, scale: float | None) -> Table:
    """Compute the factors of queries whose numbers in the sequence are `counts`.

    Args:
        counts: not negative, any shape.
        growth: the formula, as in `QueryScale`.
        length: the number of tokens that the formula divides by, at least 1.
        scale: as in `QueryScale`; None for `1 / ln(length)`.
    Returns:
        float32, the shape of `counts`, correctly rounded.
    Source: the formulas are those of `QueryScale`. Rounding test: Ziv 1991, "Fast evaluation of elementary mathematical
        functions with correctly rounded last bit".

    >>> query_factors(np.array([0, 8192]), growth="steps", length=8192, scale=0.1)
    array([1.       , 1.0693147], dtype=float32)
    """
    given, inverse = counts.ravel(), np.ndarray(0, np.int64)
    if growth == "steps":  # all tokens of a step have one factor
        given, inverse = np.unique(given // length, return_inverse=True)
    values, sensitivity = _IN_FLOAT64[growth](given, length, scale)
    factors = np.empty_like(values[:, None], np.float32)
    # functions of float64 err by at most 4 ulp; an error of the ratio is multiplied by the scale
    errors = (values + sensitivity) * 2.0**-48
    round_or_recompute(
        factors, values[:, None], errors[:, None], lambda row, _: _exact(int(given[row]), growth, length, scale)
    )
    if growth == "steps":
        factors = factors[inverse.ravel()]
    return factors.reshape(counts.shape)


def float64_factors(counts: npt.NDArray[np.int64], *, growth: Growth, length: int, scale: float | None) -> Float64s:
    """Compute `query_factors` in float64, each off by at most 2**-48 of its size and of the scale."""
    return _IN_FLOAT64[growth](counts // length if growth == "steps" else counts, length, scale)[0]


def logarithms(counts: npt.NDArray[np.int64], dtype: DType = np.float32) -> Table:
    """Compute the natural logarithms of positive integers, any shape: float32 correctly rounded, or float64.

    >>> logarithms(np.array([1, 2]))
    array([0.       , 0.6931472], dtype=float32)
    """
    given = counts.ravel()
    values = np.log(given.astype(np.float64))
    if dtype != np.float32:
        return values.reshape(counts.shape)
    rounded = np.empty_like(values[:, None], np.float32)

    def exact(row: int, _: int) -> np.float32:
        return _round_once(lambda: Decimal(int(given[row])).ln())

    round_or_recompute(rounded, values[:, None], np.ldexp(values, -48)[:, None], exact)
    return rounded.reshape(counts.shape)


def _steps(steps: npt.NDArray[np.int64], _: int, scale: Any) -> tuple[Float64s, float]:
    return 1 + scale * np.log(1.0 + steps), scale


def _log(counts: npt.NDArray[np.int64], length: int, scale: float | None) -> tuple[Float64s, float]:
    rate = 1 / np.log(float(length)) if scale is None else scale
    return 1 + rate * np.log(np.maximum(counts / length, 1)), rate


def _power(counts: npt.NDArray[np.int64], length: int, scale: Any) -> tuple[Float64s, float]:
    return (1 + counts / length) ** scale, 1


_IN_FLOAT64: dict[str, Callable[[Any, int, Any], tuple[Float64s, float]]] = {
    "steps": _steps,
    "log": _log,
    "power": _power,
}


def _exact(count: int, growth: str, length: int, scale: float | None) -> np.float32:
    """Compute one factor by decimals, rounded once; `count` is the number of the step for `"steps"`."""

    def factor() -> Decimal:
        if growth == "power":
            return (1 + Decimal(count) / length) ** Decimal(scale or 0)
        if growth == "steps":
            return 1 + Decimal(scale or 0) * Decimal(1 + count).ln()
        rate = 1 / Decimal(length).ln() if scale is None else Decimal(scale)
        return 1 + rate * max(Decimal(count) / length, Decimal(1)).ln()

    return _round_once(factor)


def _round_once(value: Callable[[], Decimal]) -> np.float32:
    """Round once what decimals of any precision compute; none of these lies between two float32 numbers."""

    def to_bits(bits: int) -> tuple[int, int]:
        with high_precision(bits // 3 + 40):
            return int(value() * 2**bits), 2

    return round_once(to_bits)
