"""FIRE: the scoring encoding with a learned function of normalized distances."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from ..._array_api.checks import WIDEST, check_integer, check_number, is_specialized
from ..._array_api.namespace import Array, Weights, namespace_of, paired
from ...attention.bias import hidden_unit, normalized_distance, perceptron
from ..base import Parameter
from .base import PositionScoring

BLOCK = 128  # queries whose hidden units are in memory at a time


@dataclass(frozen=True, kw_only=True, repr=False)
class Fire(PositionScoring):
    """Functional interpolation (FIRE): a learned function of the distance, relative to its maximum for the query.

    A perceptron maps `log(1 + |c * distance|) / log(1 + |c * max(query, l * threshold)|)` to one number per head; c
    and l are also learned. The distance has no sign; a causal mask hides the keys after a query. 128 queries are
    computed at a time, so that memory holds the result twice and the hidden units of these queries.

    Args:
        num_heads: number of heads.
        hidden: number of hidden units.
        rate: the initial c.
        threshold: queries before `l` times this position are treated as if at that position; l starts at 1.
    Raises:
        ValueError: if `num_heads`, `hidden`, `rate` or `threshold` is not positive.
    Source: Li et al. 2024 (arXiv:2310.04418). Weights start as there with PyTorch's variance,
        1 / (3 * inputs), and normally distributed.

    >>> [parameter.shape for parameter in Fire(num_heads=12).parameters().values()]
    [(1,), (1,), (32,), (32,), (12, 32), (12,)]
    """

    hidden: int = 32
    rate: float = 0.1
    threshold: float = 512

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("hidden", self.hidden, maximum=WIDEST)
        check_number("rate", self.rate, above=0)
        check_number("threshold", self.threshold, above=0)

    is_relative: ClassVar[bool] = False

    head_axes: ClassVar[Mapping[str, int]] = {"head_weight": 0, "head_bias": 0}

    def parameters(self) -> dict[str, Parameter]:
        wide, narrow = math.sqrt(1 / 3), math.sqrt(1 / (3 * self.hidden))
        return {
            "c": Parameter(shape=(1,), std=0.0, mean=self.rate),
            "l": Parameter(shape=(1,), std=0.0, mean=1.0),
            "hidden_weight": Parameter(shape=(self.hidden,), std=wide),
            "hidden_bias": Parameter(shape=(self.hidden,), std=wide),
            "head_weight": Parameter(shape=(self.num_heads, self.hidden), std=narrow),
            "head_bias": Parameter(shape=(self.num_heads,), std=narrow),
        }

    def score(self, weights: Weights, query_positions: Array, key_positions: Array) -> Array:
        xp = namespace_of(query_positions)
        wide = {name: xp.astype(weights[name], xp.float32) for name in self.parameters()}
        return by_query_blocks(lambda block: self._scored(wide, block, key_positions), query_positions)

    def _scored(self, weights: Weights, query_positions: Array, key_positions: Array) -> Array:
        shares = self._shares(weights["c"], weights["l"], *paired(query_positions, key_positions))
        hidden, heads = ((weights[f"{name}_weight"], weights[f"{name}_bias"]) for name in ("hidden", "head"))
        return perceptron(shares, hidden, heads)

    def _shares(self, c: Array, l: Array, query: Array, key: Array) -> Array:
        return normalized_distance(c, namespace_of(query).abs(l * self.threshold), query, key)

    def score_of(self, weights: Weights, head: Array, query_position: Array, key_position: Array) -> Array:
        def number(name: str, *index: Any) -> Array:
            return xp.astype(weights[name][index], xp.float32)

        xp = namespace_of(query_position)
        share = self._shares(number("c", 0), number("l", 0), query_position, key_position)
        result = number("head_bias", head)
        for unit in range(self.hidden):
            output = hidden_unit(share, number("hidden_weight", unit), number("hidden_bias", unit))
            result = result + number("head_weight", head, unit) * output
        return result


def by_query_blocks(scored: Callable[[Array], Array], positions: Array) -> Array:
    """Return the scores of queries at these positions, block by block; at once where a tracer hides the length."""
    length = positions.shape[-1] if hasattr(positions, "shape") else None
    if length is None or not is_specialized(length, positions) or length <= BLOCK:
        return scored(positions)
    starts = range(0, length, BLOCK)
    blocks = [scored(positions[..., first : min(first + BLOCK, length)]) for first in starts]
    return namespace_of(positions).concat(blocks, axis=-2)
