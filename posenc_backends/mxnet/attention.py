"""The attention layer of the MXNet room."""

from __future__ import annotations

from functools import partial
from typing import Any

import mxnet as mx
import numpy as np
from mxnet.gluon import nn

from posenc_core import layers
from posenc_core.encodings import RotaryEncoding, Scoring
from posenc_core.layers.base import host_values

from . import backend as arrays
from .base import Block
from .layers import AttentionBias, RotaryEmbedding
from .symbolic import layers as traced


class MultiHeadAttention(layers.Attention, Block):
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

    >>> mx.npx.set_np()
    >>> attention = MultiHeadAttention(100, 5, 0.5)
    >>> attention.initialize()
    >>> attention(*[mx.np.ones((2, 4, 100))] * 3, mx.np.array([3, 2])).shape
    (2, 4, 100)
    """

    backend = arrays
    rotary: RotaryEmbedding | None
    scoring: AttentionBias | None

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
        self.head_dim = num_hiddens // num_heads
        linear = partial(Projection, use_bias=bias, flatten=False, in_units=num_hiddens)
        narrow = kv_heads * self.head_dim
        with self.name_scope():
            self.W_q, self.W_k, self.W_v, self.W_o = map(linear, (num_hiddens, narrow, narrow, num_hiddens))
            self.dropout = nn.Dropout(dropout)
            self.rotary = layers.layer_of(position, RotaryEncoding, partial(RotaryEmbedding, max_len=max_len))
            self.scoring = layers.layer_of(position, Scoring, AttentionBias)

    def __call__(  # type: ignore[override]  # noqa: PLR0913 - all that can be said of a call
        self,
        queries: Any,
        keys: Any,
        values: Any,
        valid_lens: Any = None,
        start: Any = 0,
        *,
        positions: Any = None,
        key_positions: Any = None,
        mask: Any = None,
        causal: bool = False,
        cache: Any = None,
        weights: bool = False,
    ) -> Any:
        """`(batch, queries, num_hiddens)`, or `AttentionOutput` where `weights` or a `cache` are asked for; `Options` says it all."""
        options = layers.Options(valid_lens, start, positions, key_positions, mask, causal, cache, weights)
        return super().__call__(queries, keys, values, options)

    def forward(self, queries: Any, keys: Any, values: Any, options: layers.Options) -> Any:
        if arrays.is_traced(queries):
            return traced.Attending(self).run((queries, keys, values), options)
        if not (self._active and queries.size and self._is_plain(options)) or self._beyond(queries, keys):
            return self.attended(queries, keys, values, options, self.dropout)
        return super().forward(queries, keys, values, self._lengths(queries, keys, values, options))

    def _is_plain(self, options: layers.Options) -> bool:
        """Whether it is a call of the one graph: positions from 0 on, and keys hidden by lengths or causally."""
        _, start, *given, _, cache, weights = options._replace(causal=False)
        counts = isinstance(start, int) and start == 0 and all(x is None for x in (*given, cache))
        return counts and not weights

    def _beyond(self, queries: Any, keys: Any) -> bool:
        """Whether the sequence is longer than the frequencies are for that a graph has."""
        longest = None if self.rotary is None else self.rotary.encoding.max_seq_len
        return longest is not None and max(queries.shape[1], keys.shape[1]) > longest

    def _lengths(self, queries: Any, keys: Any, values: Any, options: layers.Options) -> mx.np.ndarray:
        """Lengths for the graph, which has them always, as it is made once for all calls; causal ones are lengths, too."""
        self.check(queries, keys, values)
        if self.rotary is not None and self.rotary.tables:
            for tokens in (queries, keys):
                self.rotary.rows(tokens)  # grows the tables
        given, sizes = options.valid_lens, (len(queries), queries.shape[1], keys.shape[1])
        lengths: Any = np.full(len(keys), keys.shape[1]) if given is None else host_values(given, arrays)
        layers.check_valid_lens(lengths.shape, lengths, sizes)
        if options.causal:
            lengths = np.minimum(lengths.reshape(len(lengths), -1), 1 + np.arange(queries.shape[1]))
        return arrays.from_numpy(lengths.astype(np.int32), like=queries)

    def hybrid_forward(self, F: Any, queries: Any, keys: Any, values: Any, valid_lens: Any) -> Any:  # noqa: N803
        return self.forward(queries, keys, values, layers.Options(valid_lens))


class Projection(nn.Dense):
    """A `Dense` that, in half precision, computes in float32 and rounds once: without a GPU, MXNet's own does not run."""

    def hybrid_forward(self, F: Any, x: Any, weight: Any, bias: Any = None) -> Any:  # noqa: N803
        if np.dtype(self.weight.dtype) != np.float16:
            return super().hybrid_forward(F, x, weight, bias)
        wide = (None if given is None else given.astype("float32") for given in (x, weight, bias))
        return super().hybrid_forward(F, *wide).astype("float16")
