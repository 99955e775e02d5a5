"""Decomposed relative positions: the scoring encoding of ViTDet, SAM and MViTv2, a vector per offset of each axis."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..._array_api.checks import check_integer, check_number, shown
from ..._array_api.namespace import Array, Weights, dtype_of, namespace_of, paired, take_nd
from ...attention.attend import AttentionInputs
from ...attention.buckets import bordered, check_window_sizes, offset_row
from ...attention.relative import Positions, integers_of, offsets
from ..base import Parameter, Tables
from .base import ContentScoring, Pairs


@dataclass(frozen=True, kw_only=True, repr=False)
class DecomposedBias(ContentScoring):
    """One learned vector per offset in rows and one per offset in columns, which the heads share.

    The product of a query, not divided by √head_dim, with the sum of both vectors is added to its score. Positions are
    token indices: the class token, if any, then the cells row by row. Scores with a class token get 0, those with a
    token outside the window NaN.

    Args:
        num_heads: number of heads.
        head_dim: width of each head's queries and keys.
        window: height and width of the image or window, in tokens.
        key_window: those of the keys where they are pooled, as in MViTv2; `window` by default. On each axis one
            size is a multiple of the other.
        prefix_tokens: 1 if a class token precedes the cells.
        std: standard deviation of the normal distribution of the initial vectors.
    Raises:
        ValueError: if a window is empty, not of two axes or of more than 8,192 cells, sizes are not multiples,
            `prefix_tokens` neither 0 nor 1, or `std` negative.
    Source: Li et al. 2022, "MViTv2", section 4.1 (arXiv:2112.01526); Li et al. 2022, ViTDet (arXiv:2203.16527).

    >>> DecomposedBias(num_heads=2, head_dim=4, window=(14, 14)).parameters()["rows"]
    Parameter(shape=(27, 4), std=0.02, mean=0.0)
    """

    window: tuple[int, int]
    key_window: tuple[int, int] | None = None
    prefix_tokens: int = 0
    std: float = 0.02

    def __post_init__(self) -> None:
        super().__post_init__()
        check_window_sizes("window", self.window)
        if self.key_window is not None:
            check_window_sizes("key_window", self.key_window)
        for pair in zip(*self._windows, strict=True):
            if max(pair) % min(pair):
                raise ValueError(
                    f"`key_window` must have multiples or divisors of the sizes of `window` {self.window}, got "
                    f"{shown(self.key_window)}."
                )
        check_integer("prefix_tokens", self.prefix_tokens, minimum=0, maximum=1)
        check_number("std", self.std, minimum=0)

    needs_integer_positions: ClassVar[bool] = True

    @property
    def limit(self) -> int:
        return max(map(math.prod, self._windows)) + self.prefix_tokens

    @property
    def _windows(self) -> tuple[tuple[int, int], tuple[int, int]]:
        return self.window, self.window if self.key_window is None else self.key_window

    @property
    def _tokens(self) -> dict[str, int]:
        names = ("query", "key")
        return {name: math.prod(sizes) + self.prefix_tokens for name, sizes in zip(names, self._windows, strict=True)}

    def _reach(self, axis: str) -> int:
        return self.parameters()[axis].shape[0] // 2

    def constants(self, max_len: int) -> Tables:
        tables: Tables = {}
        for axis, (name, sizes) in enumerate(zip(("rows", "columns"), zip(*self._windows, strict=True), strict=True)):
            steps, last = [max(sizes) // size for size in sizes], max(sizes) - 1
            cells = [np.indices(window)[axis].ravel() for window in self._windows]
            # keys are moved so that their offset from a query, query less key, is counted from 0 by `offsets`
            places = -cells[0] * steps[0], (sizes[1] - 1 - cells[1]) * steps[1] - last
            for tokens, place in zip(("query", "key"), places, strict=True):
                tables[f"{tokens}_{name}"] = np.pad(place, (1 + self.prefix_tokens, 1)).astype(np.int32)
        for tokens, window in zip(("query", "key"), self._windows, strict=True):
            factors = [math.nan, *[0.0] * self.prefix_tokens, *[1.0] * math.prod(window), math.nan]
            tables[f"{tokens}_factors"] = np.array(factors, np.float32)
        return tables

    def parameters(self) -> dict[str, Parameter]:
        rows, columns = (2 * max(sizes) - 1 for sizes in zip(*self._windows, strict=True))
        return {
            name: Parameter(shape=(count, self.head_dim), std=self.std)
            for name, count in {"rows": rows, "columns": columns}.items()
        }

    def scores(
        self, weights: Weights, query_positions: Positions, key_positions: Positions, content: AttentionInputs
    ) -> Array:
        xp, q = namespace_of(content.q), content.q
        given = {"query": query_positions, "key": key_positions}
        at = {
            name: bordered(integers_of(f"{name}_positions", given[name], q), tokens)
            for name, tokens in self._tokens.items()
        }
        in_window, factor = paired(*(take_nd(weights[f"{name}_factors"], index, axis=0) for name, index in at.items()))
        added = xp.zeros_like(content.scores)
        for axis in ("rows", "columns"):
            table = xp.astype(weights[axis], dtype_of(q))
            places = (take_nd(weights[f"{name}_{axis}"], index, axis=0) for name, index in at.items())
            relative = offsets(*places, limit=self._reach(axis), like=q)
            added = added + relative.expand_offsets(xp.matmul(q, xp.matrix_transpose(table)))
        return added * xp.astype(xp.expand_dims(in_window * factor, axis=-3), dtype_of(q))

    lookup_inputs: ClassVar[tuple[str, ...]] = ("queries",)

    def lookup_tables(self, weights: Weights, q: Any, k: Any) -> dict[str, Array]:
        xp = namespace_of(q)
        tables = {axis: xp.astype(weights[axis], dtype_of(q)) for axis in ("rows", "columns")}
        return {axis: xp.matmul(q, xp.matrix_transpose(table)) for axis, table in tables.items()}

    def score_of(self, weights: Weights, tables: Weights, scores: Array, pairs: Pairs) -> Array:
        query = bordered(pairs.query_position, self._tokens["query"])
        key = bordered(pairs.key_position, self._tokens["key"])
        rows, columns = (
            table[
                pairs.row,
                pairs.head,
                pairs.query,
                offset_row(weights[f"query_{axis}"][query], weights[f"key_{axis}"][key], reach=self._reach(axis)),
            ]
            for axis, table in tables.items()
        )
        return (rows + columns) * (weights["query_factors"][query] * weights["key_factors"][key])
