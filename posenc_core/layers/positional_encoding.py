"""What `PositionalEncoding` does."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._array_api.checks import check_floating, check_integer, check_known, check_number, check_rank, check_width
from .._array_api.kernels import kernel_for
from .._array_api.namespace import A, shape_of
from ..addition import COMBINES, Combine, combine
from ..encodings import Additive, Encoding, LearnedSinusoidal, Sinusoidal
from ..positions.sequences import from_array
from .base import batch_of, check_stated, is_real
from .tables import TableLookup, check_axes


class Addition(TableLookup):
    """What `PositionalEncoding` does."""

    encoding: Additive
    combine: Combine

    def added(self, x: A, start: Any, positions: Any) -> A:
        """`x` with the rows of its positions."""
        rows = self._rows_at_once(x, start) if positions is None and self.combine == "add" else None
        return combine(x, self.looked_up(x, start, positions), how=self.combine) if rows is None else x + rows

    def _rows_at_once(self, x: Any, start: Any) -> Any:
        """The rows of the call that models make most, of which all is known that the others are asked; else None."""
        arange_like = type(start) is int and start >= 0 and self.encoding.num_axes == 1
        kernel = kernel_for(x) if arange_like else None
        tables = () if kernel is None else self.tables
        if kernel is None or len(tables) != 1:
            return None
        (table,), sizes = tables, x.shape
        if type(table) is not type(x) or table.dtype != x.dtype or not kernel.supports(table):
            return None
        if len(sizes) < 2 or sizes[-2] is None or sizes[-1] != table.shape[-1] or start + sizes[-2] > table.shape[0]:
            return None
        return table[start : start + sizes[-2]]

    def looked_up(self, x: Any, start: Any = 0, positions: Any = None) -> Any:
        """The rows of the tokens in `x`, once it is clear that they fit."""
        self.check_array("x", x)
        check_rank("x", x, minimum=2, axes="(..., length, width)")
        check_floating("x", x)
        if self.combine == "add":
            check_width("x", x, self.encoding.dim)
        self.check_start(positions)
        (rows,) = self._rows(x, start, positions)
        return rows

    def check_start(self, positions: Any) -> None:
        """Raise if positions can be no count from a start and are not given."""
        axes = self.encoding.num_axes
        if axes > 1 and positions is None:
            raise ValueError(f"`positions` must be given to {self.encoding!r}: ({axes}, length), as `grid` makes them.")

    @property
    def held_table(self) -> Any:
        """The rows held, `(positions, dim)`."""
        if not self.tables:
            raise TypeError(
                f"`P` is a table, and a layer of {self.encoding!r} holds none: it computes what it is asked for."
            )
        return self.tables[0]

    def _rows(self, x: Any, start: Any, positions: Any) -> tuple[Any, ...]:
        if isinstance(self.encoding, LearnedSinusoidal):
            return self.encoding.rows_of(self.held, self.positions_of(x, start, positions))
        if positions is None:
            return self.rows(x, start=start)
        return self._mixed_rows(x, positions) if self.encoding.mixes_axes else self.rows_by_axis(x, positions)

    def _mixed_rows(self, x: Any, positions: Any) -> tuple[Any, ...]:
        """Rows whose columns change with all axes at once; no table can have them."""
        length, batch, axes = shape_of(x)[-2], batch_of(x, len(x.shape) - 2), self.encoding.num_axes
        given = positions if hasattr(positions, "shape") else np.asarray(positions)
        check_axes(given, axes)
        each = [given[axis, ...] for axis in range(axes)]
        check_stated("positions", each[0], (length,), batch)
        if not isinstance(given, np.ndarray) and self.backend.is_traced(given):
            return self.computed_there(self.encoding, *each)
        host = from_array(given if isinstance(given, np.ndarray) else self.backend.to_numpy(given))
        rows = self.to_backend(self.exact_rows(host, self.encoding)["table"])
        if is_real(given) and self.backend.stop_gradient(given) is not given:
            rows = self.followed(
                rows, each, self.encoding.derivatives(host)["table"], self.encoding.angular_frequencies()
            )
        return (rows,)


def additive_for(num_hiddens: int, encoding: Encoding | None, combine: str) -> Additive:
    """The encoding of a `PositionalEncoding`: the one given, if it fits, or else the paper's."""
    check_integer("num_hiddens", num_hiddens)
    check_known("combine", combine, COMBINES)
    if encoding is None:
        return Sinusoidal(dim=num_hiddens)
    if not isinstance(encoding, Additive):
        raise TypeError(f"`encoding` must be an additive encoding, got {encoding!r}.")
    if encoding.dim != num_hiddens:
        raise ValueError(f"`encoding` must have `dim` {num_hiddens}, as `num_hiddens` says, got {encoding!r}.")
    return encoding


def check_dropout(dropout: float) -> None:
    """Raise unless `dropout` is a probability below 1."""
    check_number("dropout", dropout)
    if not 0 <= dropout < 1:
        raise ValueError(f"`dropout` must be from 0 up to but not including 1, got {dropout!r}.")
