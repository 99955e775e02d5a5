"""T5's relative position bias: the scoring encoding with buckets of distances."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ..._array_api.checks import check_number
from ..._array_api.namespace import Array, Weights, namespace_of
from ...attention.bias import Sides
from ...attention.buckets import check_buckets, gather_by_head, index_by_offset, offset_row, t5_buckets_checked
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
        ValueError: if there are fewer than two buckets or more than 4,096, an odd number for both sides, a
            `max_distance` that has a bucket of its own or is above 2**24, an unknown side, or a negative `std`.
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
        check_buckets(self.num_buckets, self.max_distance, self.sides)
        check_number("std", self.std, minimum=0)

    needs_integer_positions: ClassVar[bool] = True

    head_axes: ClassVar[Mapping[str, int]] = {"table": 1}

    def constants(self, max_len: int) -> Tables:
        return {"buckets": t5_buckets_checked(self.num_buckets, self.max_distance, self.sides)}

    def parameters(self) -> dict[str, Parameter]:
        return {"table": Parameter(shape=(self.num_buckets, self.num_heads), std=self.std)}

    def bucket_of(self, offsets: Any) -> npt.NDArray[np.int32]:
        """Return the bucket of each offset (key less query), of any shape: a row of the learned table.

        Args:
            offsets: integers, a list or an array of any library.
        Raises:
            TypeError, ValueError: if they are not integers below 2**31 in size.

        >>> T5Bias(num_heads=1, num_buckets=8, max_distance=8).bucket_of([[0, 1], [-1, -100]]).tolist()
        [[0, 5], [1, 3]]
        """
        zero, flat, shape = self._flat_offsets(offsets, None)
        buckets = index_by_offset(self.constants(0)["buckets"], zero, flat, reach=self.max_distance)
        return np.reshape(buckets, shape)  # type: ignore[call-overload]

    has_offset_table: ClassVar[bool] = True

    def offset_table(self, weights: Weights, offsets: npt.NDArray[Any]) -> Array:
        return index_by_offset(weights["buckets"], np.zeros(1, offsets.dtype), offsets, reach=self.max_distance)[0]

    def by_offset(self, weights: Weights, rows: Array) -> Array:
        xp = namespace_of(rows)
        table: Array = xp.astype(weights["table"], xp.float32)
        return xp.take(xp.matrix_transpose(table), rows, axis=1)

    def score(self, weights: Weights, query_positions: Array, key_positions: Array) -> Array:
        xp = namespace_of(query_positions)
        buckets = index_by_offset(weights["buckets"], query_positions, key_positions, reach=self.max_distance)
        return gather_by_head(xp.astype(weights["table"], xp.float32), buckets)

    def score_of(self, weights: Weights, head: Array, query_position: Array, key_position: Array) -> Array:
        xp = namespace_of(query_position)
        bucket = weights["buckets"][offset_row(query_position, key_position, reach=self.max_distance)]
        return xp.astype(weights["table"][bucket, head], xp.float32)
