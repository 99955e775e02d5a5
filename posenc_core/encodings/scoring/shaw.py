"""The scoring encoding of Shaw et al.: a learned vector per offset, for keys and for values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias, get_args

from ..._array_api.checks import check_flag, check_integer, check_known, check_number, is_static
from ..._array_api.namespace import Array, Weights, dtype_of, namespace_of
from ...attention.attend import AttentionInputs
from ...attention.bias import SIDES, Sides
from ...attention.buckets import offset_row
from ...attention.relative import Positions, offsets
from ..base import Parameter
from .base import ContentScoring, Pairs

AppliesTo: TypeAlias = Literal["both", "keys"]


@dataclass(frozen=True, kw_only=True, repr=False)
class ShawBias(ContentScoring):
    """Relative positions as one learned vector per offset (key minus query), shared by the heads or one for each.

    The product of a query with the vector of the offset, divided by √head_dim, is added to its score with a key; with
    `applies_to="both"`, a second vector is added to the value. No array of queries × keys × head_dim is created.

    Args:
        num_heads: number of heads.
        head_dim: width of each head's queries, keys and values.
        max_distance: the largest offset with a vector of its own; larger ones share that vector.
        applies_to: `"both"` keys and values, as published, or `"keys"` alone.
        per_head: whether each head has vectors of its own, tables `(num_heads, offsets, head_dim)`: Music Transformer,
            gluon-nlp.
        sides: `"both"` has offsets up to `max_distance` on either side; `"past"` those from `-max_distance` to 0, as
            tensor2tensor has them in a decoder, and keys after a query have the vector of offset 0. Only a causal mask
            hides them.
        scaled: whether the product is divided by √head_dim; False where that is done by the queries, or not at all.
        std: standard deviation of the normal distribution of the initial vectors.
    Raises:
        TypeError, ValueError: if a number is not positive, a flag not a boolean, or a word unknown.
    Source: Shaw et al. 2018, equations 3 to 5 (arXiv:1803.02155); Huang et al. 2018 (arXiv:1809.04281) for the past
        alone and vectors for each head.

    >>> ShawBias(num_heads=2, head_dim=4, max_distance=3, applies_to="keys").parameters()
    {'key_table': Parameter(shape=(7, 4), std=0.02, mean=0.0)}
    """

    max_distance: int
    applies_to: AppliesTo = "both"
    std: float = 0.02
    per_head: bool = False
    sides: Sides = "both"
    scaled: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("max_distance", self.max_distance)
        check_known("applies_to", self.applies_to, get_args(AppliesTo))
        check_number("std", self.std, minimum=0)
        check_flag("per_head", self.per_head)
        check_known("sides", self.sides, SIDES)
        check_flag("scaled", self.scaled)

    needs_integer_positions: ClassVar[bool] = True

    @property
    def head_axes(self) -> Mapping[str, int]:  # type: ignore[override]
        return dict.fromkeys(self.parameters(), 0) if self.per_head else {}

    def parameters(self) -> dict[str, Parameter]:
        names = ("key_table", "value_table") if self.adds_values else ("key_table",)
        rows = self.max_distance + 1 + (self.max_distance if self.sides == "both" else 0)
        shape = (self.num_heads, rows, self.head_dim) if self.per_head else (rows, self.head_dim)
        return {name: Parameter(shape=shape, std=self.std) for name in names}

    @property
    def adds_values(self) -> bool:  # type: ignore[override]
        return self.applies_to == "both"

    def scores(
        self, weights: Weights, query_positions: Positions, key_positions: Positions, content: AttentionInputs
    ) -> Array:
        xp, q = namespace_of(content.q), content.q
        relative = offsets(query_positions, key_positions, limit=self.max_distance, like=q)
        vectors = xp.take(self._key_vectors(weights, q), self._own_rows(relative.rows), axis=-2)
        return relative.expand_offsets(xp.matmul(q, xp.matrix_transpose(vectors)))

    def _key_vectors(self, weights: Weights, q: Array) -> Array:
        vectors: Array = namespace_of(q).astype(weights["key_table"], dtype_of(q))
        return vectors * (1 / math.sqrt(self.head_dim)) if self.scaled else vectors

    def _own_rows(self, rows: Array) -> Array:
        """Return the rows of a table of these sides, given those of a table of both."""
        xp = namespace_of(rows)
        return rows if self.sides == "both" else xp.minimum(rows, xp.full_like(rows, self.max_distance))

    @property
    def lookup_inputs(self) -> tuple[str, ...]:  # type: ignore[override]
        return () if self.adds_values else ("queries",)

    def lookup_tables(self, weights: Weights, q: Any, k: Any) -> dict[str, Array]:
        if self.adds_values:
            return super().lookup_tables(weights, q, k)
        xp = namespace_of(q)
        return {"by_offset": xp.matmul(q, xp.matrix_transpose(self._key_vectors(weights, q)))}

    def score_of(self, weights: Weights, tables: Weights, scores: Array, pairs: Pairs) -> Array:
        row = self._own_rows(offset_row(pairs.query_position, pairs.key_position, reach=self.max_distance))
        return tables["by_offset"][pairs.row, pairs.head, pairs.query, row]

    def values(
        self, weights: Weights, query_positions: Positions, key_positions: Positions, attention: Array
    ) -> Array | None:
        if not self.adds_values or any(is_static(length) and length == 0 for length in attention.shape[-2:]):
            return None
        xp = namespace_of(attention)
        relative = offsets(query_positions, key_positions, limit=self.max_distance, like=attention)
        table = xp.astype(weights["value_table"], dtype_of(attention))
        return xp.matmul(relative.sum_by_offset(attention), xp.take(table, self._own_rows(relative.rows), axis=-2))
