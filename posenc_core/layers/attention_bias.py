"""What `AttentionBias` does."""

from __future__ import annotations

from typing import Any

from .._array_api.checks import check_broadcasts, check_floating, check_rank, check_width, is_specialized, is_static
from .._array_api.namespace import A, in_float32, namespace_of, shape_of
from ..attention.attend import AttentionInputs
from ..encodings import ContentScoring, Encoding, Placed, Scoring
from .base import BaseLayer, host_values


class Bias(BaseLayer):
    """What `AttentionBias` does."""

    encoding: Scoring

    def biased(
        self, scores: A, start: Any, query_positions: Any, key_positions: Any, q: Any = None, k: Any = None
    ) -> A:
        """`scores` plus what the encoding makes of their positions, and of `q` and `k` if it looks at them."""
        self.check(scores, q, k)
        placed = self._placed(scores, start, query_positions, key_positions)

        def added(wide: Any, q: Any, k: Any) -> Any:
            return wide + namespace_of(wide).astype(placed.scores(AttentionInputs(q, k, wide)), wide.dtype)

        if q is None:  # who does not look at them takes anything
            return in_float32(lambda wide: added(wide, wide, wide), scores)
        return in_float32(added, scores, q, k)

    def values(self, attention: Any, start: Any = 0, query_positions: Any = None, key_positions: Any = None) -> Any:
        """What is added to the result of attention with these weights, `(batch, heads, queries, head_dim)`, if anything."""
        self._check_scores("attention", attention)
        placed = self._placed(attention, start, query_positions, key_positions)
        return in_float32(placed.values, attention) if self.encoding.adds_values else None

    def _placed(self, scores: Any, start: Any, query_positions: Any, key_positions: Any) -> Placed:
        *_, queries, keys = sizes = shape_of(scores)
        return self.at(queries, keys, sizes[0] if len(sizes) > 3 else None, start, query_positions, key_positions)

    def at(
        self,
        queries: Any,
        keys: Any,
        batch: Any,
        start: Any = 0,
        query_positions: Any = None,
        key_positions: Any = None,
    ) -> Placed:
        """The encoding with what the layer holds and the positions given; they count from `start`, and keys from 0."""
        at_queries = self._positions("query_positions", query_positions, queries, start, batch)
        at_keys = self._positions("key_positions", key_positions, keys, 0, batch)
        return Placed(self.encoding, at_queries, at_keys, self.held)

    def _positions(self, name: str, given: Any, length: Any, start: Any, batch: Any) -> Any:
        """A range where that says it all, for which less has to be computed."""
        positions = self.positions(name, given, length, start, batch)
        like = next(iter(self.held.values()))
        plain = (
            given is None and type(start) is int and is_specialized(abs(start), like) and is_specialized(length, like)
        )
        stated = range(start, start + length) if plain else positions
        host = stated if isinstance(stated, range) else host_values(stated, self.backend)
        if host is not None:
            self.encoding.check_positions(name, host)
        return stated

    def check(self, scores: Any, q: Any = None, k: Any = None) -> None:
        """Raise unless `scores` are scores of as many heads as the encoding has, and `q` and `k` what it asks for."""
        self._check_scores("scores", scores)
        if isinstance(self.encoding, ContentScoring):
            self._check_content(self.encoding, scores, q, k)
        elif q is not None or k is not None:
            raise TypeError(f"`q` and `k` must be left out for {self.encoding!r}, which looks at positions alone.")

    def _check_content(self, encoding: ContentScoring, scores: Any, q: Any, k: Any) -> None:
        if q is None or k is None:
            raise TypeError(f"`q` and `k` must be given to {encoding!r}, which looks at them.")
        for name, x, length in (("q", q, scores.shape[-2]), ("k", k, scores.shape[-1])):
            self.check_array(name, x)
            check_rank(name, x, minimum=3, maximum=4, axes="(heads, length, head_dim), with a batch or without")
            check_width(name, x, encoding.head_dim)
            check_broadcasts(name, x, (*scores.shape[:-2], length, x.shape[-1]))
            if is_static(length) and is_static(x.shape[-2]) and x.shape[-2] != length:
                raise ValueError(f"`{name}` must be {length} long, as `scores` say, got shape {tuple(x.shape)}.")

    def _check_scores(self, name: str, scores: Any) -> None:
        self.check_array(name, scores)
        check_rank(name, scores, minimum=3, maximum=4, axes="(heads, queries, keys), with a batch or without")
        check_floating(name, scores)
        if is_static(scores.shape[-3]) and scores.shape[-3] != self.encoding.num_heads:
            raise ValueError(f"`{name}` must have {self.encoding.num_heads} heads, got shape {tuple(scores.shape)}.")


def check_scoring(encoding: Encoding) -> None:
    """Raise unless it is a scoring encoding."""
    if not isinstance(encoding, Scoring):
        raise TypeError(f"`encoding` must be a scoring encoding, got {encoding!r}.")
