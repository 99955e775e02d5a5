"""Factors of queries that depend on their position."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, get_args

import numpy as np
import numpy.typing as npt

from .._array_api.checks import WIDEST, check_integer, check_known, check_number, check_rank, is_static, shown
from .._array_api.lazy import tables_by_block
from .._array_api.namespace import Array, Weights, namespace_of
from ..attention.bias import per_head_checked
from ..positions.sequences import LIMIT
from ..tables.query_factors import Growth, float64_factors, logarithms, query_factors
from ..tables.sincos import DType, check_dtype
from .base import Parameter, Tables, Tabular

LARGEST_SCALE = 2**16  # of a logarithm
LARGEST_POWER = 0.5  # up to which no power of a ratio lies halfway between two float32 numbers


@dataclass(frozen=True, kw_only=True, repr=False)
class QueryEncoding(Tabular):
    """An encoding that multiplies each query by a factor of its position."""

    layer_name: ClassVar[str] = "QueryScaling"

    @abstractmethod
    def factors_of(self, weights: Weights, rows: Array) -> Array:
        """Return the factors of queries, `(..., length, 1)`, which broadcast against `(..., heads, length, head_dim)`.

        Args:
            weights: the constants and parameters of a layer, by name.
            rows: the rows of the table for the queries, `(..., length, 1)`.
        """

    def check_queries(self, q: Array, num_heads: int | None = None) -> None:
        """Raise unless the encoding is for queries of this shape, of so many heads, or all."""


@dataclass(frozen=True, kw_only=True, repr=False)
class QueryScale(QueryEncoding):
    """A factor of each query that grows with its position, so that attention stays sharp over long contexts.

    Also called attention temperature tuning or LogN. With n = position + `start`, L = `length` and s = `scale`, the
    factor is

    * `"steps"`: 1 + s ln(1 + floor(n / L)), in Llama 4 (on layers without RoPE), Ministral 3 and Mistral 4;
    * `"log"`: 1 + s ln(max(1, n / L)), in Inkling 2; without a scale s = 1 / ln L, and the factor is
      max(1, log n / log L), LogN in Qwen;
    * `"power"`: (1 + n / L) ** s, in Beam (on layers without RoPE).

    `MultiHeadAttention(query_scale=…)` multiplies queries by it, with or without a rotary encoding.

    Args:
        length: L, the number of tokens up to which the factor is 1, or nearly 1 for `"power"`.
        scale: s, above 0; at most 65,536, for `"power"` at most 0.5. None for 1 / ln L, with `"log"` alone.
        growth: the formula.
        start: the number of the token at position 0: 1 in Llama 4, Beam, Inkling 2 and LogN, 0 in Ministral 3 and
            Mistral 4.
    Raises:
        TypeError: if an argument is not a number.
        ValueError: if an argument is out of range, or `scale` is missing.
    Source: Llama 4, Ministral 3, Beam, Inkling 2: their code in transformers 5.23. LogN: Su 2021, "Attention's scale
        operation from entropy invariance"; Bai et al. 2023, section 2.4.2 (arXiv:2309.16609). Nakanishi 2025
        (arXiv:2501.19399), to which Llama 4 refers.

    >>> QueryScale(length=8192, scale=0.1).factors([0, 8191, 2**17])
    array([1.       , 1.0693147, 1.2833214], dtype=float32)
    """

    length: int
    scale: float | None = None
    growth: Growth = "steps"
    start: int = 1

    table_names: ClassVar[tuple[str, ...]] = ("factors",)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_known("growth", self.growth, get_args(Growth))
        check_integer("length", self.length, maximum=LIMIT)
        check_integer("start", self.start, minimum=0, maximum=1)
        if self.scale is None:
            self._check_default()
            return
        check_number("scale", self.scale, above=0)
        largest = LARGEST_POWER if self.growth == "power" else LARGEST_SCALE
        if self.scale > largest:
            raise ValueError(f"`scale` must be at most {largest} for growth {self.growth!r}, got {shown(self.scale)}.")

    def _check_default(self) -> None:
        if self.growth != "log":
            raise ValueError(f"`scale` must be given for growth {self.growth!r}, got None.")
        if self.length < 2:
            raise ValueError(f"`length` must be at least 2 if `scale` is None, got {self.length}.")

    def factors(self, positions: Any) -> npt.NDArray[np.float32]:
        """Return the factor of the query at each position, float32, the shape of `positions`, correctly rounded.

        Raises:
            TypeError: if positions are not integers.
            ValueError: if one of them is negative or not below 2**31.
        """
        column: npt.NDArray[np.float32] = tables_by_block(self._column, positions)
        return column[..., 0]

    def rows(self, positions: Any, dtype: DType = np.float32) -> Tables:
        return {"factors": self._column(positions, dtype)}

    def factors_of(self, weights: Weights, rows: Array) -> Array:
        return rows

    def _column(self, positions: Any, dtype: DType = np.float32) -> npt.NDArray[Any]:
        compute = query_factors if check_dtype(dtype) is np.float32 else float64_factors
        counts = self._integers(positions, minimum=0) + self.start
        return compute(counts, growth=self.growth, length=self.length, scale=self.scale)[..., None]


@dataclass(frozen=True, kw_only=True, repr=False)
class LearnedQueryScale(QueryEncoding):
    """A learned factor of each query: slope * ln(position + 1) + intercept, with two numbers for each head.

    Slopes start at 0 and intercepts at 1, where the factor is 1. The logarithms are a table, correctly rounded; a layer
    multiplies and adds in float32. Mistral Large 4 learns a pair in each layer, `softmax_scaling.scale` and
    `softmax_scaling.bias` of its checkpoints.

    Args:
        num_heads: number of heads of the queries.
    Raises:
        TypeError: if `num_heads` is not an integer.
        ValueError: if it is out of range.
    Source: Mistral Large 4: its code in transformers 5.23.

    >>> LearnedQueryScale(num_heads=2).parameters()["slope"]
    Parameter(shape=(2,), std=0.0, mean=0.0)
    """

    num_heads: int

    table_names: ClassVar[tuple[str, ...]] = ("logarithms",)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("num_heads", self.num_heads, maximum=WIDEST)

    head_axes: ClassVar[Mapping[str, int]] = {"slope": 0, "intercept": 0}

    def parameters(self) -> dict[str, Parameter]:
        return {
            "slope": Parameter(shape=(self.num_heads,), std=0.0),
            "intercept": Parameter(shape=(self.num_heads,), std=0.0, mean=1.0),
        }

    def rows(self, positions: Any, dtype: DType = np.float32) -> Tables:
        return {"logarithms": logarithms(self._integers(positions, minimum=0) + 1, check_dtype(dtype))[..., None]}

    def factors_of(self, weights: Weights, rows: Array) -> Array:
        xp = namespace_of(rows)
        slope, intercept = (per_head_checked(xp.astype(weights[name], xp.float32)) for name in ("slope", "intercept"))
        return slope * rows + intercept

    def check_queries(self, q: Array, num_heads: int | None = None) -> None:
        check_rank("q", q, minimum=3, axes="(..., heads, length, head_dim)")
        heads = self.num_heads if num_heads is None else num_heads
        if is_static(q.shape[-3]) and q.shape[-3] != heads:
            raise ValueError(f"`q` must have the {heads} heads of {shown(self)}, got shape {tuple(q.shape)}.")
