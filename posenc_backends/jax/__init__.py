"""The JAX room: positional encodings as immutable pytrees."""

from posenc_backends import require

require("jax", install="posenc[jax]")

import jax

from . import namespace
from .arrays import from_numpy, is_traced, to_numpy
from .attention import MultiHeadAttention
from .layers import AttentionBias, PositionalEncoding, RotaryEmbedding

GAPS = {} if jax.config.jax_enable_x64 else {"float64": "JAX has float64 only where `jax_enable_x64` is set."}

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
