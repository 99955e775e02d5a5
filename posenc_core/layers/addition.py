"""What `PositionalEncoding` does."""

from __future__ import annotations

from typing import Any

from .._arrays import A
from .._checks import check_floating, check_integer, check_known, check_number, check_rank, check_width
from ..addition import COMBINES, Combine, combine
from ..encodings import Additive, Encoding, Sinusoidal
from ..lookup import TableLookup


class Addition(TableLookup):
    """What `PositionalEncoding` does."""

    encoding: Additive
    combine: Combine

    def added(self, x: A, start: Any, positions: Any) -> A:
        """`x` with the rows of its positions."""
        return combine(x, self.looked_up(x, start, positions), how=self.combine)

    def looked_up(self, x: Any, start: Any = 0, positions: Any = None) -> Any:
        """The rows of the tokens in `x`, once it is clear that they fit."""
        self.check_array("x", x)
        check_rank("x", x, minimum=2, axes="(..., length, width)")
        check_floating("x", x)
        if self.combine == "add":
            check_width("x", x, self.encoding.dim)
        (rows,) = self.rows(x, start=start, positions=positions)
        return rows


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
