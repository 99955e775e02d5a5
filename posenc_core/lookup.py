"""Lookup: from where tokens stand to the rows of the tables that a layer holds.

Every room's layers share it, so that a room only says how its framework makes, reads and traces arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from ._arrays import Array, dtype_name, namespace_of, shape_of
from ._checks import known
from .encodings import Encoding, Tabular
from .encodings.encoding import Tables
from .positions import LIMIT, counted_from, from_array, sequence

Host = npt.NDArray[Any]


class Room(Protocol):
    """What a room tells about its framework's arrays."""

    def from_numpy(self, array: Host, /, *, like: Any = None) -> Any:
        """The framework's array of the same numbers, on the device of `like`."""

    def to_numpy(self, array: Any, /) -> Host:
        """The numbers of the framework's array."""

    def is_traced(self, array: Any, /) -> bool:
        """Whether a tracer stands in for the array, so that its numbers are not known."""


class Holder:
    """A layer that holds the arrays of one encoding; a room says how.

    Attributes:
        room: the room.
        encoding: the encoding.
        held: its constants and parameters, by name.
    """

    room: Room
    encoding: Encoding

    if TYPE_CHECKING:

        @property
        def held(self) -> Mapping[str, Any]: ...

    def hold(self, constants: Tables) -> None:
        """Hold these constants in place of those before."""
        raise NotImplementedError

    def exact_rows(self, positions: Host) -> Tables:
        """Rows by the encoding itself; a room keeps its compiler out of here."""
        return self.encoding.rows(positions)  # type: ignore[attr-defined]

    def check_array(self, name: str, x: Any) -> None:
        """Raise unless `x` is an array of the framework."""
        if not hasattr(x, "shape") or namespace_of(x) is not namespace_of(next(iter(self.held.values()))):
            raise TypeError(f"`{name}` must be an array of the layer's framework, got {type(x).__name__}.")

    def native(self, given: Any) -> Any:
        """A number, a list or an array as an array of the framework."""
        host = host_values(given, self.room)
        return given if host is None else self.room.from_numpy(host, like=next(iter(self.held.values())))


class TableLookup(Holder):
    """A layer whose tables have one row per position."""

    encoding: Tabular

    @property
    def tables(self) -> tuple[Any, ...]:
        """The tables held, each `(positions, columns)`."""
        return tuple(self.held.values())

    def rows(self, x: Any, *, seq_axis: int = -2, start: Any = 0, positions: Any = None) -> tuple[Any, ...]:
        """One array per table with the rows of the tokens in `x`: `(length, columns)` or `(batch, length, columns)`.

        Args:
            x: tokens; the size of `seq_axis` is their number.
            start: the first position, or the first position of each batch row.
            positions: all positions, `(length,)` or `(batch, length)`; then `start` is not used.
        Raises:
            TypeError: if `start` is not whole, or a position no number.
            ValueError: if positions do not fit the tokens, if the encoding has no such position, or if code that is
                being traced goes past the tables. A traced position that they do not hold reads NaN.
        """
        sequence = _sequence_axis(x, seq_axis)
        length, batch = shape_of(x)[sequence], batch_of(x, sequence)
        if positions is not None:
            host = host_values(positions, self.room)
            check_stated("positions", positions if host is None else host, (length,), batch)
            return self._traced_rows(positions) if host is None else self._rows_at(x, host)
        start = stated_start(start, batch, self.room)
        if isinstance(start, int) and isinstance(length, int):
            return self._rows_from(x, start, length)
        if isinstance(start, np.ndarray) and isinstance(length, int):
            return self._rows_at(x, start[..., None] + np.arange(length))
        return self._traced_rows(counted_from(self.native(start), length))

    def _rows_from(self, x: Any, start: int, length: int) -> tuple[Any, ...]:
        if start >= 0 and self._reserve(x, start + length, length):
            return tuple(table[start : start + length, ...] for table in self.tables)
        return self._computed(sequence(length, start=start))

    def _rows_at(self, x: Any, positions: Host) -> tuple[Any, ...]:
        positions = whole(from_array(positions))
        held = positions.dtype.kind == "i" and positions.min(initial=0) >= 0
        if held and self._reserve(x, int(positions.max(initial=-1)) + 1, positions.size):
            indices = self.native(positions.astype(np.int32))
            return tuple(_taken(table, indices) for table in self.tables)
        return self._computed(positions)

    def _computed(self, positions: Host) -> tuple[Any, ...]:
        """Rows for this call alone: exact for any position that the encoding has."""
        return tuple(self.native(rows) for rows in self.exact_rows(positions).values())

    def _traced_rows(self, positions: Any) -> tuple[Any, ...]:
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
        if stop > 2 * max(held, count):
            return False
        self.hold(self.encoding.constants(max(stop, 2 * held)))
        return True


def host_values(given: Any, room: Room) -> Host | None:
    """A number, a list or an array as a NumPy array, or None where only a tracer knows it.

    Raises:
        TypeError: if it is none of these; if a tracer's numbers are no wide integers, which may not be counted on.
    """
    if isinstance(given, (int, float, list, tuple, range, np.ndarray, np.generic)):
        return np.asarray(given)
    if not hasattr(given, "shape"):
        raise TypeError(f"Positions and lengths must be numbers, lists or arrays, got {given!r}.")
    if not room.is_traced(given):
        return room.to_numpy(given)
    if dtype_name(given) not in ("int32", "int64", "None"):
        raise TypeError(f"Traced positions and lengths must be int32 or int64, got {dtype_name(given)}; cast them.")
    return None


def whole(array: Host) -> Host:
    """Integers where all numbers are whole, as some frameworks hold integers in floats; else the array itself."""
    is_whole = array.dtype.kind in "iu" or (array.dtype.kind == "f" and (array == np.rint(array)).all())
    return array.astype(np.int64) if is_whole else array


def stated_start(start: Any, batch: Any, room: Room) -> Any:
    """An int, or integers for each row of the batch: a NumPy array, or a tracer's array.

    Raises:
        TypeError, ValueError: if it is neither.
    """
    if type(start) is not int:
        host = host_values(start, room)
        check_stated("start", start if host is None else host, (), batch)
        if host is None:
            return start
        starts = whole(host)
        if starts.dtype.kind != "i":
            raise TypeError(f"`start` must be an integer, or one for each batch row, got {start!r}.")
        start = starts if starts.ndim else int(starts)
    farthest = abs(start) if type(start) is int else np.abs(start).max(initial=0)
    if farthest >= LIMIT:
        raise ValueError(f"`start` must be below 2**31 in size, got {start!r}.")
    return start


def batch_of(x: Array, sequence: int) -> Any:
    """The size of the first axis of `x` that is neither its sequence nor its last; None where there is none."""
    return shape_of(x)[0 if sequence else 1] if len(x.shape) > 2 else None


def check_stated(name: str, given: Any, tail: tuple[Any, ...], batch: Any) -> None:
    """Raise unless `given` has shape `tail`, or that once for each row of a batch (None: there are no rows)."""
    sizes = given.shape if isinstance(given, np.ndarray) else shape_of(given)
    heads = [()] if batch is None else [(), (1,), (batch,)]
    if not any(_match(sizes, (*head, *tail)) for head in heads):
        wanted = " or ".join(dict.fromkeys(str((*head, *tail)) for head in heads))
        raise ValueError(f"`{name}` must have shape {wanted} to fit the tokens, got {sizes}.")


def _sequence_axis(x: Array, seq_axis: int) -> int:
    rank = len(x.shape)
    if type(seq_axis) is not int:
        raise TypeError(f"`seq_axis` must be an integer, got {seq_axis!r}.")
    if not -rank <= seq_axis < rank or seq_axis % rank == rank - 1:
        raise ValueError(f"`seq_axis` must be an axis of `x` before its last, got {seq_axis} for {rank} axes.")
    return seq_axis % rank


def _match(sizes: tuple[Any, ...], wanted: tuple[Any, ...]) -> bool:
    """Whether the sizes agree, as far as a tracer knows them."""
    pairs = zip(sizes, wanted, strict=False)
    return len(sizes) == len(wanted) and all(a == b for a, b in pairs if known(a) and known(b))


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
