"""The attention layer of the Keras room."""

from __future__ import annotations

from functools import partial
from typing import Any

import keras

from posenc_core import layers
from posenc_core.encodings import RotaryEncoding, Scoring

from . import backend as arrays
from .base import Shell, Tensor, register
from .layers import AttentionBias, RotaryEmbedding


@register
class MultiHeadAttention(layers.Attention, Shell):
    """Multi-head attention, as in d2l, with the positions inside where a rotary or scoring encoding is given.

    Args:
        num_hiddens: width of queries, keys, values and result.
        num_heads: number of heads; divides `num_hiddens`.
        dropout: probability that an attention weight is dropped in training.
        bias: whether the projections have a bias.
        position: a rotary or scoring encoding, or the layer of one: blocks that are given one layer share its table.
        num_kv_heads: number of heads of keys and values, if fewer; each serves as many neighbouring heads of queries.
        max_len: number of positions whose angles are held from the start, where a rotary encoding is given; eager calls beyond
            it grow the tables.
        options: those of every Keras layer: `name`, `dtype`, `trainable`.

    >>> tuple(MultiHeadAttention(100, 5, 0.5)(*[keras.ops.ones((2, 4, 100))] * 3, [3, 2]).shape)
    (2, 4, 100)
    """

    backend = arrays

    def __init__(
        self,
        num_hiddens: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = False,
        *,
        position: RotaryEncoding | Scoring | RotaryEmbedding | AttentionBias | None = None,
        num_kv_heads: int | None = None,
        max_len: int = 2048,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        encoding = layers.encoding_of(position, self.backend)
        kv_heads = layers.check_attention(num_hiddens, num_heads, encoding, num_kv_heads)
        layers.check_dropout(dropout)
        self.num_hiddens, self.num_heads, self.num_kv_heads = num_hiddens, num_heads, kv_heads
        self.max_len = max_len
        self.bias, self.position, self.shares = bias, encoding, position is not encoding
        linear = partial(projection, num_hiddens, use_bias=bias, dtype=self.dtype_policy)
        narrow = kv_heads * num_hiddens // num_heads
        self.W_q, self.W_k, self.W_v = linear(num_hiddens), linear(narrow), linear(narrow)
        self.W_o = linear(num_hiddens)
        self.dropout = keras.layers.Dropout(dropout, autocast=False)
        rotary = partial(RotaryEmbedding, max_len=max_len, dtype=self.dtype_policy)
        self.rotary = layers.layer_of(position, RotaryEncoding, rotary)
        self.scoring = layers.layer_of(position, Scoring, AttentionBias)

    def __call__(self, *tokens: Any, mask: Any = None, **options: Any) -> Any:
        """`call`, whose `visible` is `mask`: Keras takes an argument of that name for the padding of the result."""
        return super().__call__(*tokens, **options if mask is None else {**options, "visible": mask})

    def call(  # noqa: PLR0913 - all that can be said of a call
        self,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        valid_lens: Any = None,
        start: Any = 0,
        *,
        positions: Any = None,
        key_positions: Any = None,
        visible: Any = None,
        causal: bool = False,
        cache: Any = None,
        weights: bool = False,
        keys_mask: Any = None,
        training: bool | None = None,
    ) -> Any:
        """`(batch, queries, num_hiddens)`, or `AttentionOutput` where `weights` or a `cache` are asked for; `Options` says it all.

        Keras itself gives `keys_mask`, where the keys come from a layer with a mask.
        """
        dropout = partial(self.dropout, training=True) if training and self.dropout.rate else None
        options = layers.Options(valid_lens, start, positions, key_positions, visible, causal, cache, weights)
        return self.attended(queries, keys, values, options, dropout, keys_mask)

    def compute_output_spec(self, queries: Tensor, keys: Tensor, *rest: Any, **options: Any) -> Any:
        """What a model has before its tokens come; how long a cache is, it does not know."""
        spec, cache, weights = partial(keras.KerasTensor, dtype=self.compute_dtype), options.get("cache"), ()
        (batch, length, _), count = queries.shape, keys.shape[1] if cache is None else None
        if cache is None and not options.get("weights"):
            return spec(queries.shape)
        if options.get("weights"):
            weights = spec((batch, self.num_heads, length, count))
        held = (batch, self.num_kv_heads, None, self.num_hiddens // self.num_heads)
        return layers.AttentionOutput(spec(queries.shape), weights, () if cache is None else (spec(held), spec(held)))

    def get_config(self) -> dict[str, Any]:
        sizes = {"num_hiddens": self.num_hiddens, "num_heads": self.num_heads, "dropout": self.dropout.rate}
        position: Any = None if self.position is None else self.position.to_dict()
        if self.shares:
            position = self.scoring if self.rotary is None else self.rotary  # which Keras saves once for all blocks
        sizes |= {"bias": self.bias, "num_kv_heads": self.num_kv_heads, "max_len": self.max_len}
        return {**super().get_config(), **sizes, "position": position}


def projection(width: int, out: int, **options: Any) -> keras.layers.Dense:
    """A `Dense` layer that has its weights from the start."""
    dense = keras.layers.Dense(out, **options)
    dense.build((None, width))
    return dense
