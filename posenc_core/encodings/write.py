"""Write tables that are larger than memory, block by block, into arrays on disk."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from .._array_api.checks import check_integer, shown
from .._array_api.namespace import dtype_name
from ..positions.sequences import LIMIT, sequence
from ..tables._rounding import rows_at_a_time
from .base import Tabular

_BLOCK = 2**21  # entries: some 8 MiB


def write_tables(encoding: Tabular, *out: Any, start: int = 0) -> None:
    """Fill arrays with the rows of the positions from `start` on, with a few MiB in memory at a time.

    Args:
        encoding: additive or rotary.
        out: float32 arrays that support slices, `(length, columns)`: `np.memmap`, zarr's, h5py's. One for an additive
            encoding; cosine and sine for a rotary encoding; XPos has two more, for keys. If they have `chunks`, whole
            chunks are written.
        start: the first position.
    Raises:
        TypeError: if the encoding has no fixed table, or `out` is not float32.
        ValueError: if the number of arrays is not that of the tables, their shapes are wrong, they overlap, or the
            encoding has fewer positions.

    >>> from posenc_core import Sinusoidal
    >>> table = np.empty((2, 2), np.float32)  # or np.lib.format.open_memmap("table.npy", "w+", np.float32, (10**7, 2))
    >>> write_tables(Sinusoidal(dim=2), table, start=2**20)
    >>> table
    array([[0.33049315, 0.9438084 ],
           [0.9727536 , 0.23184146]], dtype=float32)
    """
    start = check_integer("start", start, minimum=1 - LIMIT)
    length, step = _checked_length(encoding, out, start), _rows_at_a_time(out)
    for first in range(0, length, step):
        rows = encoding.rows(sequence(min(step, length - first), start=start + first))
        for table, block in zip(out, rows.values(), strict=True):
            table[first : first + step] = block


def _checked_length(encoding: Tabular, out: tuple[Any, ...], start: int) -> int:
    """Check the arrays, and return the number of rows to write."""
    if not isinstance(encoding, Tabular):
        raise TypeError(f"`encoding` must be additive or rotary, got {shown(encoding)}.")
    if encoding.parameters():
        raise TypeError(f"`encoding` must have a table that is fixed, got {shown(encoding)}, whose rows are learned.")
    for table in out:
        _check_writable(table)
    length = out[0].shape[0] if out else 0
    ends = np.array([start, start + length - 1]) if length else sequence(0)
    widths = [rows.shape[-1] for rows in encoding.rows(ends).values()]
    if len(out) != len(widths):
        raise ValueError(f"`out` of {shown(encoding)} must be {len(widths)} arrays, got {len(out)}.")
    for table, width in zip(out, widths, strict=True):
        if tuple(table.shape) != (length, width):
            raise ValueError(f"`out` must have shape {(length, width)}, got {tuple(table.shape)}.")
        if dtype_name(table) != "float32":
            raise TypeError(f"`out` must be float32, got {dtype_name(table)}; round what is written afterwards.")
    pairs = combinations((table for table in out if isinstance(table, np.ndarray)), 2)
    if any(np.shares_memory(one, other) for one, other in pairs):
        raise ValueError("`out` must be arrays that do not overlap, got two that share memory.")
    return int(length)


def _check_writable(table: Any) -> None:
    """Raise unless a table can be written in slices: a NumPy array, or one that is like it in this, such as zarr's."""
    if isinstance(table, type) or not (hasattr(table, "shape") and hasattr(type(table), "__setitem__")):
        raise TypeError(f"`out` must be arrays that can be written to, got {shown(table)}.")
    if len(table.shape) != 2:
        raise ValueError(f"`out` must be arrays of shape (length, columns), got {len(table.shape)} axes.")


def _rows_at_a_time(out: tuple[Any, ...]) -> int:
    """Return the number of rows of a block, in whole chunks where the arrays have chunks."""
    step = rows_at_a_time(_BLOCK, max(table.shape[1] for table in out))
    chunks = getattr(out[0], "chunks", None)
    return max(step // chunks[0], 1) * int(chunks[0]) if chunks else step
