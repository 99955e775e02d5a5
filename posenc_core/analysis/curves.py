"""Curves: the numbers behind the pictures of an encoding: rows, dot products, frequencies, scores by distance."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._array_api.checks import check_integer, check_numbers, check_rank, check_type, host_array, shown
from ..encodings import Additive, Encoding, Placed, PositionScoring, Rotary
from ..encodings.attention_encoding import QueryKeyEncoding
from ..encodings.rotary.base import RotaryEncoding
from ..positions.grids import grid, normalized_grid
from .differences import check_angles

MOST_POSITIONS = 2**20  # of a picture
Float32s = npt.NDArray[np.float32]
Float64s = npt.NDArray[np.float64]


def rows(encoding: Encoding, length: int) -> Float32s:
    """Return the table of an encoding, one row for each position.

    The row of a rotary encoding is (cos, sin) of each pair: the pair (1, 0) after the rotation; that of `PoPE` (cos,
    sin) of each channel. Where it is learned, it is that of `cos_sin`: of `FoPE` before its matrices mix it, of
    `MixedRotary` along the axes, of `PoPE` without phases.

    Args:
        encoding: an additive encoding with a fixed table, a rotary encoding or `PoPE`.
        length: number of positions. For an encoding of several axes: about as many cells of a square or cube, row by
            row. Coordinates of Fourier features, and those in turns, go from -1 to 1.
    Returns:
        Shape `(length, columns)`, float32.
    Raises:
        TypeError: if the encoding has no fixed table, or `length` is not an integer.
        ValueError: if `length` is not from 1 to 2**20, or greater than the encoding allows.

    >>> rows(Rotary(head_dim=2, layout="half"), 2).round(3)
    array([[1.   , 0.   ],
           [0.54 , 0.841]], dtype=float32)
    """
    positions = _first(length)
    if isinstance(encoding, QueryKeyEncoding) and not encoding.needs_attention:
        cos, sin = encoding.cos_sin(_cells(encoding, positions) if encoding.needs_positions else positions)
        return np.stack([cos, sin], axis=-1).reshape(len(cos), -1)
    if not isinstance(encoding, Additive) or "table" in encoding.parameters():
        raise TypeError(f"`encoding` must have a fixed table to draw, got {shown(encoding)}.")
    if encoding.uses_coordinates or encoding.num_axes > 1:
        positions = _cells(encoding, positions)
        positions = positions if encoding.num_axes > 1 else positions[0]
    return encoding.table(positions)


def _cells(encoding: Additive | QueryKeyEncoding, positions: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """Return about as many cells as positions: from 0 on each axis, or from -1 to 1, `(axes, cells)`."""
    sizes = (max(round(len(positions) ** (1 / encoding.num_axes)), 1),) * encoding.num_axes
    return normalized_grid(*sizes) if encoding.uses_coordinates else grid(*sizes)


def products(table: Float32s) -> Float32s:
    """Return the dot product of each row of a table with the middle row, shape `(length,)`.

    Raises:
        TypeError: if `table` is not an array of numbers.
        ValueError: if it has not two axes, or no row.
    """
    table = host_array("table", table)
    check_numbers("table", table)
    check_rank("table", table, minimum=2, maximum=2, axes="(length, columns)")
    if not len(table):
        raise ValueError(f"`table` must have a row, got shape {table.shape}.")
    return table @ table[len(table) // 2]


def plain_rope(encoding: Encoding) -> Rotary | None:
    """Return the plain RoPE with the frequencies of an encoding, or None if the encoding has no frequencies.

    Args:
        encoding: a rotary encoding, `PoPE`, or one whose columns are sines and cosines of positions on one axis.
    Returns:
        One pair for each frequency, the highest first; for `PoPE`, one for each channel.

    >>> from posenc_core import Sinusoidal
    >>> rotary = plain_rope(Sinusoidal(dim=4))
    >>> rotary.frequencies()
    array([1.  , 0.01])
    """
    check_type("encoding", encoding, Encoding, "an encoding")
    plain: Any = encoding.plain_rope()
    return plain


def scores_by_distance(encoding: Rotary | PositionScoring, length: int) -> Float64s:
    """Return the attention score for each distance of the query after the key.

    With a rotary encoding, the score is the dot product of a query and a key of ones, divided by their width. With a
    scoring encoding, it is the bias.

    Args:
        encoding: a rotary encoding of sequences, or a scoring encoding without learned parameters.
        length: number of distances, from 0 on.
    Returns:
        Shape `(heads, length)`; a rotary encoding is the same for all heads and has one row.
    Raises:
        TypeError, ValueError: if the encoding is another or learns, or `length` is not an integer from 1 to 2**20.

    >>> scores_by_distance(Rotary(head_dim=2, layout="half"), 3).round(3)
    array([[ 1.   ,  0.54 , -0.416]])
    """
    check_type("encoding", encoding, RotaryEncoding | PositionScoring, "a rotary or scoring encoding")
    length = len(_first(length))
    if isinstance(encoding, PositionScoring):
        return encoding.bias(np.arange(length), np.arange(1))[:, :, 0].astype(np.float64)
    q, k = np.ones((length, encoding.head_dim)), np.ones((1, encoding.head_dim))
    q, k = Placed(encoding, range(length), range(1)).rotate(q, k)
    return (k @ q.T) / encoding.head_dim


def bounds_by_distance(rotary: Rotary, length: int) -> Float64s:
    """Return the upper bound of RoPE scores by distance, divided by the bound at distance 0, shape `(length,)`.

    For each pair, add up the rotations of all pairs up to it as complex numbers: the bound is proportional to the mean
    of the absolute values. Its other factor, the largest change of q · k from pair to pair, is the same at every
    distance.

    Raises:
        TypeError, ValueError: if `rotary` is not a rotary encoding, or `length` not an integer from 1 to 2**20.
    Source: Su et al. 2021, section 3.4.3 (arXiv:2104.09864).

    >>> bounds_by_distance(Rotary(head_dim=4, layout="half"), 3).round(3)
    array([1.   , 0.92 , 0.699])
    """
    check_type("rotary", rotary, RotaryEncoding, "a rotary encoding")
    check_angles("rotary", rotary)
    cos, sin = (table.astype(np.float64) for table in rotary.cos_sin(_first(length)))
    sums = np.hypot(np.cumsum(cos, axis=-1), np.cumsum(sin, axis=-1)).mean(axis=-1)
    return sums / sums[0]


def _first(length: int) -> npt.NDArray[Any]:
    """Return the first positions, as many as a picture may have."""
    return np.arange(check_integer("length", length, maximum=MOST_POSITIONS))
