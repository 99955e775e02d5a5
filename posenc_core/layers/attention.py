"""What `MultiHeadAttention` does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._arrays import namespace_of, shape_of
from .._checks import check_broadcasts, check_floating, check_integer, check_rank, check_width, known
from ..attention import attend, merge_heads, split_heads
from ..encodings import Encoding, Rotary, Scoring, XPos
from ..holder import Room, host_values, whole
from ..masks import valid_lengths
from ..positions import counted
from .bias import Bias

Function = Callable[..., Any]


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
            q, k = self.turned(q, k, self.rotary)
        bias = None if self.scoring is None else self.scoring.between(shape_of(q)[2], shape_of(k)[2])
        mask = None if valid_lens is None else self.visible(valid_lens, q, k)
        if keys_mask is not None:
            spread = namespace_of(q).expand_dims(namespace_of(q).expand_dims(keys_mask, axis=1), axis=1)
            mask = spread if mask is None else mask & spread
        return self.W_o(merge_heads(attend(q, k, v, bias=bias, mask=mask, dropout=dropout)))

    def turned(self, q: Any, k: Any, rotary: Any) -> tuple[Any, Any]:
        """Queries and keys, `(batch, heads, length, head_dim)`, rotated, by frequencies for the longer of the two."""
        lengths, longest = (shape_of(q)[2], shape_of(k)[2]), rotary.encoding.longest
        beyond = longest is not None and all(map(known, lengths)) and max(lengths) > longest
        told = {"seq_len": max(lengths)} if beyond else {}
        if isinstance(rotary.encoding, XPos):
            return rotary(q, **told), rotary(k, k, **told)[1]
        return rotary(q, **told), rotary(k, **told)

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
