"""The Keras backend: positional encodings as `keras.layers.Layer`s, on TensorFlow, JAX or PyTorch."""

from posenc_backends import require

require("keras", install="posenc[keras]")

from .backend import from_numpy, is_traced, namespace, to_numpy
from .layers import AttentionBias, MultiHeadAttention, PositionalEncoding, RotaryEmbedding

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
