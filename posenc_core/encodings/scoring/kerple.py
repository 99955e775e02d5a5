"""KERPLE: the scoring encoding with learned kernels of the distance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from ..._array_api.checks import check_known
from ..._array_api.namespace import Array, Weights, namespace_of
from ...attention.bias import (
    SIDES,
    Sides,
    clamped,
    distance_of,
    distances_checked,
    logarithmic_bias_checked,
    per_head_checked,
    power_bias_checked,
)
from ..base import Parameter
from .base import PositionScoring

Variant: TypeAlias = Literal["logarithmic", "power"]
VARIANTS = ("logarithmic", "power")
LEAST = 0.01  # of both learned numbers


@dataclass(frozen=True, kw_only=True, repr=False)
class Kerple(PositionScoring):
    """Kernelized relative positions (KERPLE): minus a function of the distance with two learned numbers per head.

    Learned numbers below 0.01 count as 0.01, exponents above 2 as 2; there they have no gradient. They start normally
    distributed, with a standard deviation of a fifth of the mean: r1 near 1 and r2 near 1/2 for `"logarithmic"`, r1
    near 1/2 and r2 near 1 for `"power"`.

    Args:
        num_heads: number of heads.
        variant: `"logarithmic"`, `-r1 * log(1 + r2 * distance)`, or `"power"`, `-r1 * distance ** r2`.
        sides: `"both"` treats keys after a query like those before it; `"past"` puts them at distance 0. Only a
            causal mask hides them.
    Raises:
        ValueError: if `num_heads` is not positive, or another argument unknown.
    Source: Chi et al. 2022 (arXiv:2205.09921); their numbers start uniformly distributed, with these means.

    >>> Kerple(num_heads=12).parameters()["r2"]
    Parameter(shape=(12,), std=0.1, mean=0.5)
    """

    variant: Variant = "logarithmic"
    sides: Sides = "both"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_known("variant", self.variant, VARIANTS)
        check_known("sides", self.sides, SIDES)

    head_axes: ClassVar[Mapping[str, int]] = {"r1": 0, "r2": 0}

    def parameters(self) -> dict[str, Parameter]:
        means = (1.0, 0.5) if self.variant == "logarithmic" else (0.5, 1.0)
        shape = (self.num_heads,)
        return {
            name: Parameter(shape=shape, std=mean / 5, mean=mean)
            for name, mean in zip(("r1", "r2"), means, strict=True)
        }

    has_offset_table: ClassVar[bool] = True

    def offset_table(self, weights: Weights, offsets: npt.NDArray[Any]) -> Array:
        return distance_of(np.zeros_like(offsets), offsets, sides=self.sides)

    def by_offset(self, weights: Weights, rows: Array) -> Array:
        r1, r2 = (namespace_of(rows).expand_dims(weights[name], axis=-1) for name in ("r1", "r2"))
        return self._of_distance(r1, r2, rows)

    def score(self, weights: Weights, query_positions: Array, key_positions: Array) -> Array:
        far = distances_checked(query_positions, key_positions, self.sides)
        return self._of_distance(per_head_checked(weights["r1"]), per_head_checked(weights["r2"]), far)

    def score_of(self, weights: Weights, head: Array, query_position: Array, key_position: Array) -> Array:
        far = distance_of(query_position, key_position, sides=self.sides)
        return self._of_distance(weights["r1"][head], weights["r2"][head], far)

    def _of_distance(self, r1: Array, r2: Array, far: Array) -> Array:
        size = clamped(r1, minimum=LEAST)
        if self.variant == "logarithmic":
            return logarithmic_bias_checked(size, clamped(r2, minimum=LEAST), far)
        return power_bias_checked(size, clamped(r2, minimum=LEAST, maximum=2), far)
