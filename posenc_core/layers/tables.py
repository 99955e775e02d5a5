"""Look up the rows of tables at the positions of tokens."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from .._array_api.checks import check_flag, check_known, check_rank, is_static, shown
from .._array_api.namespace import Array, name_of_dtype, namespace_of, shape_of, take_nd
from ..encodings import Tabular
from ..positions.sequences import LIMIT, from_array, sequence
from .backend import Given, Host, Size, Tensor
from .base import BaseLayer
from .inputs import (
    as_integers,
    batch_size,
    check_axes,
    check_positions,
    host_values,
    is_real,
    other_tables,
    parse_positions,
    parse_start,
    past_tables,
    sequence_axis,
    traced_limit,
)

DTYPES = ("float32", "float16", "bfloat16", "float64")


class TableLayer(BaseLayer):
    """A layer whose tables have one row per position."""

    encoding: Any  # Tabular
    auto_expand: bool

    @property
    def tables(self) -> tuple[Tensor, ...]:
        """The tables, each `(positions, columns)`."""
        return self._select_tables(self.arrays)

    def _select_tables(self, arrays: Any) -> tuple[Tensor, ...]:
        tables = tuple([arrays[name] for name in self.encoding.table_names])
        first = self.encoding.offset
        return tuple([table[first:, ...] for table in tables]) if first else tables

    def lookup(
        self, x: Tensor, start: Given = 0, positions: Given = None, seq_axis: int = -2, encoding: Tabular | None = None
    ) -> tuple[Tensor, ...]:
        """Return the rows of the tokens in `x` from each table: `(length, columns)` or `(batch, length, columns)`.

        | positions | start | length | rows |
        |---|---|---|---|
        | None | int | known | a slice of the tables, which grow if need be |
        | None | one per batch row | known | taken from the tables |
        | None | traced, or length unknown | | taken from the initial tables; NaN past their end |
        | known integers | | | taken from the tables |
        | known real numbers | | | computed exactly on the host; a gradient reaches the positions |
        | traced integers | | | taken from the initial tables; NaN past their end |
        | traced real numbers | | | computed in the framework |

        Args:
            x: tokens; the size of `seq_axis` is their number.
            start: the first position, or the first position of each batch row.
            positions: all positions, `(length,)` or `(batch, length)`, with the axes of a position before; `start` is
                not used.
            seq_axis: the axis of the sequence.
            encoding: in place of the layer's own, whose rows are then computed for this call.
        Raises:
            TypeError: if `start` is not an integer, or a position is not a number.
            ValueError: if positions do not fit the tokens, if the encoding has no such position, or if traced code
                goes past the tables.
        """
        other = None if encoding is None or encoding is self.encoding or encoding == self.encoding else encoding
        if positions is None:
            length = self.backend.shape(x)[seq_axis]
            if type(start) is int and isinstance(length, int):
                rows = self._rows_from(x, start, length, other)
            else:
                rows = self._rows_of(x, seq_axis, start, None, other)
        elif self.encoding.num_axes > 1:
            rows = self._rows_by_axis(x, seq_axis, positions, other)
        else:
            rows = self._rows_of(x, seq_axis, 0, positions, other)
        return self.backend.beside(rows, x)

    def _rows_from(self, x: Tensor, start: int, length: int, other: Tabular | None) -> tuple[Tensor, ...]:
        """Return the rows of `length` positions from `start` on."""
        stop, in_table = start + length, other is None and start >= 0
        if in_table:
            tables = self._select_tables(self.arrays)
            in_table = x.dtype == tables[0].dtype or not self._is_float64(x)
            if in_table and stop <= min([table.shape[0] for table in tables]):
                return self.backend.slices(tables, start, stop)
        parse_start(start, None, self.backend)
        self.warn_past_limit(x, stop - 1, other or self.encoding)
        if not self.auto_expand:
            self._check_rows(stop)
        grown = self._reserve(x, stop, length) if in_table else None
        return (
            self._computed(x, sequence(length, start=start), other)
            if grown is None
            else self.backend.slices(grown, start, stop)
        )

    def _rows_by_axis(self, x: Tensor, axis: int, positions: Given, other: Tabular | None) -> tuple[Tensor, ...]:
        """Return the rows of positions on several axes, `(axes, ..., length)`: each column by those on its own axis."""
        given = positions if hasattr(positions, "shape") else np.asarray(positions)
        if len(given.shape) == 1:  # the same on all axes
            return self._rows_of(x, axis, 0, given, other)
        axes = self.encoding.num_axes
        check_axes(given, axes)
        by_axis = [self._rows_of(x, axis, 0, given[a, ...], other) for a in range(axes)]
        return tuple([self._select_by_axis(rows) for rows in zip(*by_axis, strict=True)])

    def _select_by_axis(self, rows: tuple[Tensor, ...]) -> Tensor:
        """Return from the rows of each axis the columns that it rotates."""
        selected, *of_others = rows
        xp, axis_mask = namespace_of(selected), self.arrays["turns_by"]
        for axis, others in enumerate(of_others, start=1):
            selected = xp.where(axis_mask[axis, ...] > 0, others, selected)
        return selected

    def _rows_of(
        self, x: Tensor, axis: int, start: Given, positions: Given, other: Tabular | None
    ) -> tuple[Tensor, ...]:
        """Return the rows of positions on one axis, given, or counted from any kind of start."""
        sizes = shape_of(x)
        sequence = len(sizes) - 2 if type(axis) is int and axis == -2 else sequence_axis(x, axis)
        length: Size = sizes[sequence]
        batch = sizes[0 if sequence else 1] if len(sizes) > 2 else None
        if positions is None:
            start = parse_start(start, batch, self.backend)
            if isinstance(length, int):
                if isinstance(start, int):
                    return self._rows_from(x, start, length, other)
                if isinstance(start, np.ndarray):
                    return self._rows_at(x, start[..., None] + np.arange(length), other)
            elif isinstance(start, int) and other is None:
                stop = start + length
                self.backend.check_length(stop, lambda: traced_limit(_num_rows(self.tables), self.encoding))
            return self._rows_at_traced(self.positions("positions", None, length, start, batch), other)
        may_follow = is_real(positions)
        if may_follow and self.backend.is_unread(positions):
            check_positions("positions", positions, (length,), batch)
            return self.backend.eager((other or self.encoding).traced_rows, positions)
        host = host_values(positions, self.backend)
        given = () if host is None else host.shape
        known = type(length) is int and (len(given) == 1 or type(batch) is int)
        if not known or given not in ((length,), (batch, length)):
            check_positions("positions", positions if host is None else host, (length,), batch)
        if host is None:
            return self._rows_at_traced(positions, other)
        rows = self._rows_at(x, host, other)
        return self._with_gradient(rows, positions, host, other or self.encoding) if may_follow else rows

    def _rows_at(self, x: Tensor, positions: Host, other: Tabular | None) -> tuple[Tensor, ...]:
        """Return the rows of known positions."""
        positions = positions if positions.dtype.kind == "i" else as_integers(from_array(positions))
        first, last = positions.min(initial=0).item(), positions.max(initial=-1).item()
        if first <= -LIMIT or last >= LIMIT:
            from_array(positions)  # raises
        self.warn_past_limit(x, last, other or self.encoding)
        if not self.auto_expand:
            self._check_rows(math.floor(last) + 1)
        in_table = other is None and positions.dtype.kind == "i" and first >= 0 and not self._is_float64(x)
        tables = self._reserve(x, int(last) + 1, positions.size) if in_table else None
        if tables is None:
            return self._computed(x, positions, other)
        indices = self.backend.from_numpy(positions.reshape(-1).astype(np.int32), like=tables[0])
        return self.backend.hoist(partial(_take_rows, positions.shape), indices, *tables)

    def _rows_at_traced(self, positions: Given, other: Tabular | None) -> tuple[Tensor, ...]:
        """Return the rows of traced positions; NaN where the table has none."""
        if other is not None:
            raise ValueError(other_tables(other))
        return _take_or_nan(positions, *self._select_tables(self.initial_arrays))

    def _computed(self, x: Tensor, positions: Host, other: Tabular | None) -> tuple[Tensor, ...]:
        """Return rows for this call alone: exact for any position that the encoding has."""
        if other is not None and self.backend.is_recorded(x):
            raise ValueError(other_tables(other))
        dtypes = (np.float64,) if self._is_float64(x) else ()  # encodings of users may know float32 alone
        rows = self.backend.eager((other or self.encoding).rows, positions, *dtypes)
        return tuple([self.to_backend(table) for table in rows.values()])

    def _is_float64(self, x: Tensor) -> bool:
        """Return whether the rows of `x` are of float64: not where they are learned, nor in recorded programs."""
        return self.backend.is_float64(x) and not self.backend.is_recorded(x) and not self.encoding.parameters()

    def _reserve(self, x: Tensor, stop: int, count: int) -> tuple[Tensor, ...] | None:
        """Return tables with the positions below `stop`, after growing in proportion; None if that would waste memory.

        Tables double, or follow a call that fills at least half of them; a lone far position is not worth a table. The
        tables are read once, as other threads may replace them: all are right, but they may differ in length.
        """
        tables = self._select_tables(self.arrays)
        rows = _num_rows(tables)
        if stop <= rows:
            return tables
        if stop > self.encoding.limit:
            raise ValueError(f"`positions` of {self.encoding} end at {self.encoding.limit - 1}, got {stop - 1}.")
        if self.backend.is_recorded(x):
            raise ValueError(past_tables(rows, stop))
        if stop > min(2 * max(rows, count), self.encoding.max_table_len):
            return None
        self.set_tables(self.encoding.constants(max(stop, 2 * rows)))
        tables = self.tables
        return tables if stop <= _num_rows(tables) else None

    def _check_rows(self, stop: int) -> None:
        """Raise if positions below `stop` lie past tables that do not expand."""
        rows = _num_rows(self.tables)
        if stop > rows:
            raise ValueError(past_tables(rows, stop, "of a layer with `auto_expand=False`"))

    def warn_past_limit(self, x: Tensor, last: float, encoding: Any) -> None:
        """Warn, or raise where code is traced, of a position that the encoding is not for."""

    def traced_positions(self, x: Tensor, start: Given, positions: Given, seq_axis: int = -2) -> Tensor:
        """Return the positions of the tokens in `x` as an array of the framework, for rows that are computed there."""
        sequence = sequence_axis(x, seq_axis)
        length, batch = shape_of(x)[sequence], batch_size(x, sequence)
        if positions is None:
            return self.positions("positions", None, length, start, batch)
        axes = self.encoding.num_axes
        if not is_real(positions):
            return self.to_backend(parse_positions("positions", positions, (batch, length), axes, self.backend))
        one_axis = positions
        if axes > 1 and len(positions.shape) > 1:
            check_axes(positions, axes)
            one_axis = positions[0, ...]
        check_positions("positions", one_axis, (length,), batch)
        if not self.backend.is_unread(positions):
            from_array(self.backend.to_numpy(positions))
        return positions

    def rows_at(
        self, positions: Given, dtype: Any, look_up: Callable[[Tensor, int, Given], tuple[Tensor, ...]]
    ) -> tuple[Tensor, ...]:
        """Return rows of positions in a dtype, on the device of the positions.

        Args:
            positions: `(length,)` or `(batch, length)`, with the axes of a position before.
            dtype: `"float32"`, `"float16"`, `"bfloat16"`, `"float64"`, or the framework's dtype of that name.
            look_up: returns rows of given tokens, a start and positions.
        """
        wanted = self._floating(dtype)
        tokens, xp = self._as_tokens(positions), self.backend.namespace
        if self.backend.is_float64(tokens) != ("float64" in str(wanted)):  # tables have the precision of tokens
            tokens = xp.astype(tokens, wanted if "float64" in str(wanted) else xp.float32)
        rows = look_up(tokens, 0, positions)
        return tuple([row if row.dtype == wanted else namespace_of(row).astype(row, wanted) for row in rows])

    def rows_of_any_shape(
        self, positions: Given, dtype: Any, look_up: Callable[[Tensor, int, Given], tuple[Tensor, ...]]
    ) -> Tensor:
        """Return the first rows of `rows_at` for positions of any shape: `(...) -> (..., columns)`."""
        is_array = isinstance(positions, self.backend.array_types)
        given: Any = positions if is_array else host_values(positions, self.backend)
        lead = 1 if self.encoding.num_axes > 1 and len(given.shape) > 1 else 0
        sizes = shape_of(given)
        flat = namespace_of(given).reshape(given, (*sizes[:lead], -1))
        row = self.rows_at(flat, dtype, look_up)[0]
        *heads, _, columns = shape_of(row)
        return namespace_of(row).reshape(row, (*heads, *sizes[lead:], columns))

    def _floating(self, dtype: Any) -> Tensor:
        """Return the framework's dtype of this name."""
        name = dtype if isinstance(dtype, str) else name_of_dtype(dtype)
        check_known("dtype", name, DTYPES)
        found = getattr(self.backend.namespace, name, None)
        if found is None:
            raise ValueError(f"`dtype` must be one that the framework has, got {name!r}; use 'float32'.")
        return found

    def _as_tokens(self, positions: Given) -> Tensor:
        """Return an array of the framework on the device of the positions, and of their sizes: `(..., length, 1)`."""
        x, axes = positions, self.encoding.num_axes
        if not isinstance(x, self.backend.array_types):
            host: Any = host_values(x, self.backend)
            x = self.backend.from_numpy(np.zeros(host.shape, np.int32), like=self._any_array)
        check_rank("positions", x, minimum=1, maximum=2 + (axes > 1), axes="(length,) or (batch, length)")
        if axes > 1 and len(x.shape) > 1:
            check_axes(x, axes)
            x = x[0, ...]
        return self.prepare(namespace_of(x).expand_dims(x, axis=-1), None)

    def _with_gradient(
        self, rows: tuple[Tensor, ...], positions: Given, host: Host, encoding: Tabular
    ) -> tuple[Tensor, ...]:
        """Return rows through which the gradient reaches their real positions, if these have one."""
        if self.backend.stop_gradient(positions) is positions:
            return rows
        derivatives, speeds = encoding.derivatives(from_array(host)).values(), encoding.angular_frequencies()[None]
        pairs = zip(rows, derivatives, strict=False)  # rows that are not smooth have no derivatives
        return tuple([self.follow_positions(row, [positions], own[None], speeds) for row, own in pairs]) or rows

    def follow_positions(self, row: Tensor, positions: list[Any], derivatives: Host, speeds: Host) -> Tensor:
        """Return rows of the same numbers, whose derivatives of all orders with respect to the positions are right.

        The rows R of an angle that moves by the distance a, its own derivative being P, are R·cos(a) + P·sin(a). All
        distances are 0 here; the first derivative is the one given, to its last bit.

        Args:
            row: `(..., length, columns)`.
            positions: those on each axis, `(..., length)`.
            derivatives: with respect to each of them, `(axes, ..., length, columns)`.
            speeds: radians per position, `(axes, columns)`; 0 where a derivative is constant.
        """
        dtype = np.float64 if self.backend.is_float64(row) else np.float32
        zeros = [self._zero(given, row) for given in positions]
        moved = row + sum(
            zero * self.to_backend(own.astype(dtype)) for zero, own in zip(zeros, derivatives, strict=True)
        )
        if not speeds.any():
            return moved
        xp = namespace_of(row)
        angle = sum(zero * self.to_backend(own.astype(dtype)) for zero, own in zip(zeros, speeds, strict=True))
        by_angle = self.to_backend(_by_angle(derivatives, speeds).astype(dtype))
        return moved + row * (xp.cos(angle) - 1) + by_angle * (xp.sin(angle) - angle)

    def _zero(self, positions: Given, row: Tensor) -> Tensor:
        """Return 0 for each position, through which its gradient flows, in the dtype of `row`."""
        xp = namespace_of(positions)
        return xp.expand_dims(xp.astype(positions - self.backend.stop_gradient(positions), row.dtype), axis=-1)


def check_auto_expand(given: object, encoding: Any) -> bool:
    """Return whether tables expand; raise for False if there are none."""
    if not check_flag("auto_expand", given) and (encoding.computes_rows or getattr(encoding, "mixes_axes", False)):
        raise ValueError(f"`auto_expand` must be True for {shown(encoding)}, which has no tables, got False.")
    return bool(given)


def _num_rows(tables: tuple[Tensor, ...]) -> int:
    return min([int(table.shape[0]) for table in tables])


def _by_angle(derivatives: Host, speeds: Host) -> Host:
    """Return the derivative of rows with respect to their angle; those of all axes are multiples of it."""
    along = sum(own * np.sign(speed) for own, speed in zip(derivatives, speeds, strict=True))
    speed = np.abs(speeds).sum(axis=0)
    return np.divide(along, speed, out=np.zeros_like(along, np.float64), where=speed > 0)


def _take_rows(shape: tuple[int, ...], positions: Array, *tables: Array) -> tuple[Array, ...]:
    """Return `table[positions]` of each table; positions of this shape lie in one axis."""
    xp = namespace_of(positions)
    taken = [xp.take(table, positions, axis=0) for table in tables]
    return tuple([rows if len(shape) == 1 else xp.reshape(rows, (*shape, *rows.shape[1:])) for rows in taken])


def _take(positions: Array, *tables: Array) -> tuple[Array, ...]:
    """Return `table[positions]` of each table: `(rows, columns) x (..., length) -> (..., length, columns)`."""
    take = namespace_of(positions).take if len(positions.shape) == 1 else take_nd
    return tuple([take(table, positions, axis=0) for table in tables])


def _take_or_nan(positions: Array, *tables: Array) -> tuple[Array, ...]:
    """Return `table[positions]` of positions that are not checked: NaN for rows that the tables do not have."""
    if not tables:
        return ()
    xp = namespace_of(positions)
    sizes = [shape_of(table)[0] for table in tables]  # one, but where another thread replaces the tables meanwhile
    size = min(sizes) if all(map(is_static, sizes)) else sizes[0]
    zero, last = xp.zeros_like(positions), xp.full_like(positions, size - 1)
    inside = xp.expand_dims((positions >= zero) & (positions <= last), axis=-1)
    taken = _take(xp.maximum(xp.minimum(positions, last), zero), *tables)
    return tuple([xp.where(inside, rows, xp.full_like(rows, float("nan"))) for rows in taken])
