"""The factor of queries that depends on their position."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, get_args

import numpy as np
import numpy.typing as npt

from .._array_api.checks import check_integer, check_known, check_number, shown
from .._array_api.lazy import tables_by_block
from ..positions.sequences import LIMIT
from ..tables.query_factors import Growth, float64_factors, query_factors
from ..tables.sincos import DType
from .base import Tables, Tabular

LARGEST_SCALE = 2**16  # of a logarithm
LARGEST_POWER = 0.5  # up to which no power of a ratio lies halfway between two float32 numbers


@dataclass(frozen=True, kw_only=True, repr=False)
class QueryScale(Tabular):
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

    def _column(self, positions: Any, dtype: DType = np.float32) -> npt.NDArray[Any]:
        known = self._known(positions, minimum=0)
        if known.dtype.kind == "f":
            raise TypeError("`positions` of QueryScale must be integers, got real numbers.")
        compute = query_factors if dtype == np.float32 else float64_factors
        factors = compute(known + self.start, growth=self.growth, length=self.length, scale=self.scale)
        return factors[..., None]
