"""The attention layer of the MXNet room."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import mxnet as mx
import numpy as np
from mxnet.gluon import nn

from posenc_core import layers
from posenc_core.attention import weigh
from posenc_core.encodings import Rotary, Scoring
from posenc_core.holder import host_values

from . import arrays, graph
from . import namespace as xp
from .holder import Block
from .layers import AttentionBias, RotaryEmbedding


class MultiHeadAttention(layers.Attention, Block):
    """Multi-head attention, as in d2l, with the positions inside where a rotary or scoring encoding is given.

    Args:
        num_hiddens: width of queries, keys, values and result.
        num_heads: number of heads; divides `num_hiddens`.
        dropout: probability that an attention weight is dropped in training.
        bias: whether the projections have a bias.
        position: a rotary or scoring encoding.

    >>> mx.npx.set_np()
    >>> attention = MultiHeadAttention(100, 5, 0.5)
    >>> attention.initialize()
    >>> attention(*[mx.np.ones((2, 4, 100))] * 3, mx.np.array([3, 2])).shape
    (2, 4, 100)
    """

    room = arrays
    rotary: RotaryEmbedding | None
    scoring: AttentionBias | None

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
        self.head_dim = num_hiddens // num_heads
        linear = partial(nn.Dense, num_hiddens, use_bias=bias, flatten=False, in_units=num_hiddens)
        with self.name_scope():
            self.W_q, self.W_k, self.W_v, self.W_o = linear(), linear(), linear(), linear()
            self.dropout = nn.Dropout(dropout)
            self.rotary = RotaryEmbedding(position) if isinstance(position, Rotary) else None
            self.scoring = AttentionBias(position) if isinstance(position, Scoring) else None

    def __call__(self, queries: Any, keys: Any, values: Any, valid_lens: Any = None) -> Any:
        """`(batch, queries, num_hiddens)`; `valid_lens`, `(batch,)` or `(batch, queries)`, says how many keys count."""
        return super().__call__(queries, keys, values, valid_lens)

    def forward(self, queries: Any, keys: Any, values: Any, valid_lens: Any) -> Any:
        if arrays.is_traced(queries):
            return super().forward(queries, keys, values, valid_lens)
        if not (self._active and queries.size) or self._beyond(queries, keys):
            return self.attended(queries, keys, values, valid_lens, self.dropout)
        return super().forward(queries, keys, values, self._checked(queries, keys, values, valid_lens))

    def _beyond(self, queries: Any, keys: Any) -> bool:
        """Whether the sequence is longer than the frequencies are for that a graph has."""
        longest = None if self.rotary is None else self.rotary.encoding.longest
        return longest is not None and max(queries.shape[1], keys.shape[1]) > longest

    def _checked(self, queries: Any, keys: Any, values: Any, valid_lens: Any) -> mx.np.ndarray:
        """Lengths for the graph, which has them always, as it is made once for calls with and without them."""
        self.check(queries, keys, values)
        if self.rotary is not None and self.rotary.tables:
            for tokens in (queries, keys):
                self.rotary.rows(tokens)  # grows the tables
        lengths: Any = np.full(len(keys), keys.shape[1]) if valid_lens is None else host_values(valid_lens, arrays)
        layers.check_valid_lens(lengths.shape, lengths, (len(queries), queries.shape[1], keys.shape[1]))
        return arrays.from_numpy(lengths.astype(np.float32), like=queries)

    def hybrid_forward(self, F: Any, queries: Any, keys: Any, values: Any, valid_lens: Any = None) -> Any:  # noqa: N803
        projected = self.W_q(queries), self.W_k(keys), self.W_v(values)
        q, k, v = (graph.split_heads(x, self.num_heads, self.head_dim) for x in projected)
        if self.rotary is not None:
            q, k = self.rotary(q), self.rotary(k, k)[1] if self.rotary.as_keys else self.rotary(k)
        bias = None if self.scoring is None else self.scoring.of(q, k)
        mask = None if valid_lens is None else graph.visible(valid_lens, q, k)
        attend = partial(self._attend, bias=bias, mask=mask)
        return self.W_o(graph.merge_heads(self.in_float32(attend, q, k, v)))

    def _attend(self, q: Any, k: Any, v: Any, **seen: Any) -> Any:
        return xp.matmul(self.dropout(weigh(q, k, scale=1 / math.sqrt(self.head_dim), **seen)), v)
