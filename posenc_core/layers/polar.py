"""Attention to tokens that a rotary layer widened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from .._array_api.namespace import Array
from ..attention import AttentionInputs
from ..attention.attend import products


@dataclass(frozen=True)
class WidenedTokens:
    """Queries and keys that a layer rotated and widened: their scores keep the scale of the heads.

    Args:
        query_rotations: how many times as wide as the heads they are.
    """

    query_rotations: int
    needs_scores: ClassVar[bool] = True  # since kernels divide by the root of the width

    def rotate(self, q: Any, k: Any) -> tuple[Any, Any]:
        """Return queries and keys, which were rotated before."""
        return q, k

    def products(self, q: Array, k: Array) -> Array:
        """Return the product of each query and key."""
        return products(q, k)

    def scores(self, content: AttentionInputs) -> None:
        """Return None: nothing is added to the scores."""

    def values(self, attention: Array) -> None:
        """Return None: nothing is added to the result."""
