"""The NumPy backend: the layers without a framework, to read and to test with. They evaluate; they do not train."""

from . import kernel
from .backend import from_numpy, is_traced, namespace, to_numpy
from .layers import AttentionBias, MultiHeadAttention, PositionalEncoding, QueryScaling, RotaryEmbedding

__all__ = [
    "AttentionBias", "MultiHeadAttention", "PositionalEncoding", "QueryScaling", "RotaryEmbedding", "from_numpy",
    "is_traced", "kernel", "namespace", "to_numpy",
]  # fmt: skip
