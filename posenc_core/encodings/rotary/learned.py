"""The rotary encoding whose frequencies are learned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..._array_api.checks import check_number, shown
from ..._array_api.namespace import Array, Weights, namespace_of
from ...tables.angles import angles
from ...tables.frequencies import as_float64
from ..base import Parameter, Tables
from .rotary import Rotary


@dataclass(frozen=True, kw_only=True, repr=False)
class LearnedRotary(Rotary):
    """`Rotary` with each frequency multiplied by `exp(alpha)`; alpha is learned, one number for each pair.

    A layer computes cosine and sine in its framework, in float32, so that they have a gradient; angles are off by about
    2**-24 of their size. `cos_sin` returns the table at alpha 0.

    Args:
        std: standard deviation of the normal distribution of the initial alpha; by default alpha starts at 0.
    Raises:
        ValueError: if `std` is negative, `scaling` depends on the length, or `precision` is not `"exact"`.

    >>> LearnedRotary(head_dim=4, layout="half").parameters()
    {'alpha': Parameter(shape=(2,), std=0.0, mean=0.0)}
    """

    std: float = 0.0

    def __post_init__(self, frequencies: Any) -> None:
        super().__post_init__(frequencies)
        check_number("std", self.std, minimum=0)
        if self.max_seq_len is not None:
            raise ValueError(
                f"`scaling` must not depend on the length where frequencies are learned, got {shown(self.scaling)}."
            )

    table_names: ClassVar[tuple[str, ...]] = ()
    computes_rows: ClassVar[bool] = True

    def constants(self, max_len: int) -> Tables:
        factor = self.attention_factor
        return {
            "frequencies": as_float64(self.exact_frequencies()[: self.pairs]).astype(np.float32),
            "cos_factor": np.array([factor], np.float32),
            "sin_factor": np.array([-factor if self.direction == "inverse" else factor], np.float32),
        }

    def parameters(self) -> dict[str, Parameter]:
        return {"alpha": Parameter(shape=(self.pairs,), std=self.std)}

    def rows_of(self, weights: Weights, positions: Array) -> tuple[Array, Array]:
        """Return cosine and sine from the arrays of a layer, float32: `(..., length) -> (..., length, pairs)` each."""
        xp = namespace_of(positions)
        learned = weights["frequencies"] * xp.exp(xp.astype(weights["alpha"], xp.float32))
        radians = angles(xp.astype(positions, xp.float32), learned)
        return xp.cos(radians) * weights["cos_factor"], xp.sin(radians) * weights["sin_factor"]
