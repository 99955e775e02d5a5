"""The attention layer of the strict room: that of the NumPy room, holding other arrays."""

from __future__ import annotations

from posenc_backends.numpy import attention

from . import backend as arrays
from .layers import AttentionBias, RotaryEmbedding


class MultiHeadAttention(attention.MultiHeadAttention):
    """`posenc_backends.numpy.MultiHeadAttention` on array-api-strict."""

    backend = arrays
    rotary_layer = RotaryEmbedding
    scoring_layer = AttentionBias
