"""Numbers of mpmath, rounded as IEEE arithmetic rounds them."""

from __future__ import annotations

import random
from typing import Any

import mpmath as mp

DTYPES = {"float32": 24, "bfloat16": 8, "float16": 11, "float64": 53}  # binary digits
mp.mp.dps = 50


def rounded(x: Any, bits: int = 24) -> float:
    """`x` rounded once, to the nearest number of `bits` binary digits; ties go to the even one."""
    x = mp.mpf(x)
    if x == 0:
        return 0.0
    _, exponent = mp.frexp(x)
    return float(mp.ldexp(mp.nint(mp.ldexp(x, bits - int(exponent))), int(exponent) - bits))


def power(base: Any, numerator: int, denominator: int) -> Any:
    """`base ** (-numerator / denominator)`."""
    return mp.power(mp.mpf(base), -mp.mpf(numerator) / denominator)


def drawn(numbers: random.Random, bits: int) -> float:
    return rounded(numbers.gauss(0, 3), min(bits, 24))
