"""The attention layer of the NumPy room."""

from __future__ import annotations

from typing import Any

import numpy as np

from posenc_core import layers
from posenc_core.encodings import Rotary, Scoring
from posenc_core.holder import Room

from . import arrays
from .layers import AttentionBias, RotaryEmbedding


class MultiHeadAttention(layers.Attention):
    """Multi-head attention, as in d2l, with the positions inside where a rotary or scoring encoding is given.

    Args:
        num_hiddens: width of queries, keys, values and result.
        num_heads: number of heads; divides `num_hiddens`.
        dropout: checked, and not applied.
        bias: whether the projections have a bias.
        position: a rotary or scoring encoding.

    >>> import numpy as np
    >>> tokens = np.ones((2, 4, 100), np.float32)
    >>> MultiHeadAttention(100, 5, 0.5)(tokens, tokens, tokens, np.array([3, 2])).shape
    (2, 4, 100)
    """

    room: Room = arrays
    rotary_layer = RotaryEmbedding
    scoring_layer = AttentionBias

    def __init__(
        self,
        num_hiddens: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = False,
        *,
        position: Rotary | Scoring | None = None,
    ) -> None:
        layers.check_attention(num_hiddens, num_heads, position)
        layers.check_dropout(dropout)
        self.num_hiddens, self.num_heads = num_hiddens, num_heads
        self.W_q = Linear(num_hiddens, self.room, bias=bias)
        self.W_k = Linear(num_hiddens, self.room, bias=bias)
        self.W_v = Linear(num_hiddens, self.room, bias=bias)
        self.W_o = Linear(num_hiddens, self.room, bias=bias)
        self.rotary = self.rotary_layer(position) if isinstance(position, Rotary) else None
        self.scoring = self.scoring_layer(position) if isinstance(position, Scoring) else None

    def __call__(self, queries: Any, keys: Any, values: Any, valid_lens: Any = None) -> Any:
        """`(batch, queries, num_hiddens)`; `valid_lens`, `(batch,)` or `(batch, queries)`, says how many keys count."""
        return self.attended(queries, keys, values, valid_lens, lambda weights: weights)


class Linear:
    """A projection: `x @ kernel + bias`."""

    def __init__(self, width: int, room: Room, *, bias: bool) -> None:
        drawn = np.random.default_rng().uniform(-1, 1, (width, width)) / np.sqrt(width)
        self.kernel = room.from_numpy(drawn.astype(np.float32))
        self.bias = room.from_numpy(np.zeros(width, np.float32)) if bias else None

    def __call__(self, x: Any) -> Any:
        y = x @ self.kernel
        return y if self.bias is None else y + self.bias
