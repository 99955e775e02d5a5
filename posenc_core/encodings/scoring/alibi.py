"""ALiBi: the scoring encoding with one slope per head."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..._array_api.checks import check_known, check_number, shown
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
            Bloom, MPT and others; or `"geometric"`, their paper's formula for any number. Or one number for each head,
            0 for a head without ALiBi.
        max_bias: the slope of the last head is `2 ** -max_bias`: `alibi_bias_max` in other libraries.
        sides: `"both"` treats keys after a query like those before it; `"past"` puts them at distance 0. Only a
            causal mask hides them.
    Raises:
        TypeError, ValueError: if `num_heads` or `max_bias` is not positive, another argument unknown, or given slopes
            are not one for each head, from 0 up to 2**127, or have a `max_bias` beside them.
    Source: Press et al. 2022 (arXiv:2108.12409).

    >>> Alibi(num_heads=2).bias([2], [0, 1, 2])
    array([[[-0.125     , -0.0625    , -0.        ]],
    <BLANKLINE>
           [[-0.0078125 , -0.00390625, -0.        ]]], dtype=float32)
    """

    slopes: SlopeOrder | tuple[float, ...] = "press"
    max_bias: float = 8
    sides: Sides = "both"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("max_bias", self.max_bias, above=0)
        if isinstance(self.slopes, tuple):
            self._check_slopes(self.slopes)
        else:
            check_known("slopes", self.slopes, SLOPE_ORDERS)
        check_known("sides", self.sides, SIDES)

    def _check_slopes(self, slopes: tuple[float, ...]) -> None:
        if len(slopes) != self.num_heads:
            raise ValueError(f"`slopes` must be {self.num_heads} numbers, one for each head, got {shown(slopes)}.")
        for slope in slopes:
            check_number("slopes", slope, minimum=0)
        if max(slopes) >= 2.0**127:
            raise ValueError(f"`slopes` must be below 2**127, got {shown(slopes)}.")
        if self.max_bias != Alibi.max_bias:
            raise ValueError(f"`max_bias` must be left out where `slopes` are given, got {shown(self.max_bias)}.")

    head_axes: ClassVar[Mapping[str, int]] = {"slopes": 0}

    def constants(self, max_len: int) -> Tables:
        if isinstance(self.slopes, tuple):
            return {"slopes": np.array(self.slopes, np.float32)}
        return {"slopes": alibi_slopes_checked(self.num_heads, self.slopes, self.max_bias)}

    def score(self, weights: Weights, query_positions: Array, key_positions: Array) -> Array:
        far = distances_checked(query_positions, key_positions, self.sides)
        return linear_bias_checked(per_head_checked(weights["slopes"]), far)

    def score_of(self, weights: Weights, head: Array, query_position: Array, key_position: Array) -> Array:
        far = distance_of(query_position, key_position, sides=self.sides)
        return linear_bias_checked(weights["slopes"][head], far)
