"""Swin's relative position bias: the scoring encoding of windows of an image."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..._array_api.checks import check_integer, check_number, shown
from ..._array_api.namespace import Array, Weights, namespace_of
from ...attention.buckets import check_window_sizes, gather_by_pair, pair_row, window_index_checked
from ...attention.relative import Positions
from ..base import Parameter, Tables
from .base import PositionScoring


@dataclass(frozen=True, kw_only=True, repr=False)
class SwinBias(PositionScoring):
    """One learned number per head and offset, in rows and columns, of two cells of a window.

    Positions are token indices: the class token, if any, then the cells row by row. A layer raises an error for a
    token outside the window; in traced code, which cannot check the index, its scores are NaN.

    Args:
        num_heads: number of heads.
        window: height and width, in tokens.
        prefix_tokens: 1 if a class token precedes the cells, as in BEiT; it has three more rows, at the end:
            for its scores with cells, for theirs with it, and for its score with itself.
        std: standard deviation of the normal distribution of the initial numbers.
    Raises:
        ValueError: if the window is empty, not of two axes or of more than 8,192 cells, `prefix_tokens` neither 0 nor
            1, or `std` negative.
    Source: Liu et al. 2021, section 3.2 (arXiv:2103.14030); Bao et al. 2022 (arXiv:2106.08254) for the class token.

    >>> SwinBias(num_heads=3, window=(7, 7)).parameters()
    {'table': Parameter(shape=(169, 3), std=0.02, mean=0.0)}
    """

    window: tuple[int, int]
    prefix_tokens: int = 0
    std: float = 0.02

    def __post_init__(self) -> None:
        super().__post_init__()
        check_window_sizes("window", self.window)
        check_integer("prefix_tokens", self.prefix_tokens, minimum=0)
        if self.prefix_tokens > 1:
            raise ValueError(f"`prefix_tokens` must be 0 or 1, for a class token, got {shown(self.prefix_tokens)}.")
        check_number("std", self.std, minimum=0)

    needs_integer_positions: ClassVar[bool] = True

    @property
    def limit(self) -> int:
        return math.prod(self.window) + self.prefix_tokens

    takes_ranges: ClassVar[bool] = True

    is_relative: ClassVar[bool] = False

    @property
    def _rows(self) -> int:
        height, width = self.window
        return (2 * height - 1) * (2 * width - 1) + 3 * self.prefix_tokens

    head_axes: ClassVar[Mapping[str, int]] = {"table": 1}

    def constants(self, max_len: int) -> Tables:
        index = window_index_checked(*self.window, self.prefix_tokens)
        return {"index": np.pad(index, 1, constant_values=self._rows).ravel()}

    def parameters(self) -> dict[str, Parameter]:
        return {"table": Parameter(shape=(self._rows, self.num_heads), std=self.std)}

    def score(self, weights: Weights, query_positions: Positions, key_positions: Positions) -> Array:
        xp, index = namespace_of(weights["index"]), weights["index"]
        table = xp.astype(weights["table"], xp.float32)
        return gather_by_pair(table, index, query_positions, key_positions, tokens=self.limit)

    def score_of(self, weights: Weights, head: Array, query_position: Array, key_position: Array) -> Array:
        xp = namespace_of(query_position)
        row = weights["index"][pair_row(query_position, key_position, tokens=self.limit)]
        last = xp.full_like(row, self._rows - 1)
        score = xp.astype(weights["table"][xp.minimum(row, last), head], xp.float32)
        return xp.where(row > last, xp.full_like(score, math.nan), score)
