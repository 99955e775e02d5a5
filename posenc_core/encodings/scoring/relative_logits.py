"""Inkling's relative logits: the scoring encoding whose queries mix learned curves of the distance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..._array_api.checks import WIDEST, check_integer, check_number
from ..._array_api.namespace import Array, Weights, dtype_of, namespace_of, shape_of
from ...attention.attend import AttentionInputs
from ...attention.buckets import FARTHEST, offset_row
from ...attention.relative import Positions, offsets
from ..base import Parameter, Tables
from .base import ContentScoring, Pairs


@dataclass(frozen=True, kw_only=True, repr=False)
class RelativeLogits(ContentScoring):
    """A mixture of learned curves of the distance, which the heads share; each query decides on its mixture.

    The bias at distance d, query minus key, is (W_r q) · curves[d], where q has the queries of all heads and W_r is
    learned; 0 from `max_distance` on, and for keys after the query. Inkling mixes by a projection of the token; if the
    projection of queries is a square matrix, both express the same mixtures.

    Args:
        num_heads: number of heads.
        head_dim: width of each head's queries and keys.
        max_distance: the first distance without a bias (`rel_extent`).
        num_curves: number of curves (`d_rel`).
        std: standard deviation of the normal distribution of the initial numbers.
    Raises:
        ValueError: if a number is not positive, `max_distance` above 2**24, or `std` negative.
    Source: Inkling (Thinking Machines, 2026), `InklingRelativeLogits` of transformers; there is no paper.

    >>> RelativeLogits(num_heads=2, head_dim=4, max_distance=1024, num_curves=16).parameters()["curves"]
    Parameter(shape=(16, 1024), std=0.02, mean=0.0)
    """

    max_distance: int
    num_curves: int
    std: float = 0.02

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("max_distance", self.max_distance, maximum=FARTHEST)
        check_integer("num_curves", self.num_curves, maximum=WIDEST)
        check_number("std", self.std, minimum=0)

    needs_integer_positions: ClassVar[bool] = True

    mixes_heads: ClassVar[bool] = True

    head_axes: ClassVar[Mapping[str, int]] = {"W_r": 2}

    def constants(self, max_len: int) -> Tables:
        # by key less query; the column after the last curves is 0
        distances = np.full(2 * self.max_distance + 1, self.max_distance)
        distances[1 : self.max_distance + 1] = np.arange(self.max_distance - 1, -1, -1)
        return {"distances": distances.astype(np.int32)}

    def parameters(self) -> dict[str, Parameter]:
        mixed = self.num_heads * self.num_curves
        return {
            "W_r": Parameter(shape=(self.num_heads, self.head_dim, mixed), std=self.std),
            "curves": Parameter(shape=(self.num_curves, self.max_distance), std=self.std),
        }

    def scores(
        self, weights: Weights, query_positions: Positions, key_positions: Positions, content: AttentionInputs
    ) -> Array:
        xp, q = namespace_of(content.q), content.q
        relative = offsets(query_positions, key_positions, limit=self.max_distance, like=q)
        distances = xp.take(weights["distances"], relative.rows, axis=0)
        return relative.expand_offsets(self._by_offset(weights, q, distances))

    def _by_offset(self, weights: Weights, q: Array, distances: Array) -> Array:
        """Return the bias of each query at these distances, `(..., heads, queries, distances)`."""
        xp = namespace_of(q)
        w, curves = (xp.astype(weights[name], dtype_of(q)) for name in ("W_r", "curves"))
        none = xp.zeros_like(curves[:, :1])
        by_offset = xp.take(xp.concat([curves, none], axis=-1), distances, axis=1)
        mixed = xp.sum(xp.matmul(q, w), axis=-3, keepdims=False)  # (..., queries, heads * curves)
        *lead, queries, _ = shape_of(mixed)
        by_head = xp.reshape(mixed, (*lead, queries, self.heads_in(w, self.num_curves), self.num_curves))
        axes = (*range(len(lead)), len(lead) + 1, len(lead), len(lead) + 2)  # heads before queries
        return xp.permute_dims(xp.matmul(by_head, by_offset), axes)

    lookup_inputs: ClassVar[tuple[str, ...]] = ("queries",)

    def lookup_tables(self, weights: Weights, q: Any, k: Any) -> dict[str, Array]:
        return {"by_offset": self._by_offset(weights, q, weights["distances"])}

    def score_of(self, weights: Weights, tables: Weights, scores: Array, pairs: Pairs) -> Array:
        row = offset_row(pairs.query_position, pairs.key_position, reach=self.max_distance)
        return tables["by_offset"][pairs.row, pairs.head, pairs.query, row]
