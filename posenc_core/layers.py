"""Layers: what the public layers of every room do, so that a room only adds its framework's shell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ._arrays import A, aligned, in_float32, namespace_of, shape_of
from ._checks import (
    check_broadcasts,
    check_floating,
    check_integer,
    check_known,
    check_number,
    check_rank,
    check_width,
    known,
)
from .addition import COMBINES, Combine, combine
from .attention import attend, merge_heads, split_heads
from .encodings import Additive, Encoding, Rotary, Scoring, Sinusoidal
from .lookup import Holder, Room, TableLookup, check_stated, host_values, stated_start, whole
from .masks import valid_lengths
from .positions import counted, counted_from, from_array, sequence
from .rotation import rotate

Function = Callable[[Any], Any]


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


class Rotation(TableLookup):
    """What `RotaryEmbedding` does."""

    encoding: Rotary

    def rotated(self, q: A, k: A | None, start: Any, positions: Any, seq_axis: int) -> A | tuple[A, A]:
        """`q`, or `q` and `k`, turned by the angles of their positions."""
        tables = self.looked_up(q, k, start, positions, seq_axis)
        turned = self._turned(q, tables, seq_axis)
        return turned if k is None else (turned, self._turned(k, tables, seq_axis))

    def looked_up(
        self, q: Any, k: Any = None, start: Any = 0, positions: Any = None, seq_axis: int = -2
    ) -> tuple[Any, ...]:
        """The rows of the tokens in `q`, once it is clear that they fit it and `k`."""
        self._check("q", q)
        tables = self.rows(q, seq_axis=seq_axis, start=start, positions=positions)
        if k is None:
            return tables
        self._check("k", k)
        if k.shape[seq_axis] != q.shape[seq_axis]:
            raise ValueError(
                f"`k` must be as long as `q`, got {k.shape[seq_axis]} and {q.shape[seq_axis]}; "
                "rotate them in two calls, each with its own `start`."
            )
        return tables

    def _check(self, name: str, x: Any) -> None:
        self.check_array(name, x)
        check_rank(name, x, minimum=2, axes="(..., length, head_dim)")
        check_width(name, x, self.encoding.head_dim)
        check_floating(name, x)

    def _turned(self, x: A, tables: tuple[Any, ...], seq_axis: int) -> A:
        cos, sin = (aligned(table, x, seq_axis=seq_axis) for table in tables)
        return rotate(x, cos, sin, layout=self.encoding.layout)


class Bias(Holder):
    """What `AttentionBias` does."""

    encoding: Scoring

    def biased(self, scores: A, start: Any, query_positions: Any, key_positions: Any) -> A:
        """`scores` plus the bias of their positions."""
        self.check(scores)
        *_, queries, keys = sizes = shape_of(scores)
        batch = sizes[0] if len(sizes) > 3 else None
        at_queries = self._positions("query_positions", query_positions, queries, start, batch)
        at_keys = self._positions("key_positions", key_positions, keys, 0, batch)
        return in_float32(lambda wide, added: wide + added, scores, self.encoding.score(self.held, at_queries, at_keys))

    def check(self, scores: Any) -> None:
        """Raise unless `scores` are scores of as many heads as the encoding has."""
        self.check_array("scores", scores)
        check_rank("scores", scores, minimum=3, maximum=4, axes="(heads, queries, keys), with a batch or without")
        check_floating("scores", scores)
        if known(scores.shape[-3]) and scores.shape[-3] != self.encoding.num_heads:
            raise ValueError(f"`scores` must have {self.encoding.num_heads} heads, got shape {tuple(scores.shape)}.")

    def between(self, queries: int, keys: int) -> Any:
        """The bias of the first queries and keys, `(heads, queries, keys)`."""
        at_queries, at_keys = (self._positions("", None, length, 0, None) for length in (queries, keys))
        return self.encoding.score(self.held, at_queries, at_keys)

    def _positions(self, name: str, given: Any, length: Any, start: Any, batch: Any) -> Any:
        """The positions given, checked; or `length` of them from `start` on, or from each start on."""
        if given is not None:
            host = host_values(given, self.room)
            check_stated(name, given if host is None else host, (length,), batch)
            return given if host is None else self.native(whole(from_array(host)))
        start = stated_start(start, batch, self.room)
        if isinstance(start, int):
            if known(length):
                sequence(length, start=start)  # raises past 2**31
            return counted(length, like=next(iter(self.held.values()))) + start
        return counted_from(self.native(start), length)


class Attention:
    """What `MultiHeadAttention` does, between its projections `W_q`, `W_k`, `W_v` and `W_o`."""

    room: Room
    num_hiddens: int
    num_heads: int
    W_q: Function
    W_k: Function
    W_v: Function
    W_o: Function
    rotary: Function | None
    scoring: Bias | None

    def attended(
        self, queries: Any, keys: Any, values: Any, valid_lens: Any, dropout: Function, keys_mask: Any = None
    ) -> Any:
        """Multi-head attention, `(batch, queries, num_hiddens)`; `keys_mask` is True for keys that count, `(batch, keys)`."""
        self.check(queries, keys, values)
        q = split_heads(self.W_q(queries), self.num_heads)  # (batch, heads, queries, head_dim)
        k = split_heads(self.W_k(keys), self.num_heads)
        v = split_heads(self.W_v(values), self.num_heads)
        if self.rotary is not None:
            q, k = self.rotary(q), self.rotary(k)
        bias = None if self.scoring is None else self.scoring.between(shape_of(q)[2], shape_of(k)[2])
        mask = None if valid_lens is None else self.visible(valid_lens, q, k)
        if keys_mask is not None:
            spread = namespace_of(q).expand_dims(namespace_of(q).expand_dims(keys_mask, axis=1), axis=1)
            mask = spread if mask is None else mask & spread
        return self.W_o(merge_heads(attend(q, k, v, bias=bias, mask=mask, dropout=dropout)))

    def check(self, queries: Any, keys: Any, values: Any) -> None:
        """Raise unless all are tokens of one batch, and there is a value for every key."""
        for name, tokens in (("queries", queries), ("keys", keys), ("values", values)):
            check_rank(name, tokens, minimum=3, maximum=3, axes="(batch, length, num_hiddens)")
            check_floating(name, tokens)
            check_width(name, tokens, self.num_hiddens)
            check_broadcasts(name, tokens, (shape_of(queries)[0], *shape_of(tokens)[1:]))
        if known(keys.shape[1]) and known(values.shape[1]) and keys.shape[1] != values.shape[1]:
            raise ValueError(f"`values` must be as long as `keys`, got {values.shape[1]} and {keys.shape[1]}.")

    def visible(self, valid_lens: Any, q: Any, k: Any) -> Any:
        """The mask of `valid_lens`, `(batch,)` or `(batch, queries)`, on scores `(batch, heads, queries, keys)`."""
        (batch, _, queries, _), keys = shape_of(q), shape_of(k)[2]
        host = host_values(valid_lens, self.room)
        lengths = valid_lens if host is None else self.room.from_numpy(host, like=q)
        check_valid_lens(shape_of(lengths), host, (batch, queries, keys))
        return valid_lengths(lengths, counted(keys, like=q))


def check_valid_lens(shape: tuple[Any, ...], values: Any, sizes: tuple[Any, ...]) -> None:
    """Raise unless lengths of this shape and these values (None: unknown) fit `(batch, queries, keys)`."""
    batch, queries, keys = sizes
    if all(map(known, (*shape, *sizes))) and shape not in ((batch,), (batch, queries)):
        raise ValueError(f"`valid_lens` must have shape ({batch},) or ({batch}, {queries}), got {shape}.")
    if values is None:
        return
    if whole(values).dtype.kind != "i":
        raise TypeError(f"`valid_lens` must be integers, got {values.dtype}: {values.ravel()[:3]} …")
    if known(keys) and values.size and not 0 <= values.min() <= values.max() <= keys:
        wrong = values.max() if values.max() > keys else values.min()
        raise ValueError(f"`valid_lens` must lie from 0 to the number of keys {keys}, got {wrong}.")


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


def check_kind(encoding: Encoding, kind: type) -> None:
    """Raise unless the encoding is of the kind that the layer is for."""
    if not isinstance(encoding, kind):
        raise TypeError(f"`encoding` must be a {kind.__name__}, got {encoding!r}.")


def check_dropout(dropout: float) -> None:
    """Raise unless `dropout` is a probability below 1."""
    check_number("dropout", dropout)
    if not 0 <= dropout < 1:
        raise ValueError(f"`dropout` must be from 0 up to but not including 1, got {dropout!r}.")


def check_attention(num_hiddens: int, num_heads: int, position: Encoding | None) -> None:
    """Raise unless the hidden units divide into heads and the encoding of positions fits them."""
    check_integer("num_hiddens", num_hiddens)
    check_integer("num_heads", num_heads)
    if num_hiddens % num_heads:
        raise ValueError(f"`num_hiddens` must be a multiple of `num_heads` {num_heads}, got {num_hiddens}.")
    head_dim = num_hiddens // num_heads
    if isinstance(position, Rotary) and position.head_dim != head_dim:
        raise ValueError(f"`position` must have `head_dim` {head_dim}, num_hiddens / num_heads, got {position!r}.")
    if isinstance(position, Scoring) and position.num_heads != num_heads:
        raise ValueError(f"`position` must have `num_heads` {num_heads}, got {position!r}.")
    if not isinstance(position, Rotary | Scoring | None):
        raise TypeError(f"`position` must be a rotary or scoring encoding or None, got {position!r}.")
