"""Tables of float64: every entry is computed by big integers and rounded once, so that no library's sine has a part.

Whole positions are split into a high and a low part, of which there are few; the angle addition theorem joins them.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ._fixed_point import VALUE_BITS, exact_cos_sin, high_precision
from ._rounding import TableSpec, rows_at_a_time

Integers: TypeAlias = npt.NDArray[np.object_]  # Python's, in units of 2**-200

_BLOCK = 2**16  # entries: big integers of one block take some ten megabytes


def write_float64(spec: TableSpec) -> None:
    """Write tables of float64; an entry is off by half an ulp, and 2**-22 ulp if it is below 2**-125."""
    step = rows_at_a_time(_BLOCK, len(spec.factors))
    for first_row in range(0, len(spec.positions), step):
        block = spec.part(slice(first_row, first_row + step))
        scales, unit = _scales(block)
        for out, values in zip((block.cos, block.sin), _cos_sin(block.positions, block.turns.exact), strict=True):
            if out is not None:
                columns = slice(out.shape[-1])
                scaled = values[:, columns] if scales is None else values[:, columns] * scales[:, columns]
                out[...] = scaled / unit  # Python rounds the quotient of integers once


def _scales(spec: TableSpec) -> tuple[Integers | None, int]:
    """Return what multiplies the entries, `(1 or rows, pairs)`, None for 1, and the unit of the products."""
    if spec.envelope is None and all(factor == 1 for factor in spec.factors):
        return None, 2**VALUE_BITS
    rows = [list(spec.factors)]
    with high_precision():
        if spec.envelope is not None:
            distances = [Decimal(position) - Decimal(spec.envelope.center) for position in spec.positions.tolist()]
            pairs = list(zip(spec.factors, spec.envelope.rates, strict=True))
            rows = [[factor * (distance * rate).exp() for factor, rate in pairs] for distance in distances]
        scales = [[int(scale * 2**VALUE_BITS) for scale in row] for row in rows]
    return _as_objects(scales, len(spec.factors)), 2 ** (2 * VALUE_BITS)


def _cos_sin(positions: npt.NDArray[Any], turns: tuple[int, ...]) -> tuple[Integers, Integers]:
    """Return cosine and sine of positions × turns, each `(length, pairs)`."""
    if positions.dtype.kind == "f" and (positions == np.rint(positions)).all():
        positions = positions.astype(np.int64)
    if positions.dtype.kind == "f":
        return _each(positions, turns)
    span = int(np.ptp(positions)) if positions.size else 0
    below = (1 << (span.bit_length() + 1) // 2) - 1
    (high, at_high), (low, at_low) = (
        np.unique(part, return_inverse=True) for part in (positions & ~below, positions & below)
    )
    if len(high) + len(low) >= len(positions):
        return _each(positions, turns)
    (cos_high, sin_high), (cos_low, sin_low) = _each(high, turns), _each(low, turns)
    a, b, c, d = cos_high[at_high], sin_high[at_high], cos_low[at_low], sin_low[at_low]
    return (a * c - b * d) >> VALUE_BITS, (b * c + a * d) >> VALUE_BITS


def _each(positions: npt.NDArray[Any], turns: tuple[int, ...]) -> tuple[Integers, Integers]:
    both = [[exact_cos_sin(position, turn) for turn in turns] for position in positions.tolist()]
    cos, sin = ([[entry[index] for entry in row] for row in both] for index in (0, 1))
    return _as_objects(cos, len(turns)), _as_objects(sin, len(turns))


def _as_objects(rows: list[list[int]], columns: int) -> Integers:
    result = np.empty((len(rows), columns), np.object_)
    for index, row in enumerate(rows):
        result[index] = row
    return result
