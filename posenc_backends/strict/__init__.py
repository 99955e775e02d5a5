"""The strict room: the NumPy room on array-api-strict, which has nothing but what the array API standard has."""

from posenc_backends import require

require("array_api_strict", install="posenc[strict]")

from .attention import MultiHeadAttention
from .backend import from_numpy, is_traced, namespace, to_numpy
from .layers import AttentionBias, PositionalEncoding, RotaryEmbedding

__all__ = [
    "AttentionBias",
    "MultiHeadAttention",
    "PositionalEncoding",
    "RotaryEmbedding",
    "from_numpy",
    "is_traced",
    "namespace",
    "to_numpy",
]
