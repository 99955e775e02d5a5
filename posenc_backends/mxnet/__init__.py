"""The MXNet backend: positional encodings as `mxnet.gluon.HybridBlock`s, for `mxnet.np` arrays."""

from posenc_backends import require

require("mxnet", extra="mxnet", newest=(3, 11))

from . import kernel as kernels
from . import namespace, operator
from .backend import from_numpy, is_traced, to_numpy
from .layers import AttentionBias, MultiHeadAttention, PositionalEncoding, QueryScaling, RotaryEmbedding

__all__ = [
    "AttentionBias", "MultiHeadAttention", "PositionalEncoding", "QueryScaling", "RotaryEmbedding", "from_numpy",
    "is_traced", "kernels", "namespace", "operator", "to_numpy",
]  # fmt: skip
