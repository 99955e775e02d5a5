"""ALiBi: the scoring encoding with one slope per head."""

from __future__ import annotations

from dataclasses import dataclass

from ..._array_api.checks import check_known, check_number
from ..._array_api.namespace import Array, Weights
from ...attention.bias import (
    SIDES,
    SLOPE_ORDERS,
    Sides,
    SlopeOrder,
    alibi_slopes_checked,
    distance_of,
    distances_checked,
    linear_bias_checked,
    per_head_checked,
)
from ..base import Tables
from .base import PositionScoring


@dataclass(frozen=True, kw_only=True, repr=False)
class Alibi(PositionScoring):
    """Attention with linear biases (ALiBi): minus slope × distance, with one slope per head.

    For padded rows, pass positions: `from_mask` counts them as Bloom does.

    Args:
        num_heads: number of heads.
        slopes: for a `num_heads` that is not a power of two: `"press"`, the slopes of Press et al.'s program, also in
            Bloom, MPT and others; or `"geometric"`, their paper's formula for any number, as in MLX.
        max_bias: the slope of the last head is `2 ** -max_bias`: `alibi_bias_max` in other libraries.
        sides: `"both"` treats keys after a query like those before it; `"past"` puts them at distance 0. Only a
            causal mask hides them.
    Raises:
        ValueError: if `num_heads` or `max_bias` is not positive, or another argument unknown.
    Source: Press et al. 2022 (arXiv:2108.12409).

    >>> Alibi(num_heads=2).bias([2], [0, 1, 2])
    array([[[-0.125     , -0.0625    , -0.        ]],
    <BLANKLINE>
           [[-0.0078125 , -0.00390625, -0.        ]]], dtype=float32)
    """

    slopes: SlopeOrder = "press"
    max_bias: float = 8
    sides: Sides = "both"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_known("slopes", self.slopes, SLOPE_ORDERS)
        check_number("max_bias", self.max_bias, above=0)
        check_known("sides", self.sides, SIDES)

    def constants(self, max_len: int) -> Tables:
        return {"slopes": alibi_slopes_checked(self.num_heads, self.slopes, self.max_bias)}

    def score(self, weights: Weights, query_positions: Array, key_positions: Array) -> Array:
        far = distances_checked(query_positions, key_positions, self.sides)
        return linear_bias_checked(per_head_checked(weights["slopes"]), far)

    def score_of(self, weights: Weights, head: Array, query_position: Array, key_position: Array) -> Array:
        far = distance_of(query_position, key_position, sides=self.sides)
        return linear_bias_checked(weights["slopes"][head], far)
