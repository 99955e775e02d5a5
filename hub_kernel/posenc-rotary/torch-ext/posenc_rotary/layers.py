"""The layer that replaces `apply_rotary_pos_emb` of models of transformers."""

from torch import Tensor, nn

from .rotary import apply_rotary_transformers as rotated


class apply_rotary_transformers(nn.Module):  # noqa: N801 - named as the function that it replaces
    """Rotate queries and keys as `rotary.apply_rotary_transformers`."""

    can_torch_compile: bool = True

    def forward(
        self, q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, unsqueeze_dim: int = 1
    ) -> tuple[Tensor | None, Tensor | None]:
        """Return both rotated."""
        return rotated(q, k, cos, sin, unsqueeze_dim)


__all__ = ["apply_rotary_transformers"]
