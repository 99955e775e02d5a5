"""The layer that normalizes queries and keys inside attention (QK-norm)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from .._array_api.kernels import kernel_for
from .._array_api.namespace import aligned, namespace_of
from ..normalization import in_wide, normalize, normalize_by_kernel
from .backend import Tensor
from .base import BaseLayer
from .heads import Heads, PartOfHeads
from .token_positions import TokenPositions, rotate_heads

if TYPE_CHECKING:
    from .rotary_embedding import RotaryEmbedding


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

    if TYPE_CHECKING:

        def __call__(self, q: Tensor, k: Tensor, heads: Heads | None = None) -> tuple[Tensor, Tensor]: ...

    def normalize_and_rotate(
        self,
        rotary: RotaryEmbedding | None,
        q: Tensor,
        k: Tensor,
        at: TokenPositions,
        part: PartOfHeads,
        cos_sin: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Return queries and new keys, normalized and rotated in float32 and rounded once: by a kernel in one pass.

        Args:
            rotary: the layer that rotates, or None.
            q, k: queries and keys, `(batch, heads, length, head_dim)`.
            at: their positions.
            part: the heads of the process.
            cos_sin: the rows of all tokens, where they are known; else None.
        """
        fused = None if rotary is None else self._by_kernel(rotary, q, k, at, part, cos_sin)
        if fused is not None:
            return fused
        xp, dtype, tokens = namespace_of(q), q.dtype, (in_wide(q), in_wide(k))
        if self.encoding.order == "norm_first":
            tokens = self(*tokens, part.of_queries)
        if rotary is not None:
            tokens = rotate_heads(rotary, tokens, at, part.of_keys, cos_sin)
        if self.encoding.order == "rope_first":
            tokens = self(*tokens, part.of_queries)
        q, k = (x if x.dtype == dtype else xp.astype(x, dtype) for x in tokens)
        return q, k

    def _by_kernel(
        self, rotary: RotaryEmbedding, q: Tensor, k: Tensor, at: TokenPositions, part: PartOfHeads, cos_sin: Tensor
    ) -> tuple[Tensor, Tensor] | None:
        """Return the same by a kernel; None where there is none for such tokens."""
        encoding, kernel, is_shared = rotary.encoding, kernel_for(q), at.is_shared or cos_sin is not None
        if kernel is None or kernel.normalize is None or not is_shared or q.shape[-2] != k.shape[-2]:
            return None
        limit, is_plain = encoding.max_seq_len, encoding.table_names == ("cos", "sin") and not encoding.parameters()
        if not is_plain or encoding.needs_positions or encoding.keys_differ or (limit and at.seq_len > limit):
            return None
        q = rotary.prepare(q, encoding.head_dim)
        if cos_sin is None:
            rows = rotary.rows(q, at.start, at.positions, -2, encoding)
        else:
            rows = rotary.given_rows(cos_sin, q, 0, None, -2, encoding, None)
        cos, sin = (aligned(row, q, seq_axis=-2) for row in rows)
        arrays = self.arrays_of(part.of_queries)
        weights = arrays.get("q_weight"), arrays.get("k_weight")
        found = normalize_by_kernel((q, k), cos, sin, weights, encoding.pairing, self.encoding.norm)
        return None if found is None else (found[0], found[1])
