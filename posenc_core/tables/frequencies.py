"""Frequencies: radians per position, highest first, as 110-digit decimals, so that tables are rounded only once."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from itertools import accumulate, repeat
from operator import mul

import numpy as np

from .._array_api.checks import WIDEST, check_decimals, check_integer, check_number, check_type, shown
from ._fixed_point import Float64s, Frequencies, high_precision

SHORTEST = Fraction(1, 2**64)  # span: powers of `base` below it would have exponents of millions


def geometric(dim: int, *, base: float = 10000, count: int | None = None) -> Frequencies:
    """Return `base ** (-2i / dim)` for `i = 0 … count - 1`; the default of `count` is `dim / 2`, rounded up.

    Raises:
        TypeError, ValueError: unless `dim` and `count` are integers up to 65,536, and `base` a number from 1 on.
    Source: Vaswani et al. 2017, section 3.5 (arXiv:1706.03762).

    >>> as_float64(geometric(4))
    array([1.  , 0.01])
    """
    dim = check_integer("dim", dim, maximum=WIDEST)
    return _powers(base, Fraction(2, dim), (dim + 1) // 2 if count is None else _counted(count))


def endpoint(count: int, *, base: float = 10000) -> Frequencies:
    """Return `base ** (-i / (count - 1))`: the first is 1, the last exactly `1 / base`; a single one is 1.

    Source: tensor2tensor `get_timing_signal_1d`.

    >>> as_float64(endpoint(3))
    array([1.e+00, 1.e-02, 1.e-04])
    """
    count = _counted(count)
    return _powers(base, Fraction(1, max(count - 1, 1)), count)


def spaced(count: int, *, spans: Fraction, base: float = 10000) -> Frequencies:
    """Return `base ** (-i / spans)` for `i = 0 … count - 1`, the frequencies of diffusion timesteps.

    Raises:
        TypeError, ValueError: unless `spans` is a fraction of at least 2**-64; others as in `geometric`.

    >>> as_float64(spaced(3, spans=Fraction(1, 2), base=10))
    array([1.e+00, 1.e-02, 1.e-04])
    """
    check_type("spans", spans, Fraction | int, "a fraction")
    if spans < SHORTEST:
        raise ValueError(f"`spans` must be at least 2**-64, got {shown(spans)}.")
    return _powers(base, 1 / Fraction(spans), _counted(count))


def powers_of_two(count: int) -> Frequencies:
    """Return `2 ** -i` for `i = 0 … count - 1`: each wavelength is twice the one before.

    >>> as_float64(powers_of_two(3))
    array([1.  , 0.5 , 0.25])
    """
    return _powers(2, Fraction(1), _counted(count))


def chosen(frequencies: Iterable[float]) -> Frequencies:
    """Return the given frequencies without rounding.

    Raises:
        TypeError: if one is not a number.
        ValueError: if one is not finite, is negative, or is 2**31 or more.

    >>> as_float64(chosen([1.0, 0.5, 0.2]))
    array([1. , 0.5, 0.2])
    """
    try:
        frequencies = tuple(frequencies)
    except TypeError as error:
        raise TypeError(f"`frequencies` must be a list of numbers, got {shown(frequencies)}.") from error
    for frequency in frequencies:
        check_number("frequencies", frequency)
        if not 0 <= frequency < 2**31:
            raise ValueError(f"`frequencies` must be from 0 up to 2**31 radians per position, got {shown(frequency)}.")
    with high_precision():
        return tuple(Decimal(frequency) for frequency in frequencies)


def as_float64(frequencies: Frequencies) -> Float64s:
    """Return the frequencies as a float64 array, each rounded once.

    Raises:
        TypeError, ValueError: unless they are decimals that are finite.
    """
    return np.array([float(each) for each in check_decimals("frequencies", frequencies)], np.float64)


def _counted(count: int) -> int:
    return check_integer("count", count, minimum=0, maximum=WIDEST)


def _powers(base: float, step: Fraction, count: int) -> Frequencies:
    """Return `base ** (-step * i)` for `i = 0 … count - 1`; 30 extra digits cover the errors of repeated products."""
    check_number("base", base, minimum=1)
    with high_precision(140):
        ratio = (-Decimal(base).ln() * step.numerator / step.denominator).exp()
        powers = list(accumulate(repeat(ratio, count - 1), mul, initial=Decimal(1)))[:count]
    with high_precision():
        return tuple(+power for power in powers)
