"""The layers of the Paddle backend. `not_to_static` keeps Paddle from rewriting the source of the core's methods."""

from __future__ import annotations

from typing import Any

from paddle import Tensor
from paddle.jit import not_to_static

from posenc_core import layers

from .backend import sized
from .base import Layer, Module


class PositionalEncoding(layers.PositionalEncoding, Layer):
    forward = not_to_static(layers.PositionalEncoding.add)


class RotaryEmbedding(layers.RotaryEmbedding, Layer):
    forward = not_to_static(layers.RotaryEmbedding.rotate)


class AttentionBias(layers.AttentionBias, Layer):
    forward = not_to_static(layers.AttentionBias.add)

    def prepare(self, x: Any, width: int | None) -> Any:
        """Return scores with the number of heads, or tokens with their width, where Paddle does not know it."""
        return sized(x, {-3: self.encoding.num_heads}) if width is None else super().prepare(x, width)


class QueryScaling(layers.QueryScaling, Layer):
    forward = not_to_static(layers.QueryScaling.scale)


class QueryKeyNorm(layers.QueryKeyNorm, Layer):
    forward = not_to_static(layers.QueryKeyNorm.normalize)


class MultiHeadAttention(layers.MultiHeadAttention, Module):
    rotary_layer = RotaryEmbedding
    scoring_layer = AttentionBias
    scaling_layer = QueryScaling
    norm_layer = QueryKeyNorm

    def forward(  # noqa: PLR0913, PLR0917 - all that can be said of a call
        self,
        queries: Tensor,
        keys: Any = None,
        values: Any = None,
        valid_lens: Any = None,
        start: Any = 0,
        positions: Any = None,  # not by keyword alone, as elsewhere: `to_static` takes such arrays for constants
        key_positions: Any = None,
        mask: Any = None,
        causal: bool = False,
        cache: Any = None,
        weights: bool = False,
        heads: Any = None,
        cos_sin: Any = None,
        **unknown: Any,
    ) -> Any:
        """Return `attend`, whose arrays may all be given by place here."""
        return self.attend(
            queries,
            keys,
            values,
            valid_lens,
            start,
            positions=positions,
            key_positions=key_positions,
            mask=mask,
            causal=causal,
            cache=cache,
            weights=weights,
            heads=heads,
            cos_sin=cos_sin,
            **unknown,
        )
