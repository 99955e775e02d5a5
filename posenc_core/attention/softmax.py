"""Softmax: of whole rows, and of rows that are computed block by block (online softmax)."""

from __future__ import annotations

import math
from typing import NamedTuple

from .._array_api.namespace import Array, namespace_of


def softmax(scores: Array) -> Array:
    """Return weights that add up to 1 on the last axis, or to 0 where all scores are -inf."""
    xp = namespace_of(scores)
    parts = xp.exp(scores - _finite(xp.max(scores, axis=-1, keepdims=True)))
    return parts / _not_zero(xp.sum(parts, axis=-1, keepdims=True))


class OnlineSoftmaxState(NamedTuple):
    """The state of online softmax for some queries, after some of the keys.

    Attributes:
        max_score: the largest score, `(..., queries, 1)`.
        sum_of_weights: the sum of the weights `exp(score - max_score)`, `(..., queries, 1)`.
        weighted_values: the sum of the values, multiplied by these weights, `(..., queries, width)`.
    """

    max_score: Array
    sum_of_weights: Array
    weighted_values: Array


def partial_softmax(scores: Array) -> tuple[Array, Array]:
    """Return the largest score of each row, and the weights `exp(score - max_score)` of its keys."""
    xp = namespace_of(scores)
    max_score = xp.max(scores, axis=-1, keepdims=True)
    return max_score, xp.exp(scores - _finite(max_score))


def merge(before: OnlineSoftmaxState, after: OnlineSoftmaxState) -> OnlineSoftmaxState:
    """Return the state after the keys of both.

    Source: Milakov and Gimelshein 2018, algorithm 3 (arXiv:1805.02867).
    """
    xp = namespace_of(before.max_score)
    max_score = xp.maximum(before.max_score, after.max_score)
    left, right = (xp.exp(each.max_score - _finite(max_score)) for each in (before, after))
    return OnlineSoftmaxState(
        max_score,
        before.sum_of_weights * left + after.sum_of_weights * right,
        before.weighted_values * left + after.weighted_values * right,
    )


def weighted_mean(state: OnlineSoftmaxState) -> Array:
    """Return the weighted mean of the values, `(..., queries, width)`; 0 where all keys are hidden."""
    return state.weighted_values / _not_zero(state.sum_of_weights)


def log_sum_exp(state: OnlineSoftmaxState) -> Array:
    """Return log Σ exp(score) of each query, `(..., queries)`; -inf where all keys are hidden."""
    xp, total = namespace_of(state.max_score), state.sum_of_weights
    logarithm = xp.log(_not_zero(total)) + _finite(state.max_score)
    return xp.where(total > 0, logarithm, xp.full_like(logarithm, -math.inf))[..., 0]


def _finite(max_score: Array) -> Array:
    xp = namespace_of(max_score)
    return xp.where(max_score > -math.inf, max_score, xp.zeros_like(max_score))


def _not_zero(total: Array) -> Array:
    xp = namespace_of(total)
    return xp.where(total > 0, total, xp.ones_like(total))
