"""The NumPy room: the layers without a framework, to read and to test with. They evaluate; they do not train."""

from .arrays import from_numpy, is_traced, namespace, to_numpy
from .attention import MultiHeadAttention
from .layers import AttentionBias, PositionalEncoding, RotaryEmbedding

GAPS: dict[str, str] = {
    "gradient": "NumPy has no automatic differentiation.",
    "compiled": "NumPy has no compiler.",
    "saved": "The layers of this room have no file format; an encoding is saved by `to_dict`.",
    "bfloat16": "NumPy has no bfloat16.",
}

__all__ = [
    "GAPS",
    "AttentionBias",
    "MultiHeadAttention",
    "PositionalEncoding",
    "RotaryEmbedding",
    "from_numpy",
    "is_traced",
    "namespace",
    "to_numpy",
]
