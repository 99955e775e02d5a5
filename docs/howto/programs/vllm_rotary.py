"""vLLM's rotary layer with exact tables that stay float32: an op out of tree.

vLLM builds this class wherever it would build its own `RotaryEmbedding`.
"""

from __future__ import annotations

import torch
from torch import Tensor
from vllm.model_executor.layers.rotary_embedding import RotaryEmbedding

from posenc_backends.torch import apply_rotary
from posenc_core import Rotary


@RotaryEmbedding.register_oot(name="RotaryEmbedding")
class ExactRotaryEmbedding(RotaryEmbedding):
    """Rotates in float32 and rounds once to the dtype of the tokens."""

    def __init__(self, *sizes: object, **options: object) -> None:
        super().__init__(*sizes, **options)
        table = self._compute_cos_sin_cache()  # theirs is cast to `dtype`
        self.register_buffer("cos_sin_cache", table, persistent=False)

    def _compute_cos_sin_cache(self) -> Tensor:
        rotary = Rotary(
            head_dim=self.head_size,
            layout="half" if self.is_neox_style else "interleaved",
            rotary_dim=self.rotary_dim,
            base=self.base,
        )
        cache = rotary.as_cache("vllm", self.max_position_embeddings)
        table = torch.from_numpy(cache["cos_sin_cache"])
        return table.to(torch.get_default_device())

    def forward_native(
        self, positions: Tensor, query: Tensor, key: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Rotate `(tokens, heads * head_size)`, of a CPU or a GPU."""
        positions = positions.flatten()
        shape = (len(positions), -1, self.head_size)
        cos, sin = self.cos_sin_cache.chunk(2, dim=-1)
        q, k = apply_rotary(
            query.view(shape),
            None if key is None else key.view(shape),
            cos,
            sin,
            layout="half" if self.is_neox_style else "interleaved",
            positions=positions,
            seq_axis=-3,
        )
        return q.view(query.shape), None if k is None else k.view(key.shape)

    forward_cuda = forward_hip = forward_xpu = forward_native
    forward_cpu = forward_oot = forward_native
