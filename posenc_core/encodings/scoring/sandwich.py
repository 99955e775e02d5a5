"""Sandwich: the scoring encoding with the products of sinusoidal rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..._array_api.checks import check_even, check_integer, check_number
from ..._array_api.namespace import Array, Weights, namespace_of
from ...attention.bias import FARTHEST_SANDWICH, WIDEST_SANDWICH, per_head_checked, sandwich_sums_checked
from ...attention.buckets import index_by_offset, offset_row
from ..base import Tables
from .base import PositionScoring


@dataclass(frozen=True, kw_only=True, repr=False)
class Sandwich(PositionScoring):
    """A sum of cosines of the distance, which is the product of the sinusoidal rows of query and key; no parameters.

    Head h = 1 … `num_heads` divides the sum by `8 * h / num_heads`. The sum falls like a logarithm of the distance, on
    both sides of a query.

    Args:
        num_heads: number of heads.
        max_distance: the largest distance with a bias of its own; larger ones share that bias. At least the longest
            sequence less 1 gives the published function.
        dim: the width of the sinusoidal rows, even, whatever the width of a token is.
        base: their base.
    Raises:
        ValueError: if a number is not positive, `dim` odd, `base` not above 1, `dim` above 4,096, or
            `max_distance` above 65,536.
    Source: Chi et al. 2022 (arXiv:2212.10356).

    >>> Sandwich(num_heads=2, max_distance=4096, dim=4).bias([2], [0, 1, 2])
    array([[[0.49995   , 0.4999875 , 0.5       ]],
    <BLANKLINE>
           [[0.249975  , 0.24999376, 0.25      ]]], dtype=float32)
    """

    max_distance: int
    dim: int = 128
    base: float = 10000

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("max_distance", self.max_distance, maximum=FARTHEST_SANDWICH)
        check_integer("dim", check_even("dim", self.dim), maximum=WIDEST_SANDWICH)
        check_number("base", self.base, above=1)

    needs_integer_positions: ClassVar[bool] = True

    head_axes: ClassVar[Mapping[str, int]] = {"factors": 0}

    def constants(self, max_len: int) -> Tables:
        sums = sandwich_sums_checked(self.max_distance, self.dim, self.base)
        factors = [self.num_heads / (8 * head) for head in range(1, self.num_heads + 1)]
        return {"sums": sums, "factors": np.array(factors, np.float32)}

    def score(self, weights: Weights, query_positions: Array, key_positions: Array) -> Array:
        sums = index_by_offset(weights["sums"], query_positions, key_positions, reach=self.max_distance)
        return per_head_checked(weights["factors"]) * namespace_of(sums).expand_dims(sums, axis=-3)

    def score_of(self, weights: Weights, head: Array, query_position: Array, key_position: Array) -> Array:
        row = offset_row(query_position, key_position, reach=self.max_distance)
        return weights["factors"][head] * weights["sums"][row]
