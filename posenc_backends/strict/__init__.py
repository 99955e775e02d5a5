"""The strict room: the NumPy room on array-api-strict, which has nothing but what the array API standard has."""

from posenc_backends import require

require("array_api_strict", install="posenc[strict]")

from .arrays import from_numpy, is_traced, namespace, to_numpy
from .attention import MultiHeadAttention
from .layers import AttentionBias, PositionalEncoding, RotaryEmbedding

GAPS: dict[str, str] = {
    "gradient": "The array API standard has no automatic differentiation.",
    "compiled": "The array API standard has no compiler.",
    "saved": "The layers of this room have no file format; an encoding is saved by `to_dict`.",
    "bfloat16": "The array API standard has no bfloat16.",
    "float16": "The array API standard has no float16.",
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
