"""The layer that normalizes queries and keys inside attention (QK-norm)."""

from __future__ import annotations

from typing import Any, ClassVar

from ..normalization import normalize
from .backend import Tensor
from .base import BaseLayer
from .heads import Heads


class QueryKeyNorm(BaseLayer):
    """Normalizes queries and keys, which attention has checked and widened to float32.

    Args:
        encoding: the norm.
        native: options of the framework's layer, see `Layer` of the backend.
    """

    encoding: Any  # QKNorm
    method: ClassVar[str] = "normalize"

    def normalize(self, q: Tensor, k: Tensor, heads: Heads | None = None) -> tuple[Tensor, Tensor]:
        """Return queries and keys, `(batch, heads, length, head_dim)`, normalized.

        Args:
            q, k: queries and keys.
            heads: those of the process, or None for all.
        """
        arrays, norm = self.arrays_of(heads), self.encoding.norm
        return normalize(q, arrays.get("q_weight"), norm), normalize(k, arrays.get("k_weight"), norm)
