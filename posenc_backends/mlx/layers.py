"""The layers of the MLX backend."""

from __future__ import annotations

from posenc_core import layers

from .base import Layer, Module


class PositionalEncoding(layers.PositionalEncoding, Layer):
    __call__ = layers.PositionalEncoding.add


class RotaryEmbedding(layers.RotaryEmbedding, Layer):
    __call__ = layers.RotaryEmbedding.rotate


class AttentionBias(layers.AttentionBias, Layer):
    __call__ = layers.AttentionBias.add


class QueryScaling(layers.QueryScaling, Layer):
    __call__ = layers.QueryScaling.scale


class QueryKeyNorm(layers.QueryKeyNorm, Layer):
    __call__ = layers.QueryKeyNorm.normalize


class MultiHeadAttention(layers.MultiHeadAttention, Module):
    rotary_layer = RotaryEmbedding
    scoring_layer = AttentionBias
    scaling_layer = QueryScaling
    norm_layer = QueryKeyNorm

    __call__ = layers.MultiHeadAttention.attend
