"""The layer that adds a scoring encoding to attention scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .._array_api.checks import (
    check_broadcasts,
    check_floating,
    check_rank,
    check_width,
    is_specialized,
    is_static,
    shown,
)
from .._array_api.namespace import in_float32, namespace_of, shape_of
from ..attention import AttentionInputs
from ..encodings import Placed, Scoring
from .backend import Given, Size, Tensor
from .base import BaseLayer, check_encoding
from .inputs import host_values

if TYPE_CHECKING:
    from .base import called_like


class AttentionBias(BaseLayer):
    """Adds the bias of a scoring encoding to attention scores.

    Args:
        encoding: a scoring encoding.
        native: options of the framework's layer, see `Layer` of the backend.
    Raises:
        TypeError: if `encoding` is not a scoring one.

    >>> import numpy as np
    >>> from posenc_backends.numpy import AttentionBias
    >>> from posenc_core import Alibi
    >>> AttentionBias(Alibi(num_heads=1))(np.zeros((1, 2, 2), np.float32))
    array([[[ 0.        , -0.00390625],
            [-0.00390625,  0.        ]]], dtype=float32)
    """

    encoding: Any  # Scoring

    def __init__(self, encoding: Scoring, **native: Any) -> None:
        check_encoding(encoding, Scoring, "a scoring")
        super().__init__(encoding, **native)  # type: ignore[call-arg] # of the adapter's layer

    def bias(
        self,
        scores: Tensor,
        start: Given = 0,
        query_positions: Given = None,
        key_positions: Given = None,
        q: Tensor = None,
        k: Tensor = None,
    ) -> Tensor:
        """Return `scores` plus the bias.

        Args:
            scores: `(batch, heads, queries, keys)`, or without the batch; floating-point.
            start: the position of the first query, an integer, or one for each batch row; keys count from 0.
            query_positions: positions of the queries instead of `start`, `(queries,)` or `(batch, queries)`.
            key_positions: positions of the keys instead of counting from 0, `(keys,)` or `(batch, keys)`.
            q, k: queries and keys, `(batch, heads, length, head_dim)`, only for encodings that use them.
        Returns:
            An array of the shape and dtype of `scores`.
        Raises:
            TypeError: if `scores` are not a floating-point array of the framework, or `q` and `k` are missing or not
                used.
            ValueError: if sizes do not fit, or the encoding has no such position.
        """
        scores = self._check_scores("scores", scores)
        q, k = self._check_content(scores, q, k)
        with self.backend.call_context(scores):
            at_positions = self._at_scores(scores, start, query_positions, key_positions)

            def add(wide: Any, q: Tensor, k: Tensor) -> Tensor:
                bias = at_positions.scores(AttentionInputs(q, k, wide))
                return wide + namespace_of(wide).astype(bias, wide.dtype)

            if q is None:  # encodings that do not use them take anything
                return in_float32(lambda wide: add(wide, wide, wide), scores)
            return in_float32(add, scores, q, k)

    if TYPE_CHECKING:

        @called_like(bias)
        def __call__(self, *given: Any, **named: Any) -> Any: ...

    def values(
        self, attention: Tensor, start: Given = 0, query_positions: Given = None, key_positions: Given = None
    ) -> Tensor:
        """Return the term that the encoding adds to the result of attention; None if there is none.

        Args:
            attention: attention weights, `(batch, heads, queries, keys)`.
            start, query_positions, key_positions: as in a call of the layer.
        Returns:
            `(batch, heads, queries, head_dim)`, or None.
        """
        attention = self._check_scores("attention", attention)
        if not self.encoding.adds_values:
            return None
        return in_float32(self._at_scores(attention, start, query_positions, key_positions).values, attention)

    def _at_scores(self, scores: Tensor, start: Given, query_positions: Given, key_positions: Given) -> Placed:
        *_, queries, keys = sizes = shape_of(scores)
        return self.at(queries, keys, sizes[0] if len(sizes) > 3 else None, start, query_positions, key_positions)

    def at(
        self,
        queries: Tensor,
        keys: Tensor,
        batch: Size,
        start: Given = 0,
        query_positions: Given = None,
        key_positions: Given = None,
    ) -> Placed:
        """Return the encoding with the layer's arrays at the positions given, or counted from `start`, keys from 0."""
        at_queries = self._positions("query_positions", query_positions, queries, start, batch)
        at_keys = self._positions("key_positions", key_positions, keys, 0, batch)
        return Placed(self.encoding, at_queries, at_keys, self.arrays)

    def _positions(self, name: str, given: Given, length: Size, start: Given, batch: Size) -> Tensor:
        """Return positions, checked: a range if they are consecutive, for which less has to be computed."""
        positions = self.positions(name, given, length, start, batch)
        like = self._any_array
        consecutive = given is None and type(start) is int
        if consecutive and is_specialized(abs(start), like) and is_specialized(length, like):
            positions = range(start, start + length)
        host = positions if isinstance(positions, range) else host_values(positions, self.backend)
        if host is not None:
            self.encoding.check_positions(name, host)
        return positions

    def _check_scores(self, name: str, scores: Tensor) -> Tensor:
        """Return scores prepared; raise unless they are scores of as many heads as the encoding has."""
        scores = self.prepare(scores, None)
        if not isinstance(scores, self.backend.array_types):
            raise self._wrong_framework(name, scores)
        check_rank(name, scores, minimum=3, maximum=4, axes="(heads, queries, keys), with a batch or without")
        check_floating(name, scores)
        if is_static(scores.shape[-3]) and scores.shape[-3] != self.encoding.num_heads:
            raise ValueError(f"`{name}` must have {self.encoding.num_heads} heads, got shape {tuple(scores.shape)}.")
        return scores

    def _check_content(self, scores: Tensor, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        """Return queries and keys prepared, if the encoding uses them; raise unless they fit the scores."""
        encoding = self.encoding
        if not encoding.uses_content:
            if q is not None or k is not None:
                raise TypeError(f"`q` and `k` must be left out for {shown(encoding)}, which looks at positions alone.")
            return None, None
        if q is None or k is None:
            raise TypeError(f"`q` and `k` must be given to {shown(encoding)}, which looks at them.")
        prepared = []
        for name, given, length in (("q", q, scores.shape[-2]), ("k", k, scores.shape[-1])):
            x = self.prepare(given, encoding.head_dim)
            if not isinstance(x, self.backend.array_types):
                raise self._wrong_framework(name, x)
            check_rank(name, x, minimum=3, maximum=4, axes="(heads, length, head_dim), with a batch or without")
            check_width(name, x, encoding.head_dim)
            check_broadcasts(name, x, (*scores.shape[:-2], length, x.shape[-1]))
            if is_static(length) and is_static(x.shape[-2]) and x.shape[-2] != length:
                raise ValueError(f"`{name}` must be {length} long, as `scores` say, got shape {tuple(x.shape)}.")
            prepared.append(x)
        return prepared[0], prepared[1]
