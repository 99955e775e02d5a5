"""The PyTorch room: positional encodings as `torch.nn.Module`s."""

from posenc_backends import require

require("torch", install="posenc[torch]")

from . import kernel as kernels
from . import namespace
from .attention import MultiHeadAttention
from .backend import from_numpy, is_traced, to_numpy
from .flex import score_mod
from .layers import AttentionBias, PositionalEncoding, RotaryEmbedding

__all__ = [
    "AttentionBias",
    "MultiHeadAttention",
    "PositionalEncoding",
    "RotaryEmbedding",
    "from_numpy",
    "is_traced",
    "kernels",
    "namespace",
    "score_mod",
    "to_numpy",
]
