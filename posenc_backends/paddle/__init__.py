"""The Paddle backend: positional encodings as `paddle.nn.Layer`s."""

import sys

from posenc_backends import require

if "tensorflow" in sys.modules and "paddle" not in sys.modules:
    raise ImportError("Paddle crashes the process if TensorFlow comes first; import `paddle` before `tensorflow`.")
require("paddle", extra="paddle", newest=(3, 13))

from . import kernel, namespace, operator
from .backend import from_numpy, is_traced, to_numpy
from .layers import AttentionBias, MultiHeadAttention, PositionalEncoding, QueryScaling, RotaryEmbedding

__all__ = [
    "AttentionBias", "MultiHeadAttention", "PositionalEncoding", "QueryScaling", "RotaryEmbedding", "from_numpy",
    "is_traced", "kernel", "namespace", "operator", "to_numpy",
]  # fmt: skip
