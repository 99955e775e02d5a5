"""What `AttentionBias` does."""

from __future__ import annotations

from typing import Any

from .._arrays import A, in_float32, shape_of
from .._checks import check_floating, check_rank, known
from ..encodings import Encoding, Scoring
from ..holder import Holder


class Bias(Holder):
    """What `AttentionBias` does."""

    encoding: Scoring

    def biased(self, scores: A, start: Any, query_positions: Any, key_positions: Any) -> A:
        """`scores` plus the bias of their positions."""
        self.check(scores)
        *_, queries, keys = sizes = shape_of(scores)
        batch = sizes[0] if len(sizes) > 3 else None
        at_queries = self.positions("query_positions", query_positions, queries, start, batch)
        at_keys = self.positions("key_positions", key_positions, keys, 0, batch)
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
        at_queries, at_keys = (self.positions("", None, length, 0, None) for length in (queries, keys))
        return self.encoding.score(self.held, at_queries, at_keys)


def check_scoring(encoding: Encoding) -> None:
    """Raise unless it is a scoring encoding."""
    if not isinstance(encoding, Scoring):
        raise TypeError(f"`encoding` must be a scoring encoding, got {encoding!r}.")
