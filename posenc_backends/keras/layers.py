"""The layers of the Keras backend."""

from __future__ import annotations

from functools import partial
from typing import Any, TypeAlias

import keras

from posenc_core import layers
from posenc_core.layers.attention_checks import as_pair, missing_tokens

from .base import OF_PROJECTIONS, Layer, Module, check_not_ragged, register

Tensor: TypeAlias = Any  # TensorFlow's, JAX's or PyTorch's
Shape: TypeAlias = tuple[Any, ...]


@register
class PositionalEncoding(layers.PositionalEncoding, Layer):
    call = layers.PositionalEncoding.add

    def __init__(self, num_hiddens: int, dropout: float = 0.0, max_len: int = 1000, **options: Any) -> None:
        super().__init__(num_hiddens, dropout, max_len, **options)
        self.dropout.dtype_policy = self.dtype_policy

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return (*input_shape[:-1], input_shape[-1] + (self.combine == "concat") * self.encoding.dim)

    def get_config(self) -> dict[str, Any]:
        sizes = {"num_hiddens": self.encoding.dim, "dropout": self.dropout.rate}
        return {**super().get_config(), **sizes, "combine": self.combine}


@register
class RotaryEmbedding(layers.RotaryEmbedding, Layer):
    call = layers.RotaryEmbedding.rotate

    def compute_output_shape(self, q_shape: Shape, k_shape: Shape | None = None) -> Any:
        return q_shape if k_shape is None else (q_shape, k_shape)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "seq_axis": self.seq_axis}


@register
class AttentionBias(layers.AttentionBias, Layer):
    call = layers.AttentionBias.add

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return input_shape


@register
class QueryScaling(layers.QueryScaling, Layer):
    call = layers.QueryScaling.scale

    def compute_output_shape(self, q_shape: Shape) -> Shape:
        return q_shape


@register
class QueryKeyNorm(layers.QueryKeyNorm, Layer):
    call = layers.QueryKeyNorm.normalize


@register
class MultiHeadAttention(layers.MultiHeadAttention, Module):
    rotary_layer = RotaryEmbedding
    scoring_layer = AttentionBias
    scaling_layer = QueryScaling
    norm_layer = QueryKeyNorm
    has_projections = True

    def __init__(
        self, num_hiddens: int, num_heads: int, dropout: float = 0.0, bias: bool = False, **options: Any
    ) -> None:
        super().__init__(num_hiddens, num_heads, dropout, bias, **options)
        self.bias, self.max_len, self.auto_expand = bias, options.get("max_len"), options.get("auto_expand", True)
        self.dropout.dtype_policy = self.dtype_policy
        given = as_pair(options.get("position"))
        self.is_shared = any(isinstance(one, Module) for one in given)

    def __call__(self, *tokens: Any, mask: Any = None, **options: Any) -> Any:
        """Call the layer with `mask` as `visible`: Keras takes an argument `mask` for the padding of the result."""
        check_not_ragged([("mask", mask)])
        return super().__call__(*tokens, **options if mask is None else {**options, "visible": mask})

    def call(  # noqa: PLR0913 - all that can be said of a call
        self,
        queries: Tensor,
        keys: Tensor = None,
        values: Tensor = None,
        valid_lens: Any = None,
        start: Any = 0,
        *,
        positions: Any = None,
        key_positions: Any = None,
        visible: Any = None,
        causal: bool = False,
        cache: Any = None,
        weights: bool = False,
        heads: Any = None,
        cos_sin: Any = None,
        keys_mask: Any = None,
        training: bool | None = None,
        **unknown: Any,
    ) -> Any:
        """Return `attend`; Keras itself gives `keys_mask`, where the keys come from a layer with a mask."""
        return self.attend(
            queries,
            keys,
            values,
            valid_lens,
            start,
            positions=positions,
            key_positions=key_positions,
            mask=visible,
            causal=causal,
            cache=cache,
            weights=weights,
            heads=heads,
            cos_sin=cos_sin,
            keys_mask=keys_mask,
            training=training,
            **unknown,
        )

    def compute_output_spec(
        self, queries: Tensor, keys: Tensor = None, values: Tensor = None, *rest: Any, **options: Any
    ) -> Any:
        """Return the shapes before tokens come; the length of a cache is unknown."""
        if keys is None or values is None:
            raise missing_tokens(self, keys)
        spec, cache, weights = partial(keras.KerasTensor, dtype=self.compute_dtype), options.get("cache"), ()
        (batch, length, _), count = queries.shape, keys.shape[1] if cache is None else None
        if cache is None and not options.get("weights"):
            return spec(queries.shape)
        if options.get("weights"):
            weights = spec((batch, self.num_heads, length, count))
        of_cache = (batch, self.num_kv_heads, None, self.num_hiddens // self.num_heads)
        held = () if cache is None else (spec(of_cache), spec(of_cache))
        return layers.AttentionOutput(spec(queries.shape), weights, held)

    def get_config(self) -> dict[str, Any]:
        parts = [one for one in (self.rotary, self.scoring) if one is not None]
        if not self.is_shared:  # else layers, which Keras saves once for all blocks
            parts = [one.encoding.to_dict() for one in parts]
        position: Any = parts if len(parts) > 1 else parts[0] if parts else None
        sizes = {"num_hiddens": self.num_hiddens, "num_heads": self.num_heads, "dropout": self.dropout.rate}
        sizes |= {"bias": self.bias, "num_kv_heads": self.num_kv_heads, "max_len": self.max_len, "window": self.window}
        sizes["auto_expand"] = self.auto_expand
        values = {"query_scale": self.query_scale, "qk_norm": self.qk_norm}
        scale = {name: value.to_dict() for name, value in values.items() if value is not None}
        projection: Any = self.W_q
        projections = {name: own for name, own in projection.get_config().items() if name in OF_PROJECTIONS}
        return {**super().get_config(), **projections, **sizes, "position": position, **scale}
