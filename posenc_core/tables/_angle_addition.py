"""Compute rows of consecutive positions by the angle addition theorem, from one start and the steps from it.

    sin(a + b) + i cos(a + b) = (sin a + i cos a) (cos b - i sin b)

A long table then needs few sines and many products. Each product has an error bound, and entries that it leaves
ambiguous are recomputed by big integers (Ziv's test).
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ._fixed_point import Float64s, wrapped_angles
from ._rounding import Table, TableSpec, float_factors, growth

Complexes: TypeAlias = npt.NDArray[np.complex128]

_PRODUCTS = 2**13  # computed at a time: they and their temporaries fit into the second-level cache
_MIN_BLOCK = 64  # consecutive positions; shorter blocks are not faster
_ROUNDING = 2.0**-52  # relative error of a sum of two products: three roundings of up to 2**-53


class CosSinBounds(NamedTuple):
    """Cosine and sine at some positions and bounds on their errors, each `(n, pairs)`."""

    cos: Float64s
    sin: Float64s
    cos_error: Float64s
    sin_error: Float64s


def block_length(spec: TableSpec) -> int:
    """Return the number of consecutive positions in a block, or 0 if blocks would not be faster.

    It is a power of 2, or less than the rows that are computed at a time. An envelope grows by at most e in a block.
    """
    if not spec.factors:
        return 0
    rows = max(4 * _PRODUCTS // len(spec.factors), _MIN_BLOCK)
    rates = [abs(float(rate)) for rate in spec.envelope.rates] if spec.envelope else []
    rows = int(min(rows, len(spec.positions) / 8, 1 / max([*rates, 1e-9])))
    return 2 ** (rows.bit_length() - 1) if rows >= _MIN_BLOCK else 0


def are_consecutive(positions: npt.NDArray[Any], length: int) -> list[bool]:
    """Return for each whole block of `length` positions whether they are consecutive integers from 0 or more."""
    if positions.dtype.kind != "i":
        return []
    blocks = positions[: len(positions) // length * length].reshape(-1, length)
    return ((blocks[:, 0] >= 0) & (np.diff(blocks) == 1).all(axis=1)).tolist()


def bounds_at_steps(spec: TableSpec, length: int) -> CosSinBounds:
    """Return cosines and sines at the steps 0, 1, 2, … of a block, with the envelope's growth."""
    steps = np.arange(length)
    bounds = bounds_at_positions(spec._replace(positions=steps))
    return bounds if spec.envelope is None else _scale(bounds, *growth(spec.envelope, steps))


def write_consecutive(spec: TableSpec, first_rows: list[int], steps: CosSinBounds) -> None:
    """Write the blocks of consecutive positions that begin at these rows."""
    starts = bounds_at_positions(spec._replace(positions=spec.positions[first_rows]))
    factors = float_factors(spec)
    if factors is not None:
        starts = _scale(starts, factors, 2.0**-52)
    if spec.envelope is not None:
        starts = _scale(starts, *growth(spec.envelope, spec.positions[first_rows] - spec.envelope.center))
    start_terms, step_terms = _complex(starts.sin, starts.cos), _complex(steps.cos, -steps.sin)
    errors, (length, pairs) = product_errors(starts, steps), steps.cos.shape
    writer = _BlockWriter(spec, min(length, 2 ** max((_PRODUCTS // pairs).bit_length() - 1, 0)))
    for index, first_row in enumerate(first_rows):
        writer.set_start(start_terms[index], errors[index])
        for step in range(0, length, writer.rows):
            writer.write(first_row + step, step_terms[step : step + writer.rows])


class _BlockWriter:
    """The memory in which rows are computed: `(rows, pairs)` of sine + i cosine, or `(rows, pairs, 2)` of both."""

    def __init__(self, spec: TableSpec, rows: int) -> None:
        self.rows, pairs = rows, len(spec.factors)
        self._spec = spec
        self._start, self._product = (np.empty((rows, pairs), np.complex128) for _ in "ab")
        self._error, self._bound = (np.empty((rows, pairs, 2)) for _ in "ab")
        self._lower, self._upper = (np.empty((rows, pairs, 2), np.float32) for _ in "ab")
        self._is_ambiguous = np.empty((rows, pairs, 2), np.bool_)
        self._value = self._product.view(np.float64).reshape(rows, pairs, 2)
        self._copies = _copies(spec, self._upper)

    def set_start(self, start: Complexes, error: Float64s) -> None:
        """Set the first position of a block; one copy for each row, because NumPy is faster without broadcasting."""
        self._start[...], self._error[...] = start, error

    def write(self, first_row: int, steps: Complexes) -> None:
        """Write the rows from `first_row` on, which lie these steps after the start, rounded to float32."""
        lower, upper, value, bound = self._lower, self._upper, self._value, self._bound
        np.multiply(self._start, steps, out=self._product)
        lower[...] = np.subtract(value, self._error, out=bound)
        upper[...] = np.add(value, self._error, out=bound)
        if np.count_nonzero(np.not_equal(lower, upper, out=self._is_ambiguous)):
            self._recompute_ambiguous(first_row)
        for table, source in self._copies:
            table[first_row : first_row + self.rows] = source[:, : table.shape[1]]

    def _recompute_ambiguous(self, first_row: int) -> None:
        """Compute by big integers the entries whose two bounds round to different numbers."""
        for index in np.flatnonzero(self._is_ambiguous).tolist():
            entry, is_cos = divmod(index, 2)
            row, column = divmod(entry, len(self._spec.factors))
            self._upper[row, column, is_cos] = self._spec.exact(first_row + row, column, 1 - is_cos)


def _copies(spec: TableSpec, computed: Table) -> list[tuple[Table, Table]]:
    """Return pairs of a table and what to copy into it; one pair if sine and cosine alternate in memory."""
    cos, sin = spec.cos, spec.sin
    if cos is None or sin is None:
        return [(table, computed[..., index]) for index, table in enumerate((sin, cos)) if table is not None]
    distance = cos.__array_interface__["data"][0] - sin.__array_interface__["data"][0]
    alike = (cos.shape, cos.strides) == (sin.shape, sin.strides) and sin.strides[1] == 2 * sin.itemsize
    if not alike or distance != sin.itemsize:
        return [(sin, computed[..., 0]), (cos, computed[..., 1])]
    return [(np.lib.stride_tricks.as_strided(sin, (*sin.shape, 2), (*sin.strides, sin.itemsize)), computed)]


def _complex(real: Float64s, imaginary: Float64s) -> Complexes:
    joined = np.empty(real.shape, np.complex128)
    joined.real, joined.imag = real, imaginary
    return joined


def bounds_at_positions(spec: TableSpec) -> CosSinBounds:
    """Return cosines and sines at the positions of the spec, without factors and envelope.

    Libraries promise an error of 4 ulp: of at most 1 for the cosine, of the result for the sine.
    """
    angles, sizes, floor = wrapped_angles(spec.positions[:, None], spec.turns)
    cos, sin, error = np.cos(angles), np.sin(angles), sizes * 2.0**-51 + floor
    return CosSinBounds(cos, sin, error + 2.0**-51, error + np.abs(sin) * 2.0**-50)


def _scale(bounds: CosSinBounds, scales: Float64s, error: Float64s | float) -> CosSinBounds:
    """Multiply by scales that are not negative; `error` is their relative error and that of the product together."""
    cos, sin, cos_error, sin_error = bounds
    errors = (cos_error + np.abs(cos) * error) * scales, (sin_error + np.abs(sin) * error) * scales
    return CosSinBounds(cos * scales, sin * scales, *errors)


def product_errors(starts: CosSinBounds, steps: CosSinBounds) -> Float64s:
    """Bound the errors of sine and cosine of start + step, for each start over all steps: `(n, pairs, 2)`.

    If factors a and b have errors da and db, their product has |a| db + |b| da. The bound is twice that plus the
    rounding of the sum; the doubling covers da db and the rounding of the bound itself.
    """
    cos, sin = np.abs(steps.cos).max(axis=0), np.abs(steps.sin).max(axis=0)
    cos_error = steps.cos_error.max(axis=0) + _ROUNDING * cos
    sin_error = steps.sin_error.max(axis=0) + _ROUNDING * sin
    start_cos, start_sin = np.abs(starts.cos), np.abs(starts.sin)
    cos_bound = starts.cos_error * cos + starts.sin_error * sin + start_cos * cos_error + start_sin * sin_error
    sin_bound = starts.sin_error * cos + starts.cos_error * sin + start_sin * cos_error + start_cos * sin_error
    return 2 * np.stack([sin_bound, cos_bound], axis=-1)
