"""The attention layer of the NumPy room."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from posenc_core import layers
from posenc_core.encodings import RotaryEncoding, Scoring
from posenc_core.layers.base import Backend

from . import backend as arrays
from .layers import AttentionBias, RotaryEmbedding


class MultiHeadAttention(layers.Attention):
    """Multi-head attention, as in d2l, with the positions inside where a rotary or scoring encoding is given.

    Args:
        num_hiddens: width of queries, keys, values and result.
        num_heads: number of heads; divides `num_hiddens`.
        dropout: checked, and not applied.
        bias: whether the projections have a bias.
        position: a rotary or scoring encoding, or the layer of one: blocks that are given one layer share its table.
        num_kv_heads: number of heads of keys and values, if fewer; each serves as many neighbouring heads of queries.
        max_len: number of positions whose angles are held from the start, where a rotary encoding is given; eager calls beyond
            it grow the tables.

    >>> import numpy as np
    >>> tokens = np.ones((2, 4, 100), np.float32)
    >>> MultiHeadAttention(100, 5, 0.5)(tokens, tokens, tokens, np.array([3, 2])).shape
    (2, 4, 100)
    """

    backend: Backend = arrays
    rotary_layer = RotaryEmbedding
    scoring_layer = AttentionBias

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
        encoding = layers.encoding_of(position, self.backend)
        kv_heads = layers.check_attention(num_hiddens, num_heads, encoding, num_kv_heads)
        layers.check_dropout(dropout)
        self.num_hiddens, self.num_heads, self.num_kv_heads = num_hiddens, num_heads, kv_heads
        narrow = kv_heads * num_hiddens // num_heads
        self.W_q = Linear(num_hiddens, num_hiddens, self.backend, bias=bias)
        self.W_k = Linear(num_hiddens, narrow, self.backend, bias=bias)
        self.W_v = Linear(num_hiddens, narrow, self.backend, bias=bias)
        self.W_o = Linear(num_hiddens, num_hiddens, self.backend, bias=bias)
        self.rotary = layers.layer_of(position, RotaryEncoding, partial(self.rotary_layer, max_len=max_len))
        self.scoring = layers.layer_of(position, Scoring, self.scoring_layer)

    def __call__(  # noqa: PLR0913 - all that can be said of a call
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
        return self.attended(queries, keys, values, options, None)


class Linear:
    """A projection: `x @ kernel + bias`."""

    def __init__(self, width: int, out: int, backend: Backend, *, bias: bool) -> None:
        drawn = np.random.default_rng().uniform(-1, 1, (width, out)) / np.sqrt(width)
        self.kernel = backend.from_numpy(drawn.astype(np.float32))
        self.bias = backend.from_numpy(np.zeros(out, np.float32)) if bias else None

    def __call__(self, x: Any) -> Any:
        y = x @ self.kernel
        return y if self.bias is None else y + self.bias
