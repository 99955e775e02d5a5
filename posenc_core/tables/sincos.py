"""Exact tables of cosine and sine: every entry is the true real number, rounded once.

For float32, angles are reduced exactly, and cosine and sine are computed in float64 with an error bound; rows of
consecutive positions come from the angle addition theorem. If both ends of the bound round to the same float32, this is
the entry (Ziv's test); the few other entries are computed by big integers, and so are all entries of float64.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from .._array_api.checks import check_decimals, check_rank, check_type, shown
from ..positions.sequences import from_array
from ._angle_addition import are_consecutive, block_length, bounds_at_steps, write_consecutive
from ._fixed_point import Float64s, Frequencies, nearest_float32, turns_of, wrapped_angles
from ._float64 import write_float64
from ._rounding import Envelope, Positions, Table, TableSpec, float_factors, growth, round_or_recompute, rows_at_a_time

__all__ = ["Envelope", "Positions", "Table", "cos_sin", "cos_sin_of_float32", "write_cos_sin", "write_derivatives"]

DType: TypeAlias = type[np.float32] | type[np.float64]

LARGEST_EXPONENT = 87  # of the growth of an envelope: float32 holds exp(88)
_ONE = Decimal(1)
_BLOCK = 2**14  # entries: float64 temporaries of this size fit into the second-level cache
_SUPERBLOCK = 64  # blocks of consecutive positions whose first rows are computed together


class _Function(NamedTuple):
    function_index: int  # in the result of `exact_cos_sin`
    float64: np.ufunc
    error: float  # bound at the angle 0


# Libraries promise an error of 4 ulp: of at most 1 for the cosine, of at most the angle for the sine.
_COS = _Function(0, np.cos, 2.0**-48)
_SIN = _Function(1, np.sin, 0.0)


def cos_sin(
    positions: Positions,
    frequencies: Frequencies,
    *,
    factor: Decimal = _ONE,
    envelope: Envelope | None = None,
    dtype: DType = np.float32,
) -> tuple[Table, Table]:
    """Compute cosine and sine of positions × frequencies, times `factor`, each `(..., length, pairs)`.

    Args:
        positions: int64 or float64, shape `(..., length)`, below 2**31 in size.
        frequencies: radians per position, decimals that are not negative.
        factor: the attention factor, a decimal that is not negative.
        envelope: the growth of each column along the positions; None for none.
        dtype: float32 or float64, which takes 30 to 80 times as long.
    Returns:
        Two arrays of this dtype, correctly rounded.
    Raises:
        TypeError: if positions are not real numbers, or frequencies or the factor are not decimals.
        ValueError: if one of them is out of range, or the envelope has not one rate for each frequency or grows beyond
            float32.
    Source: Su et al. 2021, equation 34 (arXiv:2104.09864). Rounding test: Ziv 1991, "Fast evaluation of elementary
        mathematical functions with correctly rounded last bit".

    >>> from posenc_core.tables.frequencies import geometric
    >>> cos_sin(np.array([0, 2**20]), geometric(2))[1]
    array([[0.        ],
           [0.33049315]], dtype=float32)
    """
    positions, frequencies = from_array(positions), check_decimals("frequencies", frequencies, minimum=0)
    shape = (positions.size, len(frequencies))
    cos, sin = np.empty(shape, check_dtype(dtype)), np.empty(shape, dtype)
    write_cos_sin(positions.ravel(), frequencies, cos=cos, sin=sin, factor=factor, envelope=envelope)
    shape = (*positions.shape, len(frequencies))
    return cos.reshape(shape), sin.reshape(shape)


def cos_sin_of_float32(
    positions: Positions, frequencies: Frequencies, *, factor: Decimal = _ONE, dtype: DType = np.float32
) -> tuple[Table, Table]:
    """Compute `cos_sin` with frequencies and angles rounded to float32, for models that were trained with them.

    Returns:
        Two arrays of `dtype`, `(..., length, pairs)`: cosine and sine of the rounded angles, correctly rounded.
    Raises:
        TypeError, ValueError: as `cos_sin`; ValueError also if an angle is not below 2**31 radians in size.

    >>> from posenc_core.tables.frequencies import geometric
    >>> cos_sin_of_float32(np.array([2**20]), geometric(4))[1]
    array([[ 0.33049315, -0.76851183]], dtype=float32)
    """
    positions, frequencies = from_array(positions), check_decimals("frequencies", frequencies, minimum=0)
    angles = angles_of_float32(positions, frequencies).astype(np.float64)
    if np.abs(angles).max(initial=0) >= 2**31:
        raise ValueError(f"`positions` × frequencies must be below 2**31 radians, got {np.abs(angles).max():g}.")
    cos, sin = cos_sin(angles, (_ONE,), factor=factor, dtype=dtype)
    return cos.reshape(angles.shape), sin.reshape(angles.shape)


def angles_of_float32(positions: Positions, frequencies: Frequencies) -> Table:
    """Compute the product of positions and frequencies, all three rounded to float32: `(..., length, pairs)`."""
    rounded = [nearest_float32(Fraction(frequency)) for frequency in frequencies]
    return positions.astype(np.float32)[..., None] * np.array(rounded, np.float32)


def check_dtype(dtype: Any) -> DType:
    """Return the dtype of tables as `numpy.float32` or `numpy.float64`; raise for others."""
    for known in (np.float32, np.float64):
        if dtype is known or (isinstance(dtype, str | np.dtype) and str(dtype) == known.__name__):
            return known
    raise TypeError(f"`dtype` must be numpy.float32 or numpy.float64, got {shown(dtype)}.")


def write_cos_sin(
    positions: Positions,
    frequencies: Frequencies,
    *,
    cos: Table | None = None,
    sin: Table | None = None,
    factor: Decimal | Frequencies = _ONE,
    envelope: Envelope | None = None,
) -> None:
    """Write `cos_sin` into arrays or views `(length, columns)`, or into one of the two.

    Args:
        positions: int64 or float64, shape `(length,)`, below 2**31 in size.
        frequencies: radians per position; an array of fewer columns takes the first of them.
        cos, sin: the arrays to write, float32 or both float64.
        factor: one number, or one for each frequency; none is negative.
        envelope: the growth of each column along the positions; None for none.
    Raises:
        TypeError, ValueError: as `cos_sin`, or if `cos` or `sin` is not such an array.
    """
    positions, frequencies = from_array(positions), check_decimals("frequencies", frequencies, minimum=0)
    check_rank("positions", positions, minimum=1, maximum=1, axes="(length,)")
    factors = factor if isinstance(factor, tuple) else (factor,) * len(frequencies)
    factors = check_decimals("factor", factors, minimum=0)
    if len(factors) != len(frequencies):
        raise ValueError(f"`factor` must be one number, or one for each of {len(frequencies)}, got {len(factors)}.")
    _check_tables(positions, frequencies, cos=cos, sin=sin)
    _check_envelope(envelope, positions, len(frequencies))
    spec = TableSpec(positions, cos, sin, turns_of(frequencies), factors, envelope)
    if any(table is not None and table.dtype == np.float64 for table in (cos, sin)):
        write_float64(spec)
        return
    length = block_length(spec)
    if not length:
        _write(spec)
        return
    steps = None
    for first_row in range(0, len(positions), _SUPERBLOCK * length):
        superblock = spec.part(slice(first_row, first_row + _SUPERBLOCK * length))
        consecutive = are_consecutive(superblock.positions, length)
        if any(consecutive):
            steps = steps or bounds_at_steps(spec, length)
            first_rows = [index * length for index, follows in enumerate(consecutive) if follows]
            write_consecutive(superblock, first_rows, steps)
        for rows in _remaining_rows(consecutive, length, len(superblock.positions)):
            _write(superblock.part(rows))


def write_derivatives(
    positions: Positions, frequencies: Frequencies, *, cos: Table | None = None, sin: Table | None = None
) -> None:
    """Write the derivatives of `cos_sin` with respect to the positions into arrays or views `(length, columns)`.

    Arguments and errors are those of `write_cos_sin`.

    >>> from posenc_core.tables.frequencies import geometric
    >>> of_sin, of_cos = np.empty((2, 1, 2), np.float32)
    >>> write_derivatives(np.array([1]), geometric(4), sin=of_sin, cos=of_cos)
    >>> of_sin, of_cos
    (array([[0.5403023, 0.0099995]], dtype=float32), array([[-8.4147096e-01, -9.9998331e-05]], dtype=float32))
    """
    frequencies = check_decimals("frequencies", frequencies, minimum=0)
    _check_tables(from_array(positions), frequencies, cos=cos, sin=sin)  # before they change places
    write_cos_sin(positions, frequencies, cos=sin, sin=cos, factor=frequencies)
    if cos is not None:
        np.multiply(cos, -1, out=cos)  # `np.negative` in place is wrong in NumPy 2.4 where columns lie 4 apart


def _check_tables(positions: Positions, frequencies: Frequencies, **tables: Any) -> None:
    """Raise unless the tables, by their names, are None or arrays to write the rows of positions into."""
    rows, columns = positions.size, len(frequencies)
    for name, table in tables.items():
        check_type(name, table, np.ndarray | None, "a NumPy array or None")
        if table is None:
            continue
        check_rank(name, table, minimum=2, maximum=2, axes="(length, columns)")
        if table.dtype.char not in "fd" or not table.flags.writeable:
            raise TypeError(f"`{name}` must be float32 or float64 and writeable, got {table.dtype}.")
        if len(table) != rows or table.shape[1] > columns:
            raise ValueError(f"`{name}` must have {rows} rows and at most {columns} columns, got shape {table.shape}.")
    if len({table.dtype.char for table in tables.values() if table is not None}) > 1:
        raise TypeError("`cos` and `sin` must have one dtype, got float32 and float64.")


def _check_envelope(envelope: Any, positions: Positions, columns: int) -> None:
    """Raise unless `envelope` is None, or has so many rates and keeps tables within float32 at these positions."""
    check_type("envelope", envelope, Envelope | None, "an Envelope or None")
    if envelope is None:
        return
    if len(envelope.rates) != columns:
        raise ValueError(f"`envelope` must have {columns} rates, one for each frequency, got {len(envelope.rates)}.")
    farthest = np.abs(positions - envelope.center).max(initial=0)
    exponent = farthest * max((abs(float(rate)) for rate in envelope.rates), default=0)
    if exponent > LARGEST_EXPONENT:
        raise ValueError(f"`envelope` must grow by at most exp({LARGEST_EXPONENT}), got exp({exponent:g}).")


def _remaining_rows(consecutive: list[bool], length: int, rows: int) -> list[slice]:
    """Return the rows outside the blocks of consecutive positions."""
    if not any(consecutive):
        return [slice(rows)]
    blocks = [slice(index * length, (index + 1) * length) for index, follows in enumerate(consecutive) if not follows]
    return [*blocks, slice(len(consecutive) * length, rows)]


def _write(spec: TableSpec) -> None:
    """Write rows of any positions."""
    step = rows_at_a_time(_BLOCK, len(spec.factors))
    for first_row in range(0, len(spec.positions), step):
        block = spec.part(slice(first_row, first_row + step))
        angles, error, floor = wrapped_angles(block.positions[:, None], block.turns)
        error *= 2.0**-48
        error += 2 * floor
        for function, out in ((_COS, block.cos), (_SIN, block.sin)):
            if out is not None:
                columns = slice(out.shape[-1])
                _write_block(out, function, block, angles[:, columns], error[:, columns] + function.error)


def _write_block(out: Table, function: _Function, block: TableSpec, angles: Float64s, error: Float64s) -> None:
    """Write one function of a block of angles, `(rows, columns)`; recompute entries that float64 does not decide."""
    value, factors, columns = function.float64(angles), float_factors(block), out.shape[-1]
    if factors is not None:
        value *= factors[:columns]
        error *= factors[:columns]
    if block.envelope is not None:
        scale, scale_error = growth(block.envelope, block.positions - block.envelope.center)
        error = (error + np.abs(value) * scale_error[:, :columns]) * scale[:, :columns]
        value *= scale[:, :columns]
    round_or_recompute(out, value, error, lambda row, column: block.exact(row, column, function.function_index))
