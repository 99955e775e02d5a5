"""What `RotaryEmbedding` does."""

from __future__ import annotations

import warnings
from typing import Any

from .._array_api.checks import check_floating, check_rank, check_width
from .._array_api.kernels import kernel_for
from .._array_api.namespace import A, aligned
from ..encodings import AxialRotary, Encoding, LearnedRotary, RotaryEncoding
from ..rotation import rotate_checked, rotate_pairs
from .base import past_frequencies
from .tables import TableLookup


class Rotation(TableLookup):
    """What `RotaryEmbedding` does."""

    encoding: RotaryEncoding

    def rotated(
        self,
        q: A,
        k: A | None = None,
        start: Any = 0,
        positions: Any = None,
        seq_axis: int = -2,
        seq_len: int | None = None,
    ) -> A | tuple[A, A]:
        """`q`, or `q` and `k`, turned by the angles of their positions."""
        if positions is None and seq_len is None:
            turned = self._turned_at_once(q, k, start, seq_axis)
            if turned is not None:
                return turned
        tables = self.looked_up(q, k, start, positions, seq_axis, seq_len)
        turned_q = self.turned_by(q, tables[:2], seq_axis)
        return turned_q if k is None else (turned_q, self.turned_by(k, tables[-2:], seq_axis))

    def looked_up(
        self,
        q: Any,
        k: Any = None,
        start: Any = 0,
        positions: Any = None,
        seq_axis: int = -2,
        seq_len: int | None = None,
    ) -> tuple[Any, ...]:
        """The rows of the tokens in `q`, once it is clear that they fit it and `k`."""
        self._check("q", q)
        if k is not None:
            self._check("k", k)
            if k.shape[seq_axis] != q.shape[seq_axis]:
                raise ValueError(
                    f"`k` must be as long as `q`, got {k.shape[seq_axis]} and {q.shape[seq_axis]}; "
                    "rotate them in two calls, each with its own `start`."
                )
        self.check_start(positions)
        encoding = self.encoding.at(seq_len)
        if isinstance(encoding, LearnedRotary):
            if encoding is not self.encoding and encoding != self.encoding:
                raise ValueError(f"`seq_len` {seq_len} asks for other frequencies than are learned; use {encoding!r}.")
            return encoding.rows_of(self.held, self.positions_of(q, start, positions, seq_axis))
        if positions is None:
            return self.rows(q, seq_axis=seq_axis, start=start, encoding=encoding)
        return self.rows_by_axis(q, positions, seq_axis=seq_axis, encoding=encoding)

    def _turned_at_once(self, q: Any, k: Any, start: Any, seq_axis: int) -> Any:
        """What the call that decoders make most returns, of which all is known that the others are asked; else None."""
        arange_like = type(start) is int and start >= 0 and seq_axis == -2 and self._counts
        kernel = kernel_for(q) if arange_like else None
        if kernel is None:
            return None
        tables, sizes = self.tables, q.shape
        if len(sizes) < 2 or sizes[-2] is None or sizes[-1] != self.encoding.head_dim or type(tables[0]) is not type(q):
            return None
        if k is not None and (type(k) is not type(q) or k.dtype != q.dtype or not _as_long(k.shape, sizes)):
            return None
        stop = start + sizes[-2]
        if min(table.shape[0] for table in tables) < stop:
            return None
        rows = [table[start:stop] for table in tables]
        turned_q = kernel.rotate(q, rows[0], rows[1], self.encoding.pairing)
        if k is None or turned_q is None:
            return turned_q
        turned_k = kernel.rotate(k, rows[-2], rows[-1], self.encoding.pairing) if kernel.supports(k) else None
        return None if turned_k is None else (turned_q, turned_k)

    @property
    def _counts(self) -> bool:
        """Whether tokens are turned by where they are counted to stand, whatever the length."""
        encoding = self.encoding
        return encoding.max_seq_len is None and not isinstance(encoding, (AxialRotary, LearnedRotary))

    def _check(self, name: str, x: Any) -> None:
        self.check_array(name, x)
        check_rank(name, x, minimum=2, axes="(..., length, head_dim)")
        check_width(name, x, self.encoding.head_dim)
        check_floating(name, x)

    def check_start(self, positions: Any) -> None:
        """Raise if positions can be no count from a start and are not given."""
        axes, on_a_grid = self.encoding.num_axes, isinstance(self.encoding, AxialRotary)
        if on_a_grid and positions is None:
            raise ValueError(f"`positions` must be given to {self.encoding!r}: ({axes}, length), as `grid` makes them.")

    def turned_by(self, x: A, tables: tuple[Any, ...], seq_axis: int) -> A:
        """`x`, turned by rows of tables; a room may have an operator for it."""
        if seq_axis == -2 and len(tables[0].shape) == 2:  # which fit all tokens of that length
            return rotate_checked(x, tables[0], tables[1], self.encoding.pairing)
        cos, sin = (aligned(table, x, seq_axis=seq_axis) for table in tables)
        return rotate_pairs(x, cos, sin, pairing=self.encoding.pairing)

    def reached(self, x: Any, last: float, encoding: Any) -> None:
        if encoding.max_seq_len is None or last < encoding.max_seq_len:
            return
        if self.is_recorded(x):
            raise ValueError(past_frequencies(encoding, last))
        warnings.warn(
            f"Position {last} lies past the {encoding.max_seq_len} that these frequencies of {encoding!r} are for; "
            "give `seq_len`, the length of the whole sequence.",
            stacklevel=2,
        )


def _as_long(shape: Any, other: Any) -> bool:
    return shape == other or shape[-2:] == other[-2:]


def check_rotary(encoding: Encoding) -> None:
    """Raise unless it is a rotary encoding."""
    if not isinstance(encoding, RotaryEncoding):
        raise TypeError(f"`encoding` must be a rotary encoding, got {encoding!r}.")
