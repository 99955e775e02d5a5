"""The layers of the strict room: those of the NumPy room, holding other arrays."""

from __future__ import annotations

from posenc_backends.numpy import layers

from . import backend as arrays


class PositionalEncoding(layers.PositionalEncoding):
    """`posenc_backends.numpy.PositionalEncoding` on array-api-strict."""

    backend = arrays


class RotaryEmbedding(layers.RotaryEmbedding):
    """`posenc_backends.numpy.RotaryEmbedding` on array-api-strict."""

    backend = arrays


class AttentionBias(layers.AttentionBias):
    """`posenc_backends.numpy.AttentionBias` on array-api-strict."""

    backend = arrays
