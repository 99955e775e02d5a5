"""Numbers of mpmath, rounded as in IEEE arithmetic."""

from __future__ import annotations

import random
from typing import Any

import mpmath as mp

DTYPES = {"float32": 24, "bfloat16": 8, "float16": 11, "float64": 53}  # binary digits
mp.mp.dps = 50


def rounded(x: Any, bits: int = 24) -> float:
    """Return `x` rounded once to the nearest number of `bits` binary digits, ties to even."""
    x = mp.mpf(x)
    if x == 0:
        return 0.0
    _, exponent = mp.frexp(x)
    return float(mp.ldexp(mp.nint(mp.ldexp(x, bits - int(exponent))), int(exponent) - bits))


def power(base: Any, numerator: int, denominator: int) -> Any:
    """Return `base ** (-numerator / denominator)`."""
    return mp.power(mp.mpf(base), -mp.mpf(numerator) / denominator)


def exact(array: Any) -> Any:
    """Return nested lists or a dictionary of numbers as numbers of mpmath, which need no conversion later."""
    if isinstance(array, dict):
        return {name: exact(part) for name, part in array.items()}
    return [exact(part) for part in array] if isinstance(array, list) else mp.mpf(array)


def dot(a: Any, b: Any) -> Any:
    """Return the dot product of two lists of equal length, rounded once, to 50 digits."""
    if len(a) != len(b):
        raise ValueError(f"`a` and `b` must have equal lengths, got {len(a)} and {len(b)}.")
    return mp.fdot(a, b)


def drawn(numbers: random.Random, bits: int) -> float:
    return rounded(numbers.gauss(0, 3), min(bits, 24))


def sinusoidal_row(p: Any, dim: int, base: Any, convention: str) -> list[Any]:
    """Return one row of a sinusoidal table, each convention from its own definition."""
    half = dim // 2
    if convention == "interleaved":
        return [(mp.cos if j % 2 else mp.sin)(p * power(base, j - j % 2, dim)) for j in range(dim)]
    if convention == "concatenated":
        row = sinusoidal_row(p, dim, base, "interleaved")
        return row[0::2] + row[1::2]
    if convention == "column_index":
        return [(mp.cos if j % 2 else mp.sin)(p * power(base, 2 * j, dim)) if p else 0 for j in range(dim)]
    steps = half if convention == "timestep" else max(half - 1, 1)
    angles = [p * power(base, i, steps) for i in range(half)]
    parts = [[mp.sin(a) for a in angles], [mp.cos(a) for a in angles]]
    first, second = parts if convention == "tensor2tensor" else reversed(parts)
    return first + second + [0] * (dim - 2 * half)
