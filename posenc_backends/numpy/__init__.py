"""The NumPy room: the layers without a framework, to read and to test with. They evaluate; they do not train."""

from . import gaps
from . import kernel as kernels
from .attention import MultiHeadAttention
from .backend import from_numpy, is_traced, namespace, to_numpy
from .layers import AttentionBias, PositionalEncoding, RotaryEmbedding

GAPS = gaps.GAPS_IN[""]

__all__ = [
    "GAPS",
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
