"""Rotary encodings with remapped positions inside attention, with the tables of a layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from .._array_api.namespace import Array
from ..attention import AttentionInputs
from ..encodings import RemappedRotary
from ..encodings.base import TokenRows
from .rotary_embedding import RotaryEmbedding


@dataclass(frozen=True, eq=False)
class RemappedRows:
    """An encoding with remapped positions inside attention.

    Args:
        layer: the layer that has the tables.
        encoding: that of the layer, or the same for a longer sequence.
        query_rows, key_rows: the rows of the tables for queries and keys.
        query_positions, key_positions: arrays of the framework.
    """

    layer: RotaryEmbedding
    encoding: RemappedRotary
    query_rows: tuple[Any, ...]
    key_rows: tuple[Any, ...]
    query_positions: Any
    key_positions: Any
    needs_scores: ClassVar[bool] = True

    @property
    def query_rotations(self) -> int:
        """The number of rotations of each query."""
        return len(self.encoding.regions)

    def rotate(self, q: Any, k: Any) -> tuple[Any, Any]:
        """Return queries and keys in all their rotations."""
        rotated = self.encoding.apply(q, TokenRows(self.query_rows, self._rotate_by, {}, keys=False))
        return rotated, self.encoding.apply(k, TokenRows(self.key_rows, self._rotate_by, {}, keys=True))

    def _rotate_by(self, x: Any, cos: Any, sin: Any) -> Any:
        return self.layer.rotate_by(x, cos, sin, -2)

    def products(self, q: Array, k: Array) -> Array:
        """Return the product of each query and key, from the region of the pair."""
        return self.encoding.products(q, k, self.query_positions, self.key_positions)

    def scores(self, content: AttentionInputs) -> None:
        """Return None: nothing is added to the scores."""

    def values(self, attention: Array) -> None:
        """Return None: nothing is added to the result."""
