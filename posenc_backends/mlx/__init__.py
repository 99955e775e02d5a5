"""The MLX backend: positional encodings as `mlx.nn.Module`s."""

from posenc_backends import require

require("mlx", extra="mlx")

from . import namespace
from .backend import from_numpy, is_traced, to_numpy
from .layers import AttentionBias, MultiHeadAttention, PositionalEncoding, QueryScaling, RotaryEmbedding
from .state import from_state, to_state

__all__ = [
    "AttentionBias", "MultiHeadAttention", "PositionalEncoding", "QueryScaling", "RotaryEmbedding", "from_numpy",
    "from_state", "is_traced", "namespace", "to_numpy", "to_state",
]  # fmt: skip
