"""Transformer-XL's relative positions: projected sinusoids of distances, with a content bias and a position bias."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from ..._array_api.checks import check_even, check_integer, check_number
from ..._array_api.namespace import Array, Weights, dtype_of, namespace_of
from ...attention.attend import AttentionInputs
from ...attention.buckets import offset_row
from ...attention.relative import Positions, offsets
from ...positions.sequences import sequence
from ..additive.sinusoidal import Sinusoidal
from ..base import Parameter, Tables
from .base import ContentScoring, Pairs


@dataclass(frozen=True, kw_only=True, repr=False)
class TransformerXLBias(ContentScoring):
    """The terms that Transformer-XL adds to q k / √head_dim: (u k + (q + v) W_r R) / √head_dim.

    R is the sinusoid of the distance, query minus key; u, v and W_r are learned. Ranges of positions use a relative
    shift, which takes three and a half times the memory of the scores; other positions are gathered by an index.

    Args:
        num_heads: number of heads.
        head_dim: width of each head's queries and keys.
        max_distance: the largest distance, to both sides, with a sinusoid of its own (`clamp_len`).
        dim: width of R, even; `num_heads * head_dim` by default.
        std: standard deviation of the normal distribution of the initial u, v and W_r.
    Raises:
        ValueError: if a number is not positive, or the width of R is odd.
    Source: Dai et al. 2019, section 3.3 (arXiv:1901.02860); R has its sines before its cosines, as in their code.

    >>> [name for name in TransformerXLBias(num_heads=2, head_dim=4, max_distance=8).parameters()]
    ['u', 'v', 'W_r']
    """

    max_distance: int
    dim: int | None = None
    std: float = 0.02

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("max_distance", self.max_distance)
        check_even("dim", self.width)
        check_number("std", self.std, minimum=0)

    needs_integer_positions: ClassVar[bool] = True

    @property
    def width(self) -> int:
        """The width of R."""
        return self.num_heads * self.head_dim if self.dim is None else self.dim

    head_axes: ClassVar[Mapping[str, int]] = {"u": 0, "v": 0, "W_r": 1}

    def constants(self, max_len: int) -> Tables:
        distances = -sequence(2 * self.max_distance + 1, start=-self.max_distance)  # of keys before to keys after
        return {"R": Sinusoidal(dim=self.width, convention="concatenated").table(distances)}

    def parameters(self) -> dict[str, Parameter]:
        by_head, matrix = (self.num_heads, self.head_dim), (self.width, self.num_heads * self.head_dim)
        shapes = {"u": by_head, "v": by_head, "W_r": matrix}
        return {name: Parameter(shape=shape, std=self.std) for name, shape in shapes.items()}

    def scores(
        self, weights: Weights, query_positions: Positions, key_positions: Positions, content: AttentionInputs
    ) -> Array:
        xp, q = namespace_of(content.q), content.q
        relative = offsets(query_positions, key_positions, limit=self.max_distance, like=q)
        sinusoids = xp.take(xp.astype(weights["R"], dtype_of(q)), relative.rows, axis=0)
        by_offset = relative.expand_offsets(self._by_offset(weights, q, sinusoids))
        return by_offset + xp.expand_dims(self._by_key(weights, content.k), axis=-2)

    def _by_offset(self, weights: Weights, q: Array, sinusoids: Array) -> Array:
        """Return (q + v) W_r R / √head_dim, for each row of R: `(..., queries, rows)`."""
        xp, scale = namespace_of(q), 1 / math.sqrt(self.head_dim)
        v, w = (xp.astype(weights[name], dtype_of(q)) for name in ("v", "W_r"))
        projected = xp.reshape(xp.matmul(sinusoids, w), (-1, self.heads_in(w, self.head_dim), self.head_dim))
        return xp.matmul(q * scale + xp.expand_dims(v * scale, axis=-2), xp.permute_dims(projected, (1, 2, 0)))

    def _by_key(self, weights: Weights, k: Array) -> Array:
        """Return u k / √head_dim: `(..., heads, keys)`."""
        xp = namespace_of(k)
        u = xp.expand_dims(xp.astype(weights["u"], dtype_of(k)) * (1 / math.sqrt(self.head_dim)), axis=-2)
        return xp.sum(u * k, axis=-1, keepdims=False)

    lookup_inputs: ClassVar[tuple[str, ...]] = ("queries", "keys")

    def lookup_tables(self, weights: Weights, q: Any, k: Any) -> dict[str, Array]:
        sinusoids = namespace_of(q).astype(weights["R"], dtype_of(q))
        return {"by_offset": self._by_offset(weights, q, sinusoids), "by_key": self._by_key(weights, k)}

    def score_of(self, weights: Weights, tables: Weights, scores: Array, pairs: Pairs) -> Array:
        row = offset_row(pairs.query_position, pairs.key_position, reach=self.max_distance)
        by_offset = tables["by_offset"][pairs.row, pairs.head, pairs.query, row]
        return by_offset + tables["by_key"][pairs.row, pairs.head, pairs.key]
