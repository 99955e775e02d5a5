"""The named results of attention."""

from __future__ import annotations

from typing import NamedTuple

from .backend import Tensor


class AttentionOutput(NamedTuple):
    """The result of `MultiHeadAttention` if weights or a cache are requested.

    Attributes:
        result: shape `(batch, queries, num_hiddens)`.
        weights: attention weights before dropout, `(batch, num_heads, queries, keys)`; () if not requested. Where
            processes share the heads, these and the cache have the heads of the process.
        cache: keys (rotated by a rotary encoding, unless it remaps positions) and values of all tokens so far, each of
            shape `(batch, num_kv_heads, length, head_dim)`, keys of `PoPE` twice as wide; () if not requested. Keys
            are not rotated beside a scoring encoding that looks at them.
    """

    result: Tensor
    weights: Tensor = ()
    cache: Tensor = ()
