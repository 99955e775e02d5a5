"""The JAX backend: positional encodings as immutable pytrees."""

from posenc_backends import require

require("jax", extra="jax")

import jax

from . import namespace
from .backend import from_numpy, is_traced, to_numpy
from .layers import AttentionBias, MultiHeadAttention, PositionalEncoding, QueryScaling, RotaryEmbedding
from .state import from_state, to_state

if jax.__version_info__ >= (0, 7):  # before, a rule for lowering could not see what is around a call
    from . import kernel as kernels  # noqa: F401

__all__ = [
    "AttentionBias", "MultiHeadAttention", "PositionalEncoding", "QueryScaling", "RotaryEmbedding", "from_numpy",
    "from_state", "is_traced", "namespace", "to_numpy", "to_state",
]  # fmt: skip
