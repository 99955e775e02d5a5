"""Lookup: from where tokens stand to the rows of the tables that a layer holds.

Every room's layers share it, so that a room only says how its framework makes, reads and traces arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .._array_api.checks import is_static
from .._array_api.namespace import Array, namespace_of, shape_of
from ..encodings import Tabular
from ..positions.sequences import from_array, sequence
from .base import (
    BaseLayer,
    Host,
    batch_of,
    bound,
    check_stated,
    host_values,
    is_real,
    other_tables,
    stated_start,
    too_far,
    whole,
)


class TableLookup(BaseLayer):
    """A layer whose tables have one row per position."""

    encoding: Tabular

    @property
    def tables(self) -> tuple[Any, ...]:
        """The tables held, each `(positions, columns)`."""
        return self._tables_in(self.held)

    def _tables_in(self, held: Mapping[str, Any]) -> tuple[Any, ...]:
        tables = tuple([table for name, table in held.items() if name.endswith(("table", "cos", "sin"))])
        first = self.encoding.offset
        return tuple(table[first:, ...] for table in tables) if first else tables

    def rows(
        self, x: Any, *, seq_axis: int = -2, start: Any = 0, positions: Any = None, encoding: Tabular | None = None
    ) -> tuple[Any, ...]:
        """One array per table with the rows of the tokens in `x`: `(length, columns)` or `(batch, length, columns)`.

        Args:
            x: tokens; the size of `seq_axis` is their number.
            start: the first position, or the first position of each batch row.
            positions: all positions, `(length,)` or `(batch, length)`; then `start` is not used. Through real ones, as an
                array of the framework, the gradient flows; under a tracer rows are computed there.
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
            if is_real(positions) and self.backend.is_traced(positions):
                check_stated("positions", positions, (length,), batch)
                return self.computed_there(other or self.encoding, positions)
            host = host_values(positions, self.backend)
            check_stated("positions", positions if host is None else host, (length,), batch)
            if host is None:
                return self._traced_rows(positions, other)
            rows = self._rows_at(x, host, other)
            return self._following(rows, positions, host, other or self.encoding)
        start = stated_start(start, batch, self.backend)
        if isinstance(start, int) and isinstance(length, int):
            return self._rows_from(x, start, length, other)
        if isinstance(start, np.ndarray) and isinstance(length, int):
            return self._rows_at(x, start[..., None] + np.arange(length), other)
        at = self.positions("positions", None, length, start, batch)
        if isinstance(start, int) and other is None:
            self.ensured(start + length, lambda: bound(_shortest(self.tables), self.encoding))
        return self._traced_rows(at, other)

    def rows_by_axis(
        self, x: Any, positions: Any, *, seq_axis: int = -2, encoding: Tabular | None = None
    ) -> tuple[Any, ...]:
        """`rows` of positions on several axes, `(axes, ..., length)`: each column by those on its own axis.

        They are `(length,)` or `(batch, length)` for one axis, `(length,)` if they are the same on all.
        """
        given = positions if hasattr(positions, "shape") else np.asarray(positions)
        axes = self.encoding.num_axes
        if axes == 1 or len(given.shape) == 1:
            return self.rows(x, seq_axis=seq_axis, positions=positions, encoding=encoding)
        check_axes(given, axes)
        each = (self.rows(x, seq_axis=seq_axis, positions=given[a, ...], encoding=encoding) for a in range(axes))
        return tuple(map(self._dealt, zip(*each, strict=True)))

    def positions_of(self, x: Any, start: Any, positions: Any, seq_axis: int = -2) -> Any:
        """The positions of the tokens in `x` as an array of the framework, for rows that are computed there."""
        sequence = sequence_axis(x, seq_axis)
        length, batch = shape_of(x)[sequence], batch_of(x, sequence)
        if not is_real(positions):
            return self.positions("positions", positions, length, start, batch)
        check_stated("positions", positions, (length,), batch)
        if not self.backend.is_traced(positions):
            from_array(self.backend.to_numpy(positions))
        return positions

    def _following(self, rows: tuple[Any, ...], positions: Any, host: Host, encoding: Tabular) -> tuple[Any, ...]:
        """Rows through which the gradient reaches their positions, if these can have one."""
        if not is_real(positions) or self.backend.stop_gradient(positions) is positions:
            return rows
        derivatives, rates = encoding.derivatives(from_array(host)).values(), encoding.angular_frequencies()[None]
        each = zip(rows, derivatives, strict=False)  # those that are not smooth have no derivatives
        return tuple(self.followed(row, [positions], own[None], rates) for row, own in each) or rows

    def followed(self, row: Any, positions: list[Any], derivatives: Host, rates: Host) -> Any:
        """Rows of the same numbers, whose derivatives of all orders with respect to the positions are right.

        The rows R of an angle that moves by the distance a, its own derivative being P, are R·cos(a) + P·sin(a). All
        distances are 0 here; the first derivative is the one given, to its last bit.

        Args:
            row: `(..., length, columns)`.
            positions: those on each axis, `(..., length)`.
            derivatives: with respect to each of them, `(axes, ..., length, columns)`.
            rates: how fast the angles turn, `(axes, columns)`; 0 where a derivative is constant.
        """
        moved = [self._zero(each) for each in positions]
        followed = row + sum(zero * self.to_backend(each) for zero, each in zip(moved, derivatives, strict=True))
        if not rates.any():
            return followed
        xp = namespace_of(row)
        angle = sum(zero * self.to_backend(each.astype(np.float32)) for zero, each in zip(moved, rates, strict=True))
        return (
            followed
            + row * (xp.cos(angle) - 1)
            + self.to_backend(_partner(derivatives, rates)) * (xp.sin(angle) - angle)
        )

    def _zero(self, positions: Any) -> Any:
        """0 for each position, through which its gradient flows."""
        xp = namespace_of(positions)
        return xp.expand_dims(xp.astype(positions - self.backend.stop_gradient(positions), xp.float32), axis=-1)

    def _dealt(self, rows: tuple[Any, ...]) -> Any:
        """From the rows of each axis the columns that turn by it."""
        xp, turns_by, dealt = namespace_of(rows[0]), self.held["turns_by"], rows[0]
        for axis, others in enumerate(rows[1:], start=1):
            dealt = xp.where(turns_by[axis, ...] > 0, others, dealt)
        return dealt

    def _rows_from(self, x: Any, start: int, length: int, other: Tabular | None) -> tuple[Any, ...]:
        self.reached(x, start + length - 1, other or self.encoding)
        tables = self._reserved(x, start + length, length) if other is None and start >= 0 else None
        if tables is None:
            return self._computed(x, sequence(length, start=start), other)
        return tuple(self.settled(lambda rows: rows[start : start + length, ...], table) for table in tables)

    def _rows_at(self, x: Any, positions: Host, other: Tabular | None) -> tuple[Any, ...]:
        positions = whole(from_array(positions))
        self.reached(x, positions.max(initial=-1).item(), other or self.encoding)
        held = other is None and positions.dtype.kind == "i" and positions.min(initial=0) >= 0
        tables = self._reserved(x, int(positions.max(initial=-1)) + 1, positions.size) if held else None
        if tables is None:
            return self._computed(x, positions, other)
        indices = self.to_backend(positions.astype(np.int32))
        return tuple(self.settled(_taken, table, indices) for table in tables)

    def reached(self, x: Any, last: float, encoding: Tabular) -> None:
        """What is to be said of an encoding's use up to a position, if anything."""

    def _computed(self, x: Any, positions: Host, other: Tabular | None) -> tuple[Any, ...]:
        """Rows for this call alone: exact for any position that the encoding has."""
        if other is not None and self.is_recorded(x):
            raise ValueError(other_tables(other))
        return tuple(self.to_backend(rows) for rows in self.exact_rows(positions, other or self.encoding).values())

    def _traced_rows(self, positions: Any, other: Tabular | None) -> tuple[Any, ...]:
        if other is not None:
            raise ValueError(other_tables(other))
        return tuple(_taken_or_nan(table, positions) for table in self._tables_in(self.initial_arrays))

    def _reserved(self, x: Any, stop: int, count: int) -> tuple[Any, ...] | None:
        """Tables with the positions below `stop`, after growing if that is in proportion; None if it is not.

        Tables double, or follow a call that fills at least half of them; a lone far position is not worth a table. What
        is held is looked at once, as other threads may change it: all of it is right, but it may be of several lengths.
        """
        tables = self.tables
        held = _shortest(tables)
        if stop <= held:
            return tables
        if stop > self.encoding.limit:
            raise ValueError(f"`positions` of {self.encoding} end at {self.encoding.limit - 1}, got {stop - 1}.")
        if self.is_recorded(x):
            raise ValueError(too_far(held, stop))
        if stop > min(2 * max(held, count), self.encoding.max_table_len):
            return None
        self.hold(self.encoding.constants(max(stop, 2 * held)))
        tables = self.tables
        return tables if stop <= _shortest(tables) else None


def _shortest(tables: tuple[Any, ...]) -> int:
    return min(int(table.shape[0]) for table in tables)


def check_axes(positions: Array, axes: int) -> None:
    """Raise unless positions have these axes before their own."""
    if len(positions.shape) < 2 or (is_static(positions.shape[0]) and positions.shape[0] != axes):
        raise ValueError(f"`positions` must have shape ({axes}, ..., length), got {tuple(positions.shape)}.")


def sequence_axis(x: Array, seq_axis: int, *, name: str = "x") -> int:
    """The axis of the sequence, counted from the first; errors if there is none, or it is that of the width."""
    rank = len(x.shape)
    if type(seq_axis) is not int:
        raise TypeError(f"`seq_axis` must be an integer, got {seq_axis!r}.")
    if not -rank <= seq_axis < rank or seq_axis % rank == rank - 1:
        raise ValueError(f"`seq_axis` must be an axis of `{name}` before its last, got {seq_axis} for {rank} axes.")
    return seq_axis % rank


def _partner(derivatives: Host, rates: Host) -> Host:
    """The derivative of rows with respect to their angle, which is what those of all axes are multiples of."""
    along = sum(each * np.sign(rate) for each, rate in zip(derivatives, rates, strict=True))
    speed = np.abs(rates).sum(axis=0)
    return np.divide(along, speed, out=np.zeros_like(along, np.float64), where=speed > 0).astype(np.float32)


def _taken(table: Array, positions: Array) -> Array:
    """`table[positions]`: `(rows, columns) x (..., length) -> (..., length, columns)`."""
    xp = namespace_of(table)
    rows = xp.take(table, xp.reshape(positions, (-1,)), axis=0)
    return xp.reshape(rows, (*shape_of(positions), table.shape[-1]))


def _taken_or_nan(table: Array, positions: Array) -> Array:
    """`_taken` for positions that nobody has checked: rows that the table does not have are NaN."""
    xp = namespace_of(table)
    last = xp.full_like(positions, shape_of(table)[0] - 1)
    zero = xp.zeros_like(positions)
    rows = _taken(table, xp.maximum(xp.minimum(positions, last), zero))
    held = xp.expand_dims((positions >= zero) & (positions <= last), axis=-1)
    return xp.where(held, rows, xp.full_like(rows, float("nan")))
