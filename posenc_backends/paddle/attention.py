"""The attention layer of the Paddle room."""

from __future__ import annotations

from functools import partial
from typing import Any

import paddle
from paddle import Tensor, nn

from posenc_core import layers
from posenc_core.encodings import RotaryEncoding, Scoring

from . import backend as arrays
from .base import Loading
from .layers import AttentionBias, RotaryEmbedding


@paddle.jit.marker.unified
class MultiHeadAttention(layers.Attention, Loading):
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

    >>> import paddle
    >>> MultiHeadAttention(100, 5, 0.5)(*[paddle.ones([2, 4, 100])] * 3, paddle.to_tensor([3, 2])).shape
    paddle.Size([2, 4, 100])
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
    ) -> None:
        super().__init__()
        encoding = layers.encoding_of(position, self.backend)
        kv_heads = layers.check_attention(num_hiddens, num_heads, encoding, num_kv_heads)
        layers.check_dropout(dropout)
        self.num_hiddens, self.num_heads, self.num_kv_heads = num_hiddens, num_heads, kv_heads
        bias_attr = None if bias else False
        narrow = kv_heads * num_hiddens // num_heads
        self.W_q = nn.Linear(num_hiddens, num_hiddens, bias_attr=bias_attr)
        self.W_k = nn.Linear(num_hiddens, narrow, bias_attr=bias_attr)
        self.W_v = nn.Linear(num_hiddens, narrow, bias_attr=bias_attr)
        self.W_o = nn.Linear(num_hiddens, num_hiddens, bias_attr=bias_attr)
        self.dropout = nn.Dropout(dropout)
        self.rotary = layers.layer_of(position, RotaryEncoding, partial(RotaryEmbedding, max_len=max_len))
        self.scoring = layers.layer_of(position, Scoring, AttentionBias)

    def forward(  # noqa: PLR0913, PLR0917 - all that can be said of a call
        self,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        valid_lens: Any = None,
        start: Any = 0,
        positions: Any = None,  # not by keyword alone, as elsewhere: `to_static` takes such arrays for constants
        key_positions: Any = None,
        mask: Any = None,
        causal: bool = False,
        cache: Any = None,
        weights: bool = False,
    ) -> Any:
        """`(batch, queries, num_hiddens)`, or `AttentionOutput` where `weights` or a `cache` are asked for; `Options` says it all."""
        options = layers.Options(valid_lens, start, positions, key_positions, mask, causal, cache, weights)
        queries, keys, values = (arrays.sized(x, {-1: self.num_hiddens}) for x in (queries, keys, values))
        return self.attended(queries, keys, values, options, self.dropout if self.training and self.dropout.p else None)
