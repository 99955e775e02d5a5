"""The attention layer of the Keras room."""

from __future__ import annotations

from functools import partial
from typing import Any

import keras

from posenc_core import layers
from posenc_core.encodings import Rotary, Scoring

from . import arrays
from .holder import Shape, Shell, Tensor, register
from .layers import AttentionBias, RotaryEmbedding


@register
class MultiHeadAttention(layers.Attention, Shell):
    """Multi-head attention, as in d2l, with the positions inside where a rotary or scoring encoding is given.

    Args:
        num_hiddens: width of queries, keys, values and result.
        num_heads: number of heads; divides `num_hiddens`.
        dropout: probability that an attention weight is dropped in training.
        bias: whether the projections have a bias.
        position: a rotary or scoring encoding.
        options: those of every Keras layer: `name`, `dtype`, `trainable`.

    >>> tuple(MultiHeadAttention(100, 5, 0.5)(*[keras.ops.ones((2, 4, 100))] * 3, [3, 2]).shape)
    (2, 4, 100)
    """

    room = arrays

    def __init__(
        self,
        num_hiddens: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = False,
        *,
        position: Rotary | Scoring | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        layers.check_attention(num_hiddens, num_heads, position)
        layers.check_dropout(dropout)
        self.num_hiddens, self.num_heads, self.bias, self.position = num_hiddens, num_heads, bias, position
        linear = partial(projection, num_hiddens, use_bias=bias, dtype=self.dtype_policy)
        self.W_q, self.W_k, self.W_v, self.W_o = linear(), linear(), linear(), linear()
        self.dropout = keras.layers.Dropout(dropout, autocast=False)
        self.rotary = RotaryEmbedding(position, dtype=self.dtype_policy) if isinstance(position, Rotary) else None
        self.scoring = AttentionBias(position) if isinstance(position, Scoring) else None

    def call(
        self,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        valid_lens: Any = None,
        keys_mask: Any = None,
        training: bool | None = None,
    ) -> Tensor:
        """`(batch, queries, num_hiddens)`; `valid_lens`, `(batch,)` or `(batch, queries)`, says how many keys count.

        Keras itself gives `keys_mask`, where the keys come from a layer with a mask.
        """
        return self.attended(queries, keys, values, valid_lens, partial(self.dropout, training=training), keys_mask)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return input_shape

    def get_config(self) -> dict[str, Any]:
        sizes = {"num_hiddens": self.num_hiddens, "num_heads": self.num_heads, "dropout": self.dropout.rate}
        position = None if self.position is None else self.position.to_dict()
        return {**super().get_config(), **sizes, "bias": self.bias, "position": position}


def projection(num_hiddens: int, **options: Any) -> keras.layers.Dense:
    """A `Dense` layer that has its weights from the start."""
    dense = keras.layers.Dense(num_hiddens, **options)
    dense.build((None, num_hiddens))
    return dense
