"""The attention layer of the JAX room."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from jax import Array
from jax import numpy as jnp

from posenc_core import layers
from posenc_core.encodings import RotaryEncoding, Scoring

from . import backend as arrays
from .base import Module, dropped, normal, split, to_backend
from .layers import AttentionBias, RotaryEmbedding


class Linear(Module):
    """`x @ weight`, plus a bias if there is one, in the dtype of `x`: `(..., width) -> (..., out)`."""

    children = ("weight", "bias")

    def __init__(self, width: int, out: int, bias: bool, key: Array) -> None:
        self.weight = normal(key, (width, out), 1 / math.sqrt(width))
        self.bias = jnp.zeros(out, jnp.float32) if bias else None

    def __call__(self, x: Array) -> Array:
        x = jnp.asarray(x)
        product = x @ to_backend(self.weight).astype(x.dtype)
        return product if self.bias is None else product + to_backend(self.bias).astype(x.dtype)


class MultiHeadAttention(layers.Attention, Module):
    """Multi-head attention, as in d2l, with the positions inside where a rotary or scoring encoding is given.

    The result has the dtype of the tokens, as in the other layers: in half precision, weights are rounded to it in each
    call, as those of a layer of flax with that `dtype`; they stay float32, to be trained.

    Args:
        num_hiddens: width of queries, keys, values and result.
        num_heads: number of heads; divides `num_hiddens`.
        dropout: probability that an attention weight is dropped in calls that bring a `key`.
        bias: whether the projections have a bias.
        position: a rotary or scoring encoding, or the layer of one: blocks that are given one layer share its table.
        num_kv_heads: number of heads of keys and values, if fewer; each serves as many neighbouring heads of queries.
        max_len: number of positions whose angles are held from the start, where a rotary encoding is given; eager calls beyond
            it grow the tables.
        key: what parameters are drawn from; `jax.random.key(0)` by default.

    >>> MultiHeadAttention(100, 5, 0.5)(*[jnp.ones((2, 4, 100))] * 3, jnp.array([3, 2])).shape
    (2, 4, 100)
    """

    backend = arrays
    children = ("W_q", "W_k", "W_v", "W_o", "rotary", "scoring")

    def __init__(  # noqa: PLR0913 - all that can be said of a layer
        self,
        num_hiddens: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = False,
        *,
        position: RotaryEncoding | Scoring | RotaryEmbedding | AttentionBias | None = None,
        num_kv_heads: int | None = None,
        max_len: int = 2048,
        key: Any = None,
    ) -> None:
        encoding = layers.encoding_of(position, self.backend)
        _check_unlearned(position, encoding)
        kv_heads = layers.check_attention(num_hiddens, num_heads, encoding, num_kv_heads)
        layers.check_dropout(dropout)
        *keys, scoring_key = split(key, 5)
        self.num_hiddens, self.num_heads, self.num_kv_heads = num_hiddens, num_heads, kv_heads
        narrow = kv_heads * num_hiddens // num_heads
        widths = (num_hiddens, narrow, narrow, num_hiddens)
        made = (Linear(num_hiddens, out, bias, key) for out, key in zip(widths, keys, strict=True))
        self.W_q, self.W_k, self.W_v, self.W_o = made
        self.dropout = dropout
        self.rotary = layers.layer_of(position, RotaryEncoding, partial(RotaryEmbedding, max_len=max_len))
        self.scoring = layers.layer_of(position, Scoring, partial(AttentionBias, key=scoring_key))

    def __call__(  # noqa: PLR0913 - all that can be said of a call
        self,
        queries: Array,
        keys: Array,
        values: Array,
        valid_lens: Any = None,
        start: Any = 0,
        *,
        positions: Any = None,
        key_positions: Any = None,
        mask: Any = None,
        causal: bool = False,
        cache: Any = None,
        weights: bool = False,
        key: Any = None,
    ) -> Any:
        """`(batch, queries, num_hiddens)`, or `AttentionOutput` where `weights` or a `cache` are asked for; `Options` says it all."""
        options = layers.Options(valid_lens, start, positions, key_positions, mask, causal, cache, weights)
        dropout = partial(dropped, rate=self.dropout, key=key) if self.dropout and key is not None else None
        return self.attended(queries, keys, values, options, dropout)


def _check_unlearned(position: Any, encoding: Any) -> None:
    """Raise for a layer with leaves: a tree that had them twice would be trained as if they were two."""
    if position is not encoding and encoding.parameters():
        raise ValueError(
            f"`position` must be an encoding, got the layer of {encoding!r}, which learns: "
            "JAX would train its leaves in each block apart."
        )
