"""Dynamic position bias: the scoring encoding with a perceptron of the signed distance."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from ..._array_api.checks import WIDEST, check_flag, check_integer
from ..._array_api.namespace import Array, Weights, difference, namespace_of, paired
from ...attention.coordinate_mlp import layers_of
from ...positions.sequences import LIMIT
from ..base import Parameter
from .base import PositionScoring
from .fire import by_query_blocks

DEEPEST = 64  # layers


@dataclass(frozen=True, kw_only=True, repr=False)
class DynamicPositionBias(PositionScoring):
    """A learned function of the distance, query minus key: a perceptron with SiLU between its layers.

    Plain sequences compute it once for each distance. At given positions, memory holds the hidden units of 128 queries.

    Args:
        num_heads: number of heads.
        hidden: number of hidden units of a layer.
        depth: number of hidden layers.
        log_distance: whether the input is `sign(d) * log(1 + |d|)` in place of the distance d.
    Raises:
        ValueError: if a number is not positive, or `depth` above 64.
        TypeError: if `log_distance` is not a bool.
    Source: x-transformers `DynamicPositionBias` without `norm`; the idea is of Wang et al. 2022, "CrossFormer"
        (arXiv:2108.00154), whose distances are of two axes. Weights start as there with PyTorch's variance,
        1 / (3 * inputs), and normally distributed.

    >>> [parameter.shape for parameter in DynamicPositionBias(num_heads=8, hidden=16, depth=1).parameters().values()]
    [(16, 1), (16,), (8, 16), (8,)]
    """

    hidden: int
    depth: int = 2
    log_distance: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("hidden", self.hidden, maximum=WIDEST)
        check_integer("depth", self.depth, maximum=DEEPEST)
        check_flag("log_distance", self.log_distance)

    @property
    def _layers(self) -> tuple[str, ...]:
        return (*(f"hidden_{number}" for number in range(self.depth)), "head")

    head_axes: ClassVar[Mapping[str, int]] = {"head_weight": 0, "head_bias": 0}

    def parameters(self) -> dict[str, Parameter]:
        described, inputs = {}, 1
        for name in self._layers:
            outputs = self.num_heads if name == "head" else self.hidden
            std = math.sqrt(1 / (3 * inputs))
            described[f"{name}_weight"] = Parameter(shape=(outputs, inputs), std=std)
            described[f"{name}_bias"] = Parameter(shape=(outputs,), std=std)
            inputs = self.hidden
        return described

    def score(self, weights: Weights, query_positions: Array, key_positions: Array) -> Array:
        xp = namespace_of(query_positions)
        wide = {name: xp.astype(weights[name], xp.float32) for name in self.parameters()}
        return by_query_blocks(lambda block: self._scored(wide, block, key_positions), query_positions)

    def _scored(self, weights: Weights, query_positions: Array, key_positions: Array) -> Array:
        xp = namespace_of(query_positions)
        far = xp.astype(difference(*paired(query_positions, key_positions), limit=LIMIT - 1), xp.float32)
        if self.log_distance:
            logarithm = xp.log(xp.abs(far) + 1)
            far = xp.where(far < xp.zeros_like(far), -logarithm, logarithm)
        layers = [(weights[f"{name}_weight"], weights[f"{name}_bias"]) for name in self._layers]
        by_pair = layers_of(xp.expand_dims(far, axis=-1), layers)  # (..., queries, keys, heads)
        return xp.permute_dims(by_pair, (0, 3, 1, 2) if len(getattr(far, "shape", ())) == 3 else (2, 0, 1))
