"""Sums of angles: rows of positions that follow one another, from the first of them and the steps from it.

    sin(a + b) + i cos(a + b) = (sin a + i cos a) (cos b - i sin b)

So long tables ask for the sines of a few positions; the rest is multiplied, and Ziv's test tells which entries are undecided.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ._fixed_point import Float64s, wrapped_angles
from ._rounding import TableSpec, float_factors, growth

Complexes: TypeAlias = npt.NDArray[np.complex128]

_PRODUCTS = 2**13  # at a time: they and what becomes of them stay in the second-level cache
_FEWEST = 64  # positions in a row that are worth it
_ROUNDING = 2.0**-52  # of a sum of two products: three roundings, of 2**-53 of both at most


class CosSinBounds(NamedTuple):
    """Cosine and sine at some positions, and how far these may be off, each `(n, pairs)`."""

    cos: Float64s
    sin: Float64s
    cos_error: Float64s
    sin_error: Float64s


def span_of(spec: TableSpec) -> int:
    """How many positions in a row make a block; 0 where blocks are not worth it.

    A power of 2, or less than what is cut at a time. Over one block, an envelope does not grow more than e times.
    """
    if not spec.factors:
        return 0
    rows = max(4 * _PRODUCTS // len(spec.factors), _FEWEST)
    rates = [abs(float(rate)) for rate in spec.envelope.rates] if spec.envelope else []
    rows = int(min(rows, len(spec.positions) / 8, 1 / max([*rates, 1e-9])))
    return 2 ** (rows.bit_length() - 1) if rows >= _FEWEST else 0


def runs_of(positions: npt.NDArray[Any], span: int) -> list[bool]:
    """Of each whole block, whether its positions follow one another, from 0 or more on."""
    if positions.dtype.kind != "i":
        return []
    blocks = positions[: len(positions) // span * span].reshape(-1, span)
    follow: list[bool] = ((blocks[:, 0] >= 0) & (np.diff(blocks) == 1).all(axis=1)).tolist()
    return follow


def steps_of(spec: TableSpec, span: int) -> CosSinBounds:
    """Waves at the steps 0, 1, 2, … of a block."""
    steps = np.arange(span)
    bounds = waves_at(spec._replace(positions=steps))
    return bounds if spec.envelope is None else _grown(bounds, *growth(spec.envelope, steps))


def write_runs(spec: TableSpec, firsts: list[int], steps: CosSinBounds) -> None:
    """Write the blocks that begin at these rows."""
    starts = waves_at(spec._replace(positions=spec.positions[firsts]))
    factors = float_factors(spec)
    if factors is not None:
        starts = _grown(starts, factors, 2.0**-52)
    if spec.envelope is not None:
        starts = _grown(starts, *growth(spec.envelope, spec.positions[firsts] - spec.envelope.center))
    first_factors, second_factors = _complex(starts.sin, starts.cos), _complex(steps.cos, -steps.sin)
    slack, (span, pairs) = slack_of(starts, steps), steps.cos.shape
    writer = _BlockWriter(spec, min(span, 2 ** max((_PRODUCTS // pairs).bit_length() - 1, 0)))
    for number, first in enumerate(firsts):
        writer.set_start(first_factors[number], slack[number])
        for begin in range(0, span, writer.rows):
            writer.write(first + begin, second_factors[begin : begin + writer.rows])


class _BlockWriter:
    """Where entries are made, so many rows at a time: `(rows, pairs)` of sine + i cosine, or `(rows, pairs, 2)` of both."""

    def __init__(self, spec: TableSpec, rows: int) -> None:
        self.rows, pairs = rows, len(spec.factors)
        self._draft = spec
        self._start, self._product = (np.empty((rows, pairs), np.complex128) for _ in "ab")
        self._slack, self._bound = (np.empty((rows, pairs, 2)) for _ in "ab")
        self._lower, self._upper = (np.empty((rows, pairs, 2), np.float32) for _ in "ab")
        self._unlike = np.empty((rows, pairs, 2), np.bool_)
        self._value = self._product.view(np.float64).reshape(rows, pairs, 2)
        self._out = _ways(spec, self._upper)

    def set_start(self, start: Complexes, slack: Float64s) -> None:
        """Take what belongs to the first position of a block, once for each row: NumPy runs through whole arrays faster."""
        self._start[...], self._slack[...] = start, slack

    def write(self, first: int, steps: Complexes) -> None:
        """Write the rows from the first on, which are these steps away from the start, rounded to float32."""
        lower, upper, value, bound = self._lower, self._upper, self._value, self._bound
        np.multiply(self._start, steps, out=self._product)
        lower[...] = np.subtract(value, self._slack, out=bound)
        upper[...] = np.add(value, self._slack, out=bound)
        if np.count_nonzero(np.not_equal(lower, upper, out=self._unlike)):
            self._recompute_ambiguous(first)
        for table, made in self._out:
            table[first : first + self.rows] = made[:, : table.shape[1]]

    def _recompute_ambiguous(self, first: int) -> None:
        """Make those entries by big integers whose two bounds round differently."""
        for place in np.flatnonzero(self._unlike).tolist():
            golden_case, of_cos = divmod(place, 2)
            row, column = divmod(golden_case, len(self._draft.factors))
            self._upper[row, column, of_cos] = self._draft.exact(first + row, column, 1 - of_cos)


def _ways(
    spec: TableSpec, made: npt.NDArray[np.float32]
) -> list[tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]]:
    """Pairs of what is to be written and where it is made: one, where sine and cosine take turns in memory."""
    cos, sin = spec.cos, spec.sin
    if cos is None or sin is None:
        return [(table, made[..., kind]) for kind, table in enumerate((sin, cos)) if table is not None]
    apart = cos.__array_interface__["data"][0] - sin.__array_interface__["data"][0]
    alike = (cos.shape, cos.strides) == (sin.shape, sin.strides) and sin.strides[1] == 2 * sin.itemsize
    if not alike or apart != sin.itemsize:
        return [(sin, made[..., 0]), (cos, made[..., 1])]
    return [(np.lib.stride_tricks.as_strided(sin, (*sin.shape, 2), (*sin.strides, sin.itemsize)), made)]


def _complex(real: Float64s, imaginary: Float64s) -> Complexes:
    joined = np.empty(real.shape, np.complex128)
    joined.real, joined.imag = real, imaginary
    return joined


def waves_at(spec: TableSpec) -> CosSinBounds:
    """Waves at the positions of a draft.

    Libraries promise 4 units in the last place: of at most 1 for the cosine, of itself for the sine.
    """
    angles, reach, floor = wrapped_angles(spec.positions[:, None], spec.turns)
    cos, sin, off = np.cos(angles), np.sin(angles), reach * 2.0**-51 + floor
    return CosSinBounds(cos, sin, off + 2.0**-51, off + np.abs(sin) * 2.0**-50)


def _grown(bounds: CosSinBounds, sizes: Float64s, error: Float64s | float) -> CosSinBounds:
    """Waves times numbers that are not negative, and off by `error` of their size, the product's rounding included."""
    cos, sin, cos_error, sin_error = bounds
    errors = (cos_error + np.abs(cos) * error) * sizes, (sin_error + np.abs(sin) * error) * sizes
    return CosSinBounds(cos * sizes, sin * sizes, *errors)


def slack_of(starts: CosSinBounds, steps: CosSinBounds) -> Float64s:
    """How far sine and cosine of a start and a step may be off, for each start the worst of all steps: `(n, pairs, 2)`.

    Where factors are off by da and db, their product is by |a| db + |b| da. Twice that and the rounding of sums, which makes
    good for da db and for the rounding of the bound.
    """
    cos, sin = np.abs(steps.cos).max(axis=0), np.abs(steps.sin).max(axis=0)
    of_cos, of_sin = steps.cos_error.max(axis=0) + _ROUNDING * cos, steps.sin_error.max(axis=0) + _ROUNDING * sin
    first_cos, first_sin = np.abs(starts.cos), np.abs(starts.sin)
    cos_slack = starts.cos_error * cos + starts.sin_error * sin + first_cos * of_cos + first_sin * of_sin
    sin_slack = starts.sin_error * cos + starts.cos_error * sin + first_sin * of_cos + first_cos * of_sin
    return 2 * np.stack([sin_slack, cos_slack], axis=-1)
