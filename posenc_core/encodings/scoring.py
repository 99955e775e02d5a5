"""The scoring encodings: what they know of two positions is added to the score of query and key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .._arrays import Array
from ..bias import alibi_slopes, linear
from .encoding import Scoring, Tables


@dataclass(frozen=True, kw_only=True, repr=False)
class Alibi(Scoring):
    """Attention with linear biases: each head loses its slope × the distance.

    Args:
        num_heads: number of heads.
    Raises:
        ValueError: if `num_heads` is not positive.
    Source: Press et al. 2022 (arXiv:2108.12409).

    >>> Alibi(num_heads=2).bias([2], [0, 1, 2])
    array([[[-0.125     , -0.0625    , -0.        ]],
    <BLANKLINE>
           [[-0.0078125 , -0.00390625, -0.        ]]], dtype=float32)
    """

    def constants(self, max_len: int) -> Tables:
        return {"slopes": alibi_slopes(self.num_heads)}

    def score(self, weights: Mapping[str, Array], query_positions: Array, key_positions: Array) -> Array:
        return linear(weights["slopes"], query_positions, key_positions)
