"""The MXNet room: positional encodings as `mxnet.gluon.HybridBlock`s, for `mxnet.np` arrays."""

from posenc_backends import require

require("mxnet", install="posenc[mxnet]")

from . import gaps, kernels, namespace
from .arrays import from_numpy, is_traced, to_numpy
from .attention import MultiHeadAttention
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
