"""Multi-head attention with positional encodings."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._array_api.checks import (
    check_broadcasts,
    check_flag,
    check_floating,
    check_integer,
    check_rank,
    check_type,
    check_width,
    host_array,
    is_static,
    shown,
)
from .._array_api.namespace import Array, namespace_of, shape_of
from ..attention import Position, attend, attention_weights, check_mask, merge_heads, split_heads
from ..attention.masks import all_of, causal, valid_lengths
from ..encodings import Encoding, QueryEncoding
from ..encodings.attention_encoding import AttentionEncoding, QueryKeyEncoding
from ..encodings.placed import AtRows
from ..positions.sequences import arange_like, counted_from
from .attention_bias import AttentionBias
from .base import Documented
from .inputs import as_integers, cached_length, check_valid_lens, end_of, host_values, parse_positions, parse_start
from .positional_encoding import check_dropout
from .rotary_embedding import RotaryEmbedding

if TYPE_CHECKING:
    from .base import called_like


class AttentionOutput(NamedTuple):
    """The result of `MultiHeadAttention` if weights or a cache are requested.

    Attributes:
        result: shape `(batch, queries, num_hiddens)`.
        weights: attention weights before dropout, `(batch, num_heads, queries, keys)`; () if not requested.
        cache: keys (rotated by a rotary encoding, unless it remaps positions) and values of all tokens so far, each of
            shape `(batch, num_kv_heads, length, head_dim)`, keys of `PoPE` twice as wide; () if not requested.
    """

    result: Any
    weights: Any = ()
    cache: Any = ()


class TokenPositions(NamedTuple):
    """Positions of one call; by default queries count from `start`, and keys from 0, cached keys first.

    Attributes:
        sizes: batch, number of queries, number of keys, those of the cache included.
        start: of the queries, an integer, or one for each row.
        cached: the number of keys that are in the cache.
        positions: of the queries, `(queries,)` or `(batch, queries)`, an axis before where an encoding has several; or
            None.
        key_positions: of all keys, likewise; or None.
        axes: the number of axes that a position has.
    """

    sizes: tuple[Any, Any, Any]
    start: Any
    cached: int
    positions: Any
    key_positions: Any
    axes: int

    @property
    def seq_len(self) -> int:
        """The length of the sequence, as far as its numbers are known where code is traced."""
        _, queries, keys = self.sizes
        return max(end_of(self.positions, self.start, queries), end_of(self.key_positions, 0, keys))


class MultiHeadAttention(Documented):
    """Multi-head attention, as in d2l, with an optional rotary or scoring encoding.

    Args:
        num_hiddens: width of queries, keys, values and result.
        num_heads: number of heads; divides `num_hiddens`.
        dropout: probability of dropping an attention weight in training.
        bias: whether the projections `W_q`, `W_k`, `W_v`, `W_o` have a bias.
        position: a rotary or scoring encoding, or a layer with one; blocks with the same layer share its table.
            With one that remaps positions, like `SelfExtend`, calls need `causal=True`.
        num_kv_heads: number of heads of keys and values, if fewer; each serves several neighbouring query heads.
        query_scale: the factor of queries as a function of their position, which multiplies them after any rotation; of
            the terms that `position` adds to scores, those that use queries grow with it.
        max_len: number of positions in the tables of a rotary encoding at the start, as in `RotaryEmbedding`, and of
            `query_scale`; eager calls beyond it grow the tables.
        native: options of the framework's layer, see `Layer` of the backend.
    Raises:
        TypeError: if `position` is neither rotary nor scoring, or a layer of another framework, or `query_scale` is
            neither a `QueryScale` nor a `LearnedQueryScale`.
        ValueError: if `num_heads` does not divide `num_hiddens`, `num_kv_heads` does not divide `num_heads`, or
            `position` or `query_scale` has other sizes than the heads, or `position` several axes with a `query_scale`.

    >>> import numpy as np
    >>> from posenc_backends.numpy import MultiHeadAttention
    >>> tokens = np.ones((2, 4, 100), np.float32)
    >>> MultiHeadAttention(100, 5, 0.5)(tokens, tokens, tokens, np.array([3, 2])).shape
    (2, 4, 100)
    """

    num_hiddens: int
    num_heads: int
    num_kv_heads: int
    position: Any  # Encoding | None
    dropout: Any
    # from the adapter, as in every layer, and: of the native options, those of each part, by its name
    backend: Any
    prepare: Any
    active_dropout: Any
    part_options: Any
    rotary_layer: Any
    scoring_layer: Any
    scaling_layer: Any
    W_q: Any
    W_k: Any
    W_v: Any
    W_o: Any
    rotary: Any
    scoring: Any
    scaling: Any
    query_scale: Any

    def __init__(  # noqa: PLR0913 - all that can be said of a layer
        self,
        num_hiddens: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = False,
        *,
        position: Any = None,
        num_kv_heads: int | None = None,
        max_len: int | None = None,
        query_scale: QueryEncoding | None = None,
        **native: Any,
    ) -> None:
        super().__init__(**native)  # of the adapter's module
        shared = position if isinstance(position, RotaryEmbedding | AttentionBias) else None
        if shared is not None and type(shared.backend) is not type(self.backend):
            raise TypeError(
                f"`position` must be a layer of the framework that attends, got {shown(position)} of another; "
                "give its `encoding`."
            )
        if shared is not None:
            self.backend.check_shared(shared)
        encoding = position if shared is None else shared.encoding
        num_hiddens, num_heads, self.num_kv_heads = check_attention(num_hiddens, num_heads, encoding, num_kv_heads)
        check_dropout(dropout)
        bias = check_flag("bias", bias)
        self.num_hiddens, self.num_heads, self.position = num_hiddens, num_heads, encoding
        narrow = self.num_kv_heads * num_hiddens // num_heads
        parts = self.part_options(**native)
        for name, out in (("W_q", num_hiddens), ("W_k", narrow), ("W_v", narrow), ("W_o", num_hiddens)):
            setattr(self, name, self.backend.linear(num_hiddens, out, bias, **parts.get(name, {})))
        self.dropout = self.backend.dropout(dropout)
        rotary = scoring = None
        if shared is not None:  # it may be an empty container, which is false
            rotary, scoring = (None, shared) if encoding.adds_scores else (shared, None)
        elif encoding is not None and encoding.adds_scores:
            scoring = self.scoring_layer(encoding, **parts.get("scoring", {}))
        elif encoding is not None:
            rotary = self.rotary_layer(encoding, max_len=max_len, **parts.get("rotary", {}))
        self.rotary, self.scoring, scaling = rotary, scoring, None
        if query_scale is not None:
            check_query_scale(query_scale, encoding, num_heads)
            rows = getattr(encoding, "longest", None) if max_len is None else max_len
            scaling = self.scaling_layer(query_scale, max_len=rows, **parts.get("rotary", {}))
        self.query_scale, self.scaling = query_scale, scaling

    def attend(  # noqa: PLR0913 - all that can be said of a call
        self,
        queries: Any,
        keys: Any,
        values: Any,
        valid_lens: Any = None,
        start: Any = 0,
        *,
        positions: Any = None,
        key_positions: Any = None,
        mask: Any = None,
        causal: bool = False,
        cache: Any = None,
        weights: bool = False,
        **native: Any,
    ) -> Any:
        """Return multi-head attention, `(batch, queries, num_hiddens)`.

        Args:
            queries, keys, values: `(batch, length, num_hiddens)`; keys and values have one length.
            valid_lens: the number of valid keys, including cached keys, `(batch,)` or `(batch, queries)`.
            start: the position of the first query, or one for each batch row; with a cache, its number of tokens.
            positions: positions of the queries instead of `start`, `(queries,)` or `(batch, queries)`.
            key_positions: positions of the keys, including cached keys, instead of counting from 0.
            mask: True where a query may attend to a key; broadcasts to `(batch, num_heads, queries, keys)`.
            causal: whether to hide keys with positions after that of the query.
            cache: keys and values of earlier tokens, as returned by the previous call, or `()` for an empty cache.
            weights: whether to return the attention weights.
            native: options of the framework's dropout, such as JAX's `key`.
        Returns:
            An array, or `AttentionOutput` if `weights` or a `cache` is requested.
        Raises:
            TypeError: if tokens are not floating-point arrays, or a position is not a number.
            ValueError: if sizes do not match, or traced code exceeds the tables.
        """
        causal, weights = check_flag("causal", causal), check_flag("weights", weights)
        queries, keys, values = (self.prepare(x, self.num_hiddens) for x in (queries, keys, values))
        self.check_tokens(queries, keys, values)
        with self.backend.call_context(self.W_q):
            q = self._heads("W_q", queries, self.num_heads)  # (batch, heads, queries, head_dim)
            k = self._heads("W_k", keys, self.num_kv_heads)
            v = self._heads("W_v", values, self.num_kv_heads)
            at = self._token_positions(q, k, start, positions, key_positions, cache)
            self.check_order(causal)
            q, k = self._rotate(q, k, at)
            if self.query_scale is not None:
                q = self.scaling(q, start=at.start, positions=at.positions)
            if at.cached:
                k, v = (namespace_of(k).concat([old, new], axis=2) for old, new in zip(cache, (k, v), strict=True))
            position = self._position(q, k, at)
            visible = self._visible(q, at, valid_lens, mask, causal, native.pop("keys_mask", None))
            dropout = self.active_dropout(**native)
            result = self.W_o(merge_heads(attend(q, k, v, position=position, mask=visible, dropout=dropout)))
            if cache is None and not weights:
                return result
            shares = attention_weights(q, k, position=position, mask=visible) if weights else ()
            return AttentionOutput(result, shares, () if cache is None else (k, v))

    if TYPE_CHECKING:

        @called_like(attend)
        def __call__(self, *given: Any, **named: Any) -> Any: ...

    def check_tokens(self, queries: Any, keys: Any, values: Any) -> None:
        """Raise unless all are tokens of one batch, with a value for every key."""
        for name, tokens in (("queries", queries), ("keys", keys), ("values", values)):
            check_floating(name, tokens)
            check_rank(name, tokens, minimum=3, maximum=3, axes="(batch, length, num_hiddens)")
            check_width(name, tokens, self.num_hiddens)
            check_broadcasts(name, tokens, (shape_of(queries)[0], *shape_of(tokens)[1:]))
        if is_static(keys.shape[1]) and is_static(values.shape[1]) and keys.shape[1] != values.shape[1]:
            raise ValueError(f"`values` must be as long as `keys`, got {values.shape[1]} and {keys.shape[1]}.")

    def _heads(self, name: str, tokens: Any, heads: int) -> Any:
        """Return projected tokens by head; a projection that returns one process's share of them is refused."""
        projected = getattr(self, name)(tokens)
        check_width(f"{name}(…)", projected, heads * self.num_hiddens // self.num_heads)
        return split_heads(projected, heads)

    def _token_positions(
        self, q: Any, k: Any, start: Any, positions: Any, key_positions: Any, cache: Any
    ) -> TokenPositions:
        """Return the positions of queries and keys, `(batch, heads, length, head_dim)`; new keys follow the cache."""
        batch, _, queries, _ = shape_of(q)
        start = parse_start(start, batch, self.backend)
        encoding = None if self.rotary is None else self.rotary.encoding
        cached = cached_length(cache, start, k, 1 if encoding is None else encoding.widening)
        keys, axes = shape_of(k)[2] + cached, 1 if encoding is None else encoding.num_axes
        if positions is not None and key_positions is None:
            raise ValueError("`key_positions` must be given with `positions`; those of self-attention are the same.")
        at_queries = parse_positions("positions", positions, (batch, queries), axes, self.backend)
        at_keys = parse_positions("key_positions", key_positions, (batch, keys), axes, self.backend)
        return TokenPositions((batch, queries, keys), start, cached, at_queries, at_keys, axes)

    def _rotate(self, q: Any, k: Any, at: TokenPositions) -> tuple[Any, Any]:
        """Return queries and new keys, `(batch, heads, length, head_dim)`, rotated for the whole sequence length."""
        if self.rotary is None or self.rotary.encoding.needs_attention:
            return q, k
        limit = self.rotary.encoding.max_seq_len
        options = {} if limit is None or at.seq_len <= limit else {"seq_len": at.seq_len}
        new_positions = None if at.key_positions is None else at.key_positions[..., at.cached :]
        of_keys = {"start": at.cached, "positions": new_positions, **options}
        rotated = self.rotary(q, start=at.start, positions=at.positions, **options)
        if self.rotary.encoding.keys_differ:
            return rotated, self.rotary(k, k, **of_keys)[1]
        return rotated, self.rotary(k, **of_keys)

    def check_order(self, is_causal: bool) -> None:
        """Raise if positions are remapped, which hides keys after their query, and the call does not ask for that."""
        if self.rotary is not None and self.rotary.encoding.needs_attention and not is_causal:
            raise ValueError(
                f"`causal` must be True for {shown(self.position)}, which is for causal attention, got False."
            )

    def _position(self, q: Any, k: Any, at: TokenPositions) -> Any:
        """Return the encoding at the positions of queries and all keys, if it acts in attention; else None."""
        batch, length, count = at.sizes
        if self.scoring is not None:
            self.scoring.prepare(q, None)  # its constants may have to follow the tokens to their device
            return self.scoring.at(length, count, batch, at.start, at.positions, at.key_positions)
        if self.rotary is not None and self.rotary.encoding.widening > 1:
            return RotatedTokens(self.rotary.encoding)
        if self.rotary is None or not self.rotary.encoding.needs_attention:
            return None
        layer, encoding = self.rotary, self.rotary.encoding
        layer.prepare(q, None)
        encoding = encoding.at(at.seq_len) if encoding.max_seq_len and at.seq_len > encoding.max_seq_len else encoding
        rows = layer.rows(q, at.start, at.positions, -2, encoding), layer.rows(k, 0, at.key_positions, -2, encoding)
        rotate_by = partial(layer.rotate_by, seq_axis=-2)
        return AtRows(encoding, *rows, {}, rotate_by, *self._arrays_of(at, at.positions, at.key_positions, q))

    def _visible(self, q: Any, at: TokenPositions, valid_lens: Any, mask: Any, is_causal: bool, keys_mask: Any) -> Any:
        """Return one mask of all that hides keys, `(batch, heads, queries, keys)` or broadcasting to that; or None."""
        batch, queries, keys = at.sizes
        masks = []
        if valid_lens is not None:
            host = host_values(valid_lens, self.backend)
            check_valid_lens(shape_of(valid_lens) if host is None else host.shape, host, at.sizes)
            lengths = valid_lens if host is None else self.backend.from_numpy(as_integers(host), like=q)
            masks.append(valid_lengths(lengths, arange_like(keys, like=q)))
        if is_causal:
            masks.append(self._causal(at, q))
        if mask is not None:
            mask = host_array("mask", mask) if isinstance(mask, (list, tuple)) else mask
            check_mask(mask, (batch, self.num_heads, queries, keys))
            masks.append(self._like("mask", mask, q))
        if keys_mask is not None and not (at.cached and mask is not None):
            if at.cached:
                raise ValueError(
                    "`mask` must say which keys count, those of the `cache` included, got that of new tokens alone."
                )
            check_broadcasts("keys_mask", keys_mask, (batch, keys))
            xp = namespace_of(q)
            masks.append(xp.expand_dims(xp.expand_dims(keys_mask, axis=1), axis=1))
        return all_of(*masks) if masks else None

    def _causal(self, at: TokenPositions, q: Any) -> Array:
        """Return a mask without keys after a query; in the order of the sequence where positions are points."""
        given = [x for x in (at.positions, at.key_positions) if x is not None]
        are_points = at.axes > 1 and any(len(x.shape) > 1 for x in given)
        positions, key_positions = (None, None) if are_points else (at.positions, at.key_positions)
        return causal(*self._arrays_of(at, positions, key_positions, q))

    def _arrays_of(self, at: TokenPositions, positions: Any, key_positions: Any, q: Any) -> tuple[Array, Array]:
        """Return the positions of queries and keys as arrays of the framework; counted where they are None."""
        _, queries, keys = at.sizes
        if positions is not None:
            at_queries = self._like("positions", positions, q)
        elif type(at.start) is int:
            at_queries = arange_like(queries, like=q) + at.start
        else:
            at_queries = counted_from(self._like("start", at.start, q), queries)
        at_keys = arange_like(keys, like=q) if key_positions is None else self._like("key_positions", key_positions, q)
        return at_queries, at_keys

    def _like(self, name: str, given: Any, q: Any) -> Any:
        """Return a list or a NumPy array as an array of the framework; others as they are."""
        is_host = isinstance(given, (list, tuple, np.ndarray, np.generic))
        return self.backend.from_numpy(host_array(name, given), like=q) if is_host else given


@dataclass(frozen=True)
class RotatedTokens(Position):
    """Queries and keys that a layer rotated, and widened: their scores keep the scale of the heads."""

    encoding: QueryKeyEncoding

    @property
    def needs_scores(self) -> bool:
        return self.encoding.needs_scores

    @property
    def query_rotations(self) -> int:
        return self.encoding.query_rotations


def check_attention(
    num_hiddens: int, num_heads: int, position: Encoding | None, num_kv_heads: int | None = None
) -> tuple[int, int, int]:
    """Return width, heads, and heads of keys and values; raise unless they divide and the encoding fits."""
    num_hiddens, num_heads = check_integer("num_hiddens", num_hiddens), check_integer("num_heads", num_heads)
    if num_hiddens % num_heads:
        raise ValueError(f"`num_hiddens` must be a multiple of `num_heads` {num_heads}, got {num_hiddens}.")
    if not isinstance(position, AttentionEncoding | None):
        raise TypeError(
            f"`position` must be a rotary or scoring encoding or None, got {shown(position)}; "
            "PositionalEncoding adds the others to tokens."
        )
    num_kv_heads = num_heads if num_kv_heads is None else check_integer("num_kv_heads", num_kv_heads)
    if num_heads % num_kv_heads:
        divisors = ", ".join(str(n) for n in range(1, min(num_heads, 128) + 1) if num_heads % n == 0)
        raise ValueError(f"`num_kv_heads` must divide `num_heads` {num_heads}, as {divisors} do, got {num_kv_heads}.")
    if position is not None:
        position.check_sizes(num_hiddens // num_heads, num_heads, num_kv_heads)
    return num_hiddens, num_heads, num_kv_heads


def check_query_scale(query_scale: QueryEncoding, position: Encoding | None, num_heads: int) -> None:
    """Raise unless it multiplies queries of so many heads, and a position is one number."""
    check_type("query_scale", query_scale, QueryEncoding, "a QueryScale, a LearnedQueryScale or None")
    if getattr(query_scale, "num_heads", num_heads) != num_heads:
        raise ValueError(f"`query_scale` must have `num_heads` {num_heads}, got {shown(query_scale)}.")
    if position is not None and position.num_axes > 1:
        raise ValueError(f"`query_scale` needs positions of one axis, got {shown(position)}; leave one of them out.")
