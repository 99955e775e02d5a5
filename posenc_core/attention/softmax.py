"""Softmax: of rows that are there as a whole, and of rows that come block by block."""

from __future__ import annotations

import math
from typing import NamedTuple

from .._array_api.namespace import Array, namespace_of


def softmax(scores: Array) -> Array:
    """Weights that add up to 1 on the last axis, or to 0 where all scores are -inf."""
    xp = namespace_of(scores)
    parts = xp.exp(scores - _finite(xp.max(scores, axis=-1, keepdims=True)))
    return parts / _not_zero(xp.sum(parts, axis=-1, keepdims=True))


class OnlineSoftmaxState(NamedTuple):
    """What is known of a row after some of its keys.

    Attributes:
        peak: the largest score, `(..., queries, 1)`.
        total: the sum of the weights, as multiples of that of the peak, `(..., queries, 1)`.
        mixed: the sum of the values by these weights, `(..., queries, width)`.
    """

    peak: Array
    total: Array
    mixed: Array


def partial_softmax(scores: Array) -> tuple[Array, Array]:
    """The largest score of each row, and the weights of its keys as multiples of that one's."""
    xp = namespace_of(scores)
    peak = xp.max(scores, axis=-1, keepdims=True)
    return peak, xp.exp(scores - _finite(peak))


def merge(before: OnlineSoftmaxState, after: OnlineSoftmaxState) -> OnlineSoftmaxState:
    """What is known after the keys of both.

    Source: Milakov and Gimelshein 2018, algorithm 3 (arXiv:1805.02867).
    """
    xp = namespace_of(before.peak)
    peak = xp.maximum(before.peak, after.peak)
    left, right = (xp.exp(each.peak - _finite(peak)) for each in (before, after))
    return OnlineSoftmaxState(
        peak, before.total * left + after.total * right, before.mixed * left + after.mixed * right
    )


def mean(sums: OnlineSoftmaxState) -> Array:
    """The weighted mean of the values, `(..., queries, width)`; 0 where no key was seen."""
    return sums.mixed / _not_zero(sums.total)


def _finite(peak: Array) -> Array:
    xp = namespace_of(peak)
    return xp.where(peak > -math.inf, peak, xp.zeros_like(peak))


def _not_zero(total: Array) -> Array:
    xp = namespace_of(total)
    return xp.where(total > 0, total, xp.ones_like(total))
