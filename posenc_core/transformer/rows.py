"""Rotary encodings inside the attention of the Transformer, with the rows of their tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from .._array_api.namespace import A, Array
from ..attention.attend import AttentionInputs, products
from ..encodings import PoPE
from ..rotation import Pairing, rotate_pairs

Rows: TypeAlias = tuple[Array, Array]


@dataclass(frozen=True, eq=False)
class RotaryRows:
    """A rotary encoding inside attention, with its rows of cosines and sines, shape `(length, pairs)` each."""

    pairing: Pairing
    query_rows: Rows
    key_rows: Rows
    needs_scores: ClassVar[bool] = False
    query_rotations: ClassVar[int] = 1

    def rotate(self, q: A, k: A) -> tuple[A, A]:
        """Return the rotated queries and keys."""
        q_rotated = rotate_pairs(q, *self.query_rows, pairing=self.pairing)
        return q_rotated, rotate_pairs(k, *self.key_rows, pairing=self.pairing)

    def products(self, q: Array, k: Array) -> Array:
        """Return the product of each query and key."""
        return products(q, k)

    def scores(self, content: AttentionInputs) -> None:
        """Return None: nothing is added to the scores."""

    def values(self, attention: Array) -> None:
        """Return None: nothing is added to the result."""


@dataclass(frozen=True, eq=False)
class PolarRows(RotaryRows):
    """`PoPE` inside attention, with its rows of cosines and sines and its phases."""

    encoding: PoPE
    weights: Mapping[str, Array]
    query_rotations: ClassVar[int] = PoPE.widening

    def rotate(self, q: A, k: A) -> tuple[A, A]:
        """Return queries and keys as magnitudes at angles, twice as wide as before."""
        queries: Any = self.encoding.queries_of(q, *self.query_rows)
        keys: Any = self.encoding.keys_of(k, *self.key_rows, self.weights)
        return queries, keys
