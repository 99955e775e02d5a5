"""Swin v2's continuous relative position bias: the scoring encoding of windows that may grow after training."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..._array_api.checks import WIDEST, check_integer, check_number
from ..._array_api.namespace import Array, Weights, namespace_of
from ...attention.buckets import check_window_sizes, gather_by_pair, window_index_checked
from ...attention.coordinate_mlp import log_coordinates_checked
from ...attention.forgetting_gates import sigmoid
from ...attention.relative import Positions
from ..base import Parameter, Tables
from .base import PositionScoring


@dataclass(frozen=True, kw_only=True, repr=False)
class SwinV2Bias(PositionScoring):
    """A learned function of the offset, in rows and columns on a logarithmic scale, of two cells of a window.

    A perceptron with one hidden layer maps the two coordinates to one number x per head; the bias is 16 sigmoid(x).
    Positions are token indices, row by row. A layer raises an error for a token outside the window; in traced code,
    which cannot check the index, its scores are NaN.

    Args:
        num_heads: number of heads.
        window: height and width, in tokens.
        trained_window: those of the window in training, whose coordinates stay where they were; `window` by default.
        hidden: number of hidden units.
        std: standard deviation of the normal distribution of the initial weights; hidden biases start at 0.
    Raises:
        ValueError: if a window is empty, not of two axes or of more than 8,192 cells, `hidden` not positive, or `std`
            negative.
    Source: Liu et al. 2022, "Swin Transformer V2", section 3.3 (arXiv:2111.09883), and their program.

    >>> [parameter.shape for parameter in SwinV2Bias(num_heads=3, window=(8, 8)).parameters().values()]
    [(512, 2), (512,), (3, 512)]
    """

    window: tuple[int, int]
    trained_window: tuple[int, int] | None = None
    hidden: int = 512
    std: float = 0.02

    def __post_init__(self) -> None:
        super().__post_init__()
        check_window_sizes("window", self.window)
        if self.trained_window is not None:
            check_window_sizes("trained_window", self.trained_window)
        check_integer("hidden", self.hidden, maximum=WIDEST)
        check_number("std", self.std, minimum=0)

    needs_integer_positions: ClassVar[bool] = True

    @property
    def limit(self) -> int:
        return math.prod(self.window)

    takes_ranges: ClassVar[bool] = True

    is_relative: ClassVar[bool] = False

    head_axes: ClassVar[Mapping[str, int]] = {"head_weight": 0}

    def constants(self, max_len: int) -> Tables:
        height, width = self.window
        rows, columns = (
            log_coordinates_checked(size, trained)
            for size, trained in zip(self.window, self.trained_window or self.window, strict=True)
        )
        pairs = np.stack(np.meshgrid(rows, columns, indexing="ij"), axis=-1).reshape(-1, 2)
        index = np.pad(window_index_checked(height, width), 1, constant_values=len(pairs))
        return {"index": index.ravel(), "coordinates": pairs}

    def parameters(self) -> dict[str, Parameter]:
        return {
            "hidden_weight": Parameter(shape=(self.hidden, 2), std=self.std),
            "hidden_bias": Parameter(shape=(self.hidden,), std=0.0),
            "head_weight": Parameter(shape=(self.num_heads, self.hidden), std=self.std),
        }

    def score(self, weights: Weights, query_positions: Positions, key_positions: Positions) -> Array:
        xp = namespace_of(weights["index"])
        wide = {name: xp.astype(weights[name], xp.float32) for name in self.parameters()}
        units = xp.matmul(weights["coordinates"], xp.matrix_transpose(wide["hidden_weight"])) + wide["hidden_bias"]
        units = xp.maximum(units, xp.zeros_like(units))
        table = sigmoid(xp.matmul(units, xp.matrix_transpose(wide["head_weight"]))) * 16
        return gather_by_pair(table, weights["index"], query_positions, key_positions, tokens=self.limit)
