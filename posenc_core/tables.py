"""Tables of sine and cosine: every float32 entry is the true real number, rounded once.

Angles are reduced exactly and their sine taken in float64, with a bound on the error. Where both ends of that bound
round to the same float32, the entry is decided (Ziv's test); the few others are computed with big integers.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ._exact import (
    VALUE_BITS,
    VALUE_ERROR,
    Float64s,
    Frequencies,
    Turns,
    decide,
    exact_cos_sin,
    high_precision,
    nearest_float32,
    turns_of,
    wrapped_angles,
)

Positions: TypeAlias = npt.NDArray[Any]
Table: TypeAlias = npt.NDArray[np.float32]

_ONE = Decimal(1)
_BLOCK = 2**14  # entries: float64 temporaries of this size stay in the second-level cache


class _Function(NamedTuple):
    kind: int  # its place in what `exact_cos_sin` returns
    float64: np.ufunc
    slack: float  # how far its float64 value may be off where the angle is 0


class Envelope(NamedTuple):
    """What a table grows or shrinks by along positions: column j by `exp((position - center) * rates[j])`."""

    rates: Frequencies
    center: float = 0


class _Block(NamedTuple):
    positions: Positions
    turns: Turns
    factors: Frequencies  # one for each frequency
    envelope: Envelope | None
    angles: Float64s
    reach: Float64s
    floor: Float64s


# Libraries promise 4 units in the last place: of at most 1 for the cosine, of at most the angle for the sine.
_COS = _Function(0, np.cos, 2.0**-48)
_SIN = _Function(1, np.sin, 0.0)


def cos_sin(
    positions: Positions, frequencies: Frequencies, *, factor: Decimal = _ONE, envelope: Envelope | None = None
) -> tuple[Table, Table]:
    """Cosine and sine of positions × frequencies, times `factor`, each `(..., length, pairs)`.

    Args:
        positions: int64 or float64, shape `(..., length)`, below 2**31 in size.
        frequencies: radians per position.
        factor: the attention factor.
        envelope: what the columns grow or shrink by.
    Returns:
        Two float32 arrays, correctly rounded.
    Source: Su et al. 2021, equation 34 (arXiv:2104.09864). Rounding test: Ziv 1991, "Fast evaluation of elementary
        mathematical functions with correctly rounded last bit".

    >>> from posenc_core.frequencies import geometric
    >>> cos_sin(np.array([0, 2**20]), geometric(2))[1]
    array([[0.        ],
           [0.33049315]], dtype=float32)
    """
    shape = (positions.size, len(frequencies))
    cos, sin = np.empty(shape, np.float32), np.empty(shape, np.float32)
    write_cos_sin(positions.ravel(), frequencies, cos=cos, sin=sin, factor=factor, envelope=envelope)
    shape = (*positions.shape, len(frequencies))
    return cos.reshape(shape), sin.reshape(shape)


def cos_sin_of_float32(
    positions: Positions, frequencies: Frequencies, *, factor: Decimal = _ONE
) -> tuple[Table, Table]:
    """`cos_sin` of frequencies and angles that are rounded to float32 on the way, as models do that were trained so.

    Raises:
        ValueError: if an angle is not below 2**31 radians in size.

    >>> from posenc_core.frequencies import geometric
    >>> cos_sin_of_float32(np.array([2**20]), geometric(4))[1]
    array([[ 0.33049315, -0.76851183]], dtype=float32)
    """
    slow = np.array([_rounded(frequency) for frequency in frequencies], np.float32)
    angles = (positions.astype(np.float32)[..., None] * slow).astype(np.float64)
    if np.abs(angles).max(initial=0) >= 2**31:
        raise ValueError(f"`positions` × frequencies must be below 2**31 radians, got {np.abs(angles).max():g}.")
    cos, sin = cos_sin(angles, (_ONE,), factor=factor)
    return cos[..., 0], sin[..., 0]


def _rounded(frequency: Decimal) -> np.float32:
    with high_precision():
        return nearest_float32(int(frequency * 2**VALUE_BITS), error=0)


def write_cos_sin(
    positions: Positions,
    frequencies: Frequencies,
    *,
    cos: Table | None = None,
    sin: Table | None = None,
    factor: Decimal | Frequencies = _ONE,
    envelope: Envelope | None = None,
) -> None:
    """Write `cos_sin` into arrays or views `(length, columns)`, each taking the first of the frequencies.

    `factor` is one number, or one for each of the frequencies, none negative.
    """
    turns = turns_of(frequencies)
    factors = factor if isinstance(factor, tuple) else (factor,) * len(frequencies)
    step = max(_BLOCK // max(len(frequencies), 1), 1)
    for first in range(0, len(positions), step):
        rows = slice(first, first + step)
        block = _Block(positions[rows], turns, factors, envelope, *wrapped_angles(positions[rows, None], turns))
        if cos is not None:
            _write(cos[rows], _COS, block)
        if sin is not None:
            _write(sin[rows], _SIN, block)


def write_derivatives(
    positions: Positions, frequencies: Frequencies, *, cos: Table | None = None, sin: Table | None = None
) -> None:
    """Write the derivatives of `cos_sin` with respect to the positions as `write_cos_sin` writes these.

    >>> from posenc_core.frequencies import geometric
    >>> of_sin, of_cos = np.empty((2, 1, 2), np.float32)
    >>> write_derivatives(np.array([1]), geometric(4), sin=of_sin, cos=of_cos)
    >>> of_sin, of_cos
    (array([[0.5403023, 0.0099995]], dtype=float32), array([[-8.4147096e-01, -9.9998331e-05]], dtype=float32))
    """
    write_cos_sin(positions, frequencies, cos=sin, sin=cos, factor=frequencies)
    if cos is not None:
        np.negative(cos, out=cos)


def _write(out: Table, function: _Function, block: _Block) -> None:
    """Write one function of a block of angles, `(rows, columns)`, and mend what float64 cannot decide."""
    columns = slice(out.shape[-1])
    value = function.float64(block.angles[:, columns])
    slack = block.reach[:, columns] * 2.0**-48 + (2 * block.floor[columns] + function.slack)
    if any(factor != 1 for factor in block.factors):
        factors = np.array([float(factor) for factor in block.factors[columns]])
        value *= factors
        slack *= factors
    if block.envelope is not None:
        value, slack = _enveloped(value, slack, _exponents(block, block.envelope)[:, columns])
    decide(out, value, slack, lambda row, column: _exact(block, row, column, function.kind))


def _exponents(block: _Block, envelope: Envelope) -> Float64s:
    return (block.positions - envelope.center)[:, None] * np.array([float(rate) for rate in envelope.rates])


def _enveloped(value: Float64s, slack: Float64s, exponents: Float64s) -> tuple[Float64s, Float64s]:
    """Values times `exp(exponents)`, and their slack: an exponent is off by two roundings, `exp` by four last places."""
    grown = np.exp(exponents)
    return value * grown, (slack + np.abs(value) * (np.abs(exponents) + 8) * 2.0**-50) * grown


def _exact(block: _Block, row: int, column: int, kind: int) -> np.float32:
    """One entry, by big integers; where the angle is 0, it is 0 or the factor itself."""
    position, turn, factor = block.positions[row].item(), block.turns.exact[column], block.factors[column]
    exact = exact_cos_sin(position, turn)[kind]
    with high_precision():
        if block.envelope is None:
            return nearest_float32(int(exact * factor), error=VALUE_ERROR if position * turn else 0)
        if exact == 0 and not position * turn:
            return np.float32(0)
        distance = Decimal(position) - Decimal(block.envelope.center)
        grown = factor * (distance * block.envelope.rates[column]).exp()
        return nearest_float32(int(exact * grown), error=VALUE_ERROR * int(grown + 1))
