"""Rotary encodings inside the attention of the Transformer, with the rows of their tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from .._array_api.namespace import Array
from ..attention.attend import AttentionInputs, products
from ..encodings import PoPE, RotaryEncoding
from ..encodings.placed import apply_rows

Rows: TypeAlias = tuple[Array, Array]


@dataclass(frozen=True, eq=False)
class RotaryRows:
    """A rotary encoding inside attention, with its rows of cosines and sines and what it learns."""

    encoding: RotaryEncoding | PoPE
    query_rows: Rows
    key_rows: Rows
    weights: Mapping[str, Array]
    needs_scores: ClassVar[bool] = False

    @property
    def query_rotations(self) -> int:
        """How many times as wide as before queries become."""
        return self.encoding.widening

    def rotate(self, q: Any, k: Any) -> tuple[Any, Any]:
        """Return the queries and keys at their positions."""
        at_queries = apply_rows(self.encoding, q, self.query_rows, self.weights, keys=False)
        return at_queries, apply_rows(self.encoding, k, self.key_rows, self.weights, keys=True)

    def products(self, q: Array, k: Array) -> Array:
        """Return the product of each query and key."""
        return products(q, k)

    def scores(self, content: AttentionInputs) -> None:
        """Return None: nothing is added to the scores."""

    def values(self, attention: Array) -> None:
        """Return None: nothing is added to the result."""
