"""The layers of the PyTorch backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from posenc_core import layers

from . import state
from .base import Layer, Module


class PositionalEncoding(layers.PositionalEncoding, Layer):
    forward: Callable[..., Any] = layers.PositionalEncoding.add


class RotaryEmbedding(layers.RotaryEmbedding, Layer):
    forward: Callable[..., Any] = layers.RotaryEmbedding.rotate


class AttentionBias(layers.AttentionBias, Layer):
    forward: Callable[..., Any] = layers.AttentionBias.add


class QueryScaling(layers.QueryScaling, Layer):
    forward: Callable[..., Any] = layers.QueryScaling.scale


class QueryKeyNorm(layers.QueryKeyNorm, Layer):
    forward: Callable[..., Any] = layers.QueryKeyNorm.normalize


class MultiHeadAttention(layers.MultiHeadAttention, Module):
    rotary_layer: Callable[..., RotaryEmbedding] = RotaryEmbedding
    scoring_layer: Callable[..., AttentionBias] = AttentionBias
    scaling_layer: Callable[..., QueryScaling] = QueryScaling
    norm_layer: Callable[..., QueryKeyNorm] = QueryKeyNorm

    forward: Callable[..., Any] = layers.MultiHeadAttention.attend

    def reset_parameters(self) -> None:
        """Set the parameters of all parts to new initial numbers."""
        for part in self.children():
            if hasattr(part, "reset_parameters"):
                part.reset_parameters()

    @property
    def metadata(self) -> dict[str, Any]:
        """The encoding of positions, or both."""
        return {"position": self.position}

    def _load_from_state_dict(self, state_dict: Any, prefix: str, local_metadata: Any, *rest: Any) -> None:
        """Refuse a state with another family of position; `rotary` and `scoring` refuse another one of their family."""
        _, _, unexpected_keys, _ = rest
        if _layer_names(state.revived(local_metadata.get("position", self.position))) != _layer_names(self.position):
            state.check_metadata(self.metadata, local_metadata, prefix, unexpected_keys)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)


def _layer_names(position: Any) -> Any:
    return [getattr(one, "layer_name", one) for one in (position if isinstance(position, tuple) else [position])]
