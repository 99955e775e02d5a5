"""T5's relative position bias: the scoring encoding with buckets of distances."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..._array_api.checks import WIDEST, check_integer, check_known, check_number
from ..._array_api.namespace import Array, namespace_of
from ...attention.bias import SIDES, Sides
from ...attention.buckets import gather_by_head, index_by_offset, offset_row, t5_buckets
from ..base import Parameter, Tables
from .base import PositionScoring


@dataclass(frozen=True, kw_only=True, repr=False)
class T5Bias(PositionScoring):
    """One learned number per head and bucket: short distances have a bucket each, long ones share buckets.

    Args:
        num_heads: number of heads.
        num_buckets: number of buckets; even if both sides have buckets.
        max_distance: the distance from which all larger ones share the last bucket of their side.
        sides: `"both"` gives keys after a query buckets of their own, for encoders; `"past"` puts them into the bucket
            of distance 0, for decoders with a causal mask.
        std: standard deviation of the normal distribution of the initial numbers.
    Raises:
        ValueError: if there are fewer than two buckets, an odd number for both sides, a `max_distance` that has a
            bucket of its own, an unknown side, or a negative `std`.
    Source: Raffel et al. 2020, section 2.1 (arXiv:1910.10683).

    >>> T5Bias(num_heads=12).parameters()
    {'table': Parameter(shape=(32, 12), std=0.02, mean=0.0)}
    """

    num_buckets: int = 32
    max_distance: int = 128
    sides: Sides = "both"
    std: float = 0.02

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("num_buckets", self.num_buckets, minimum=2, maximum=WIDEST)
        check_integer("max_distance", self.max_distance)
        check_known("sides", self.sides, SIDES)
        check_number("std", self.std, minimum=0)
        if self.sides == "both" and self.num_buckets % 2:
            raise ValueError(
                f"`num_buckets` must be even where both sides have some, got {self.num_buckets}; add one, or "
                "choose `sides='past'`."
            )
        single = self.num_buckets // (4 if self.sides == "both" else 2)
        if self.max_distance <= single:
            raise ValueError(
                f"`max_distance` must be greater than {single}, up to which each distance has one of the "
                f"{self.num_buckets} buckets of its own, got {self.max_distance}."
            )

    @property
    def needs_integer_positions(self) -> bool:
        return True

    def constants(self, max_len: int) -> Tables:
        return {"buckets": t5_buckets(self.num_buckets, self.max_distance, sides=self.sides)}

    def parameters(self) -> dict[str, Parameter]:
        return {"table": Parameter(shape=(self.num_buckets, self.num_heads), std=self.std)}

    def score(self, weights: Mapping[str, Array], query_positions: Array, key_positions: Array) -> Array:
        xp = namespace_of(query_positions)
        buckets = index_by_offset(weights["buckets"], query_positions, key_positions, reach=self.max_distance)
        return gather_by_head(xp.astype(weights["table"], xp.float32), buckets)

    def score_of(self, weights: Mapping[str, Array], head: Array, query_position: Array, key_position: Array) -> Array:
        xp = namespace_of(query_position)
        bucket = weights["buckets"][offset_row(query_position, key_position, reach=self.max_distance)]
        return xp.astype(weights["table"][bucket, head], xp.float32)
