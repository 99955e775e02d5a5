"""What `MultiHeadAttention` does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._array_api.checks import check_broadcasts, check_floating, check_rank, check_width, is_static
from .._array_api.namespace import namespace_of, shape_of
from ..attention.attend import attend, attention_weights, check_mask, merge_heads, split_heads
from ..attention.masks import all_of, valid_lengths
from ..encodings import XPos
from ..positions.sequences import arange_like
from .attention_bias import Bias
from .base import Backend, host_values, stated_start
from .options import AttentionOutput, Options, cached_length, check_valid_lens
from .places import TokenPositions, stated_positions, to_backend

Function = Callable[..., Any]


class Attention:
    """What `MultiHeadAttention` does, between its projections `W_q`, `W_k`, `W_v` and `W_o`."""

    backend: Backend
    num_hiddens: int
    num_heads: int
    num_kv_heads: int
    W_q: Function
    W_k: Function
    W_v: Function
    W_o: Function
    rotary: Any
    scoring: Bias | None

    def attended(
        self, queries: Any, keys: Any, values: Any, options: Options, dropout: Function | None, keys_mask: Any = None
    ) -> Any:
        """Multi-head attention, `(batch, queries, num_hiddens)`, or `AttentionOutput`; `keys_mask` is True for keys that count."""
        self.check(queries, keys, values)
        q = self._heads("W_q", queries, self.num_heads)  # (batch, heads, queries, head_dim)
        k = self._heads("W_k", keys, self.num_kv_heads)
        v = self._heads("W_v", values, self.num_kv_heads)
        places = self._places(q, k, options)
        q, k = self.turned(q, k, places)
        if places.cached:
            k, v = (namespace_of(k).concat(list(pair), axis=2) for pair in zip(options.cache, (k, v), strict=True))
        position, mask = self._scoring_at(places), self._visible(options, places, keys_mask, q)
        result = self.W_o(merge_heads(attend(q, k, v, position=position, mask=mask, dropout=dropout)))
        if options.cache is None and not options.weights:
            return result
        weights = attention_weights(q, k, position=position, mask=mask) if options.weights else ()
        return AttentionOutput(result, weights, () if options.cache is None else (k, v))

    def check(self, queries: Any, keys: Any, values: Any) -> None:
        """Raise unless all are tokens of one batch, and there is a value for every key."""
        for name, tokens in (("queries", queries), ("keys", keys), ("values", values)):
            check_rank(name, tokens, minimum=3, maximum=3, axes="(batch, length, num_hiddens)")
            check_floating(name, tokens)
            check_width(name, tokens, self.num_hiddens)
            check_broadcasts(name, tokens, (shape_of(queries)[0], *shape_of(tokens)[1:]))
        if is_static(keys.shape[1]) and is_static(values.shape[1]) and keys.shape[1] != values.shape[1]:
            raise ValueError(f"`values` must be as long as `keys`, got {values.shape[1]} and {keys.shape[1]}.")

    def _heads(self, name: str, tokens: Any, heads: int) -> Any:
        """Tokens, projected; a projection that gave one process's share of them would be cut into other heads."""
        projected = getattr(self, name)(tokens)
        check_width(f"{name}(…)", projected, heads * self.num_hiddens // self.num_heads)
        return split_heads(projected, heads)

    def _places(self, q: Any, k: Any, options: Options) -> TokenPositions:
        """Where queries and keys stand, `(batch, heads, length, head_dim)`, the new keys after those of the cache."""
        batch, _, queries, _ = shape_of(q)
        start = stated_start(options.start, batch, self.backend)
        cached = cached_length(options.cache, start, k)
        keys, axes = shape_of(k)[2] + cached, 1 if self.rotary is None else self.rotary.encoding.num_axes
        if options.positions is not None and options.key_positions is None:
            raise ValueError("`key_positions` must be given with `positions`; those of self-attention are the same.")
        at_queries = stated_positions("positions", options.positions, (batch, queries), axes, self.backend)
        at_keys = stated_positions("key_positions", options.key_positions, (batch, keys), axes, self.backend)
        return TokenPositions((batch, queries, keys), start, cached, at_queries, at_keys, axes)

    def turned(self, q: Any, k: Any, places: TokenPositions) -> tuple[Any, Any]:
        """Queries and new keys, `(batch, heads, length, head_dim)`, rotated, by frequencies for the whole sequence."""
        if self.rotary is None:
            return q, k
        longest = self.rotary.encoding.max_seq_len
        told = {} if longest is None or places.reach <= longest else {"seq_len": places.reach}
        at_keys = {"start": places.cached, "positions": places.new_key_positions, **told}
        turned = self.rotary(q, start=places.start, positions=places.positions, **told)
        as_keys = isinstance(self.rotary.encoding, XPos)
        return turned, self.rotary(k, k, **at_keys)[1] if as_keys else self.rotary(k, **at_keys)

    def _scoring_at(self, places: TokenPositions) -> Any:
        if self.scoring is None:
            return None
        batch, queries, keys = places.sizes
        return self.scoring.at(queries, keys, batch, places.start, places.positions, places.key_positions)

    def _visible(self, options: Options, places: TokenPositions, keys_mask: Any, q: Any) -> Any:
        """All that hides keys from queries, as one mask that broadcasts to `(batch, heads, queries, keys)`, if anything."""
        batch, queries, keys = places.sizes
        masks = []
        if options.valid_lens is not None:
            masks.append(self._counting(options.valid_lens, places, q))
        if options.causal:
            masks.append(places.causal(self.backend, q))
        if options.mask is not None:
            masks.append(to_backend(options.mask, self.backend, q))
            check_mask(masks[-1], (batch, self.num_heads, queries, keys))
        if keys_mask is not None and not (places.cached and options.mask is not None):
            if places.cached:
                raise ValueError(
                    "`mask` must say which keys count, those of the `cache` too, got that of new tokens alone."
                )
            check_broadcasts("keys_mask", keys_mask, (batch, keys))
            xp = namespace_of(q)
            masks.append(xp.expand_dims(xp.expand_dims(keys_mask, axis=1), axis=1))
        return all_of(*masks) if masks else None

    def _counting(self, valid_lens: Any, places: TokenPositions, q: Any) -> Any:
        host = host_values(valid_lens, self.backend)
        lengths = valid_lens if host is None else self.backend.from_numpy(host, like=q)
        check_valid_lens(shape_of(lengths), host, places.sizes)
        return valid_lengths(lengths, arange_like(places.sizes[2], like=q))
