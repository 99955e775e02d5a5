"""The attention layer of the Paddle room."""

from __future__ import annotations

from typing import Any

import paddle
from paddle import Tensor, nn

from posenc_core import layers
from posenc_core.encodings import Rotary, Scoring

from . import arrays
from .layers import AttentionBias, RotaryEmbedding


@paddle.jit.marker.unified
class MultiHeadAttention(layers.Attention, nn.Layer):
    """Multi-head attention, as in d2l, with the positions inside where a rotary or scoring encoding is given.

    Args:
        num_hiddens: width of queries, keys, values and result.
        num_heads: number of heads; divides `num_hiddens`.
        dropout: probability that an attention weight is dropped in training.
        bias: whether the projections have a bias.
        position: a rotary or scoring encoding.

    >>> import paddle
    >>> MultiHeadAttention(100, 5, 0.5)(*[paddle.ones([2, 4, 100])] * 3, paddle.to_tensor([3, 2])).shape
    paddle.Size([2, 4, 100])
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
    ) -> None:
        super().__init__()
        layers.check_attention(num_hiddens, num_heads, position)
        layers.check_dropout(dropout)
        self.num_hiddens, self.num_heads = num_hiddens, num_heads
        bias_attr = None if bias else False
        self.W_q = nn.Linear(num_hiddens, num_hiddens, bias_attr=bias_attr)
        self.W_k = nn.Linear(num_hiddens, num_hiddens, bias_attr=bias_attr)
        self.W_v = nn.Linear(num_hiddens, num_hiddens, bias_attr=bias_attr)
        self.W_o = nn.Linear(num_hiddens, num_hiddens, bias_attr=bias_attr)
        self.dropout = nn.Dropout(dropout)
        self.rotary = RotaryEmbedding(position) if isinstance(position, Rotary) else None
        self.scoring = AttentionBias(position) if isinstance(position, Scoring) else None

    def forward(self, queries: Tensor, keys: Tensor, values: Tensor, valid_lens: Any = None) -> Tensor:
        """`(batch, queries, num_hiddens)`; `valid_lens`, `(batch,)` or `(batch, queries)`, says how many keys count."""
        return self.attended(queries, keys, values, valid_lens, self.dropout)
