"""Attention: every query takes the mean of the values, weighted by how well it matches their keys."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from ._arrays import A, Array, dtype_name, dtype_of, in_float32, namespace_of, shape_of
from ._checks import check_broadcasts, check_floating

Dropout = Callable[[Array], Array]


def attend(
    q: A, k: A, v: A, *, bias: Array | None = None, mask: Array | None = None, dropout: Dropout | None = None
) -> A:
    """softmax(q kᵀ / √width + bias) v; a query that sees no key gives zeros.

    Args:
        q: queries, shape `(..., queries, width)`.
        k, v: keys and values, shapes `(..., keys, width)` and `(..., keys, value_width)`.
        bias: added to the scores, broadcasts against `(..., queries, keys)`.
        mask: True where a query sees a key, broadcasts likewise.
        dropout: applied to the weights, in training.
    Returns:
        Array of shape `(..., queries, value_width)` and the dtype of `q`; half precision is computed in float32.
    Raises:
        TypeError: if `q` is not floating-point, or `mask` not bool.
        ValueError: if queries and keys differ in width, keys and values in number, or `bias` or `mask` does not broadcast
            to the scores.
    Source: Vaswani et al. 2017, equation 1 (arXiv:1706.03762).

    >>> import numpy as np
    >>> attend(np.ones((1, 4)), np.ones((2, 4)), np.array([[1.0], [3.0]]))
    array([[2.]])
    """
    check_floating("q", q)
    if q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        raise ValueError(
            "`q` and `k` must be equally wide and `k` and `v` equally long, "
            f"got shapes {tuple(q.shape)}, {tuple(k.shape)} and {tuple(v.shape)}."
        )
    scores = (*q.shape[:-1], k.shape[-2])
    if bias is not None:
        check_broadcasts("bias", bias, scores)
    if mask is not None:
        check_broadcasts("mask", mask, scores)
        if not dtype_name(mask).startswith("bool"):
            raise TypeError(f"`mask` must be bool, True where a query sees a key, got {dtype_name(mask)}.")
    return in_float32(partial(_attended, bias=bias, mask=mask, dropout=dropout), q, k, v)


def _attended(
    q: Array, k: Array, v: Array, *, bias: Array | None, mask: Array | None, dropout: Dropout | None
) -> Array:
    xp = namespace_of(q)
    if k.shape[-2] == 0:  # no maximum to subtract, and nothing to add up
        return xp.matmul(xp.matmul(q, xp.matrix_transpose(k)), v)
    weights = weigh(q, k, scale=1 / math.sqrt(q.shape[-1]), bias=bias, mask=mask)
    return xp.matmul(weights if dropout is None else dropout(weights), v)


def weigh(q: Array, k: Array, *, scale: float, bias: Array | None = None, mask: Array | None = None) -> Array:
    """Attention weights: `(..., queries, width) x (..., keys, width) -> (..., queries, keys)`; rows add up to 1, or to 0."""
    xp = namespace_of(q)
    scores: Array = xp.matmul(q, xp.matrix_transpose(k)) * scale
    if bias is not None:
        scores = scores + xp.astype(bias, dtype_of(scores))
    if mask is not None:
        scores = xp.where(mask, scores, xp.full_like(scores, -math.inf))
    peak = xp.max(scores, axis=-1, keepdims=True)
    peak = xp.where(peak > -math.inf, peak, xp.zeros_like(peak))
    parts = xp.exp(scores - peak)
    total = xp.sum(parts, axis=-1, keepdims=True)
    return parts / xp.where(total > 0, total, xp.ones_like(total))


def split_heads(x: A, num_heads: int) -> A:
    """`(batch, length, heads * width) -> (batch, heads, length, width)`."""
    xp = namespace_of(x)
    batch, length, _ = shape_of(x)
    heads = xp.reshape(x, (batch, length, num_heads, x.shape[-1] // num_heads))
    return xp.permute_dims(heads, (0, 2, 1, 3))


def merge_heads(x: A) -> A:
    """`(batch, heads, length, width) -> (batch, length, heads * width)`."""
    xp = namespace_of(x)
    batch, heads, length, width = shape_of(x)
    tokens = xp.permute_dims(x, (0, 2, 1, 3))
    return xp.reshape(tokens, (batch, length, heads * width))
