"""Lookup: from where tokens stand to the rows of the tables that a layer holds.

Every room's layers share it, so that a room only says how its framework makes, reads and traces arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ._arrays import Array, namespace_of, shape_of
from .encodings import Tabular
from .holder import Holder, Host, batch_of, check_stated, host_values, stated_start, whole
from .positions import counted_from, from_array, sequence


class TableLookup(Holder):
    """A layer whose tables have one row per position."""

    encoding: Tabular

    @property
    def tables(self) -> tuple[Any, ...]:
        """The tables held, each `(positions, columns)`."""
        return tuple(table for name, table in self.held.items() if name.endswith(("table", "cos", "sin")))

    def rows(
        self, x: Any, *, seq_axis: int = -2, start: Any = 0, positions: Any = None, encoding: Tabular | None = None
    ) -> tuple[Any, ...]:
        """One array per table with the rows of the tokens in `x`: `(length, columns)` or `(batch, length, columns)`.

        Args:
            x: tokens; the size of `seq_axis` is their number.
            start: the first position, or the first position of each batch row.
            positions: all positions, `(length,)` or `(batch, length)`; then `start` is not used.
            encoding: whose rows; where it is not the one whose tables are held, they are computed for this call.
        Raises:
            TypeError: if `start` is not whole, or a position no number.
            ValueError: if positions do not fit the tokens, if the encoding has no such position, or if code that is
                being traced goes past the tables. A traced position that they do not hold reads NaN.
        """
        sequence = sequence_axis(x, seq_axis)
        length, batch = shape_of(x)[sequence], batch_of(x, sequence)
        other = None if encoding is self.encoding or encoding == self.encoding else encoding
        if positions is not None:
            host = host_values(positions, self.room)
            check_stated("positions", positions if host is None else host, (length,), batch)
            return self._traced_rows(positions, other) if host is None else self._rows_at(x, host, other)
        start = stated_start(start, batch, self.room)
        if isinstance(start, int) and isinstance(length, int):
            return self._rows_from(x, start, length, other)
        if isinstance(start, np.ndarray) and isinstance(length, int):
            return self._rows_at(x, start[..., None] + np.arange(length), other)
        return self._traced_rows(counted_from(self.native(start), length), other)

    def _rows_from(self, x: Any, start: int, length: int, other: Tabular | None) -> tuple[Any, ...]:
        self.reached(x, start + length - 1, other or self.encoding)
        if other is None and start >= 0 and self._reserve(x, start + length, length):
            return tuple(table[start : start + length, ...] for table in self.tables)
        return self._computed(x, sequence(length, start=start), other)

    def _rows_at(self, x: Any, positions: Host, other: Tabular | None) -> tuple[Any, ...]:
        positions = whole(from_array(positions))
        self.reached(x, positions.max(initial=-1).item(), other or self.encoding)
        held = other is None and positions.dtype.kind == "i" and positions.min(initial=0) >= 0
        if held and self._reserve(x, int(positions.max(initial=-1)) + 1, positions.size):
            indices = self.native(positions.astype(np.int32))
            return tuple(_taken(table, indices) for table in self.tables)
        return self._computed(x, positions, other)

    def reached(self, x: Any, last: float, encoding: Tabular) -> None:
        """What is to be said of an encoding's use up to a position, if anything."""

    def _computed(self, x: Any, positions: Host, other: Tabular | None) -> tuple[Any, ...]:
        """Rows for this call alone: exact for any position that the encoding has."""
        if other is not None and self.room.is_traced(x):
            raise ValueError(other_tables(other))
        return tuple(self.native(rows) for rows in self.exact_rows(positions, other or self.encoding).values())

    def _traced_rows(self, positions: Any, other: Tabular | None) -> tuple[Any, ...]:
        if other is not None:
            raise ValueError(other_tables(other))
        return tuple(_taken_or_nan(table, positions) for table in self.tables)

    def _reserve(self, x: Any, stop: int, count: int) -> bool:
        """Whether the tables hold the positions below `stop`, after growing if that is in proportion.

        Tables double, or follow a call that fills at least half of them; a lone far position is not worth a table.
        """
        held = int(self.tables[0].shape[0])
        if stop <= held:
            return True
        if stop > self.encoding.limit:
            raise ValueError(f"`positions` of {self.encoding} end at {self.encoding.limit - 1}, got {stop - 1}.")
        if self.room.is_traced(x):
            raise ValueError(
                f"`max_len` is {held}, but position {stop - 1} is asked for while the layer is traced; "
                f"make it with `max_len={stop}` or more."
            )
        if stop > min(2 * max(held, count), self.encoding.held_limit):
            return False
        self.hold(self.encoding.constants(max(stop, 2 * held)))
        return True


def other_tables(encoding: Tabular) -> str:
    """What to say where code that is traced asks for the rows of another encoding than its layer's."""
    return f"`seq_len` asks for other tables than a traced layer holds; make the layer with {encoding!r}."


def sequence_axis(x: Array, seq_axis: int, *, name: str = "x") -> int:
    """The axis of the sequence, counted from the first; errors if there is none, or it is that of the width."""
    rank = len(x.shape)
    if type(seq_axis) is not int:
        raise TypeError(f"`seq_axis` must be an integer, got {seq_axis!r}.")
    if not -rank <= seq_axis < rank or seq_axis % rank == rank - 1:
        raise ValueError(f"`seq_axis` must be an axis of `{name}` before its last, got {seq_axis} for {rank} axes.")
    return seq_axis % rank


def _taken(table: Array, positions: Array) -> Array:
    """`table[positions]`: `(rows, columns) x (..., length) -> (..., length, columns)`."""
    xp = namespace_of(table)
    rows = xp.take(table, xp.reshape(positions, (-1,)), axis=0)
    return xp.reshape(rows, (*shape_of(positions), table.shape[-1]))


def _taken_or_nan(table: Array, positions: Array) -> Array:
    """`_taken` for positions that nobody has checked: rows that the table does not have are NaN."""
    xp = namespace_of(table)
    last = xp.full_like(positions, table.shape[0] - 1)
    zero = xp.zeros_like(positions)
    rows = _taken(table, xp.maximum(xp.minimum(positions, last), zero))
    held = xp.expand_dims((positions >= zero) & (positions <= last), axis=-1)
    return xp.where(held, rows, xp.full_like(rows, float("nan")))
