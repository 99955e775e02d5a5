"""Tables of sine and cosine: every float32 entry is the true real number, rounded once.

Angles are reduced exactly and their sine taken in float64, with a bound on the error; where positions follow one another, all
but a few by sums of angles. Where both ends of that bound round to the same float32, the entry is decided (Ziv's test); the
few others are computed with big integers.
"""

from __future__ import annotations

from decimal import Decimal
from typing import NamedTuple

import numpy as np

from ._angle_addition import runs_of, span_of, steps_of, write_runs
from ._fixed_point import (
    VALUE_BITS,
    Float64s,
    Frequencies,
    high_precision,
    nearest_float32,
    turns_of,
    wrapped_angles,
)
from ._rounding import Envelope, Positions, Table, TableSpec, float_factors, growth, round_or_recompute

__all__ = ["Envelope", "Positions", "Table", "cos_sin", "cos_sin_of_float32", "write_cos_sin", "write_derivatives"]

_ONE = Decimal(1)
_BLOCK = 2**14  # entries: float64 temporaries of this size stay in the second-level cache
_SUPERBLOCK = 64  # blocks of positions that follow one another whose first rows are worked out together


class _Function(NamedTuple):
    kind: int  # its place in what `exact_cos_sin` returns
    float64: np.ufunc
    slack: float  # how far its float64 value may be off where the angle is 0


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

    >>> from posenc_core.tables.frequencies import geometric
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

    >>> from posenc_core.tables.frequencies import geometric
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
    factors = factor if isinstance(factor, tuple) else (factor,) * len(frequencies)
    spec = TableSpec(positions, cos, sin, turns_of(frequencies), factors, envelope)
    span = span_of(spec)
    if not span:
        _write(spec)
        return
    steps = None
    for first in range(0, len(positions), _SUPERBLOCK * span):
        superblock = spec.part(slice(first, first + _SUPERBLOCK * span))
        runs = runs_of(superblock.positions, span)
        if any(runs):
            steps = steps or steps_of(spec, span)
            write_runs(superblock, [number * span for number, run in enumerate(runs) if run], steps)
        for rows in _others(runs, span, len(superblock.positions)):
            _write(superblock.part(rows))


def write_derivatives(
    positions: Positions, frequencies: Frequencies, *, cos: Table | None = None, sin: Table | None = None
) -> None:
    """Write the derivatives of `cos_sin` with respect to the positions as `write_cos_sin` writes these.

    >>> from posenc_core.tables.frequencies import geometric
    >>> of_sin, of_cos = np.empty((2, 1, 2), np.float32)
    >>> write_derivatives(np.array([1]), geometric(4), sin=of_sin, cos=of_cos)
    >>> of_sin, of_cos
    (array([[0.5403023, 0.0099995]], dtype=float32), array([[-8.4147096e-01, -9.9998331e-05]], dtype=float32))
    """
    write_cos_sin(positions, frequencies, cos=sin, sin=cos, factor=frequencies)
    if cos is not None:
        np.negative(cos, out=cos)


def _others(runs: list[bool], span: int, length: int) -> list[slice]:
    """The rows that are in no run."""
    if not any(runs):
        return [slice(length)]
    blocks = [slice(number * span, (number + 1) * span) for number, run in enumerate(runs) if not run]
    return [*blocks, slice(len(runs) * span, length)]


def _write(spec: TableSpec) -> None:
    """Write rows of any positions."""
    step = max(_BLOCK // max(len(spec.factors), 1), 1)
    for first in range(0, len(spec.positions), step):
        block = spec.part(slice(first, first + step))
        angles, reach, floor = wrapped_angles(block.positions[:, None], block.turns)
        reach *= 2.0**-48
        reach += 2 * floor
        for function, out in ((_COS, block.cos), (_SIN, block.sin)):
            if out is not None:
                columns = slice(out.shape[-1])
                _write_block(out, function, block, angles[:, columns], reach[:, columns] + function.slack)


def _write_block(out: Table, function: _Function, block: TableSpec, angles: Float64s, slack: Float64s) -> None:
    """Write one function of a block of angles, `(rows, columns)`, and mend what float64 cannot decide."""
    value, factors, columns = function.float64(angles), float_factors(block), out.shape[-1]
    if factors is not None:
        value *= factors[:columns]
        slack *= factors[:columns]
    if block.envelope is not None:
        grown, error = growth(block.envelope, block.positions - block.envelope.center)
        slack = (slack + np.abs(value) * error[:, :columns]) * grown[:, :columns]
        value *= grown[:, :columns]
    round_or_recompute(out, value, slack, lambda row, column: block.exact(row, column, function.kind))
