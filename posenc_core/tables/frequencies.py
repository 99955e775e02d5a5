"""Frequencies: radians per position, highest first, as 110-digit decimals, so that tables are rounded only once."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from itertools import accumulate, repeat
from operator import mul

import numpy as np

from .._array_api.checks import check_number, shown
from ._fixed_point import Float64s, Frequencies, high_precision


def geometric(dim: int, *, base: float = 10000, count: int | None = None) -> Frequencies:
    """Return `base ** (-2i / dim)` for `i = 0 … count - 1`; the default of `count` is `dim / 2`, rounded up.

    Source: Vaswani et al. 2017, section 3.5 (arXiv:1706.03762).

    >>> as_float64(geometric(4))
    array([1.  , 0.01])
    """
    return _powers(base, Fraction(2, dim), (dim + 1) // 2 if count is None else count)


def endpoint(count: int, *, base: float = 10000) -> Frequencies:
    """Return `base ** (-i / (count - 1))`: the first is 1, the last exactly `1 / base`; a single one is 1.

    Source: tensor2tensor `get_timing_signal_1d`.

    >>> as_float64(endpoint(3))
    array([1.e+00, 1.e-02, 1.e-04])
    """
    return _powers(base, Fraction(1, max(count - 1, 1)), count)


def spaced(count: int, *, spans: Fraction, base: float = 10000) -> Frequencies:
    """Return `base ** (-i / spans)` for `i = 0 … count - 1`, the frequencies of diffusion timesteps.

    >>> as_float64(spaced(3, spans=Fraction(1, 2), base=10))
    array([1.e+00, 1.e-02, 1.e-04])
    """
    return _powers(base, 1 / spans, count)


def powers_of_two(count: int) -> Frequencies:
    """Return `2 ** -i` for `i = 0 … count - 1`: each wavelength is twice the one before.

    >>> as_float64(powers_of_two(3))
    array([1.  , 0.5 , 0.25])
    """
    return _powers(2, Fraction(1), count)


def chosen(frequencies: Iterable[float]) -> Frequencies:
    """Return the given frequencies without rounding.

    Raises:
        TypeError: if one is not a number.
        ValueError: if one is not finite, is negative, or is 2**31 or more.

    >>> as_float64(chosen([1.0, 0.5, 0.2]))
    array([1. , 0.5, 0.2])
    """
    frequencies = tuple(frequencies)
    for frequency in frequencies:
        check_number("frequencies", frequency)
        if not 0 <= frequency < 2**31:
            raise ValueError(f"`frequencies` must be from 0 up to 2**31 radians per position, got {shown(frequency)}.")
    with high_precision():
        return tuple(Decimal(frequency) for frequency in frequencies)


def as_float64(frequencies: Frequencies) -> Float64s:
    """Return the frequencies as a float64 array, each rounded once."""
    return np.array([float(frequency) for frequency in frequencies], np.float64)


def _powers(base: float, step: Fraction, count: int) -> Frequencies:
    """Return `base ** (-step * i)` for `i = 0 … count - 1`; 30 extra digits cover the errors of repeated products."""
    with high_precision(140):
        ratio = (-Decimal(base).ln() * step.numerator / step.denominator).exp()
        powers = list(accumulate(repeat(ratio, count - 1), mul, initial=Decimal(1)))[:count]
    with high_precision():
        return tuple(+power for power in powers)
