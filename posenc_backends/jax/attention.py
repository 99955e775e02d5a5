"""The attention layer of the JAX room."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from jax import Array
from jax import numpy as jnp

from posenc_core import layers
from posenc_core.encodings import Rotary, Scoring

from . import arrays
from .holder import Module, dropped, normal, split
from .layers import AttentionBias, RotaryEmbedding


class Linear(Module):
    """`x @ weight`, plus a bias if there is one: `(..., width) -> (..., width)`."""

    children = ("weight", "bias")

    def __init__(self, width: int, bias: bool, key: Array) -> None:
        self.weight = normal(key, (width, width), 1 / math.sqrt(width))
        self.bias = jnp.zeros(width, jnp.float32) if bias else None

    def __call__(self, x: Array) -> Array:
        product = x @ self.weight
        return product if self.bias is None else product + self.bias


class MultiHeadAttention(layers.Attention, Module):
    """Multi-head attention, as in d2l, with the positions inside where a rotary or scoring encoding is given.

    Args:
        num_hiddens: width of queries, keys, values and result.
        num_heads: number of heads; divides `num_hiddens`.
        dropout: probability that an attention weight is dropped in calls that bring a `key`.
        bias: whether the projections have a bias.
        position: a rotary or scoring encoding.
        key: what parameters are drawn from; `jax.random.key(0)` by default.

    >>> MultiHeadAttention(100, 5, 0.5)(*[jnp.ones((2, 4, 100))] * 3, jnp.array([3, 2])).shape
    (2, 4, 100)
    """

    room = arrays
    children = ("W_q", "W_k", "W_v", "W_o", "rotary", "scoring")

    def __init__(
        self,
        num_hiddens: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = False,
        *,
        position: Rotary | Scoring | None = None,
        key: Any = None,
    ) -> None:
        layers.check_attention(num_hiddens, num_heads, position)
        layers.check_dropout(dropout)
        *keys, scoring_key = split(key, 5)
        self.num_hiddens, self.num_heads = num_hiddens, num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (Linear(num_hiddens, bias, key) for key in keys)
        self.dropout = dropout
        self.rotary = RotaryEmbedding(position) if isinstance(position, Rotary) else None
        self.scoring = AttentionBias(position, key=scoring_key) if isinstance(position, Scoring) else None

    def __call__(self, queries: Array, keys: Array, values: Array, valid_lens: Any = None, *, key: Any = None) -> Array:
        """`(batch, queries, num_hiddens)`; `valid_lens`, `(batch,)` or `(batch, queries)`, says how many keys count."""
        return self.attended(queries, keys, values, valid_lens, partial(dropped, rate=self.dropout, key=key))
