"""The NumPy room: the layers without a framework, to read and to test with. They evaluate; they do not train."""

from . import kernel as kernels
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
    "kernels",
    "namespace",
    "to_numpy",
]
