"""Additive encodings with learned rows or learned frequencies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..._array_api.checks import check_integer, check_number, shown
from ..._array_api.namespace import Array, Weights, namespace_of
from ...tables.angles import angles
from ...tables.frequencies import as_float64
from ...tables.sincos import DType
from ..base import Parameter, Tables
from .base import Additive, in_columns
from .sinusoidal import Sinusoidal


@dataclass(frozen=True, kw_only=True, repr=False)
class Learned(Additive):
    """One learned row per position, and no rows beyond `length`.

    Args:
        dim: number of columns.
        length: number of positions.
        std: standard deviation of the normal distribution of the initial rows.
        offset: position p takes row p + `offset` of a table that has `length` + `offset` rows: 2 in OPT and BART.
    Raises:
        ValueError: if `dim` or `length` is not positive, or `std` or `offset` is negative.

    >>> Learned(dim=2, length=5).parameters()
    {'table': Parameter(shape=(5, 2), std=0.02, mean=0.0)}
    """

    length: int
    std: float = 0.02
    offset: int = 0  # type: ignore[misc]

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("length", self.length)
        check_number("std", self.std, minimum=0)
        check_integer("offset", self.offset, minimum=0)

    @property
    def limit(self) -> int:
        return self.length

    def constants(self, max_len: int) -> Tables:
        return {}

    def parameters(self) -> dict[str, Parameter]:
        return {"table": Parameter(shape=(self.length + self.offset, self.dim), std=self.std)}

    def rows(self, positions: Any, dtype: DType = np.float32) -> Tables:
        self._known(positions, minimum=0)
        raise ValueError(f"Rows of {shown(self)} are learned: ask a layer that holds them, with integer `positions`.")


@dataclass(frozen=True, kw_only=True, repr=False)
class LearnedSinusoidal(Sinusoidal):
    """`Sinusoidal` with each frequency multiplied by `exp(alpha)`; alpha is learned, one number for each pair.

    A layer computes sine and cosine in its framework, in float32, so that they have a gradient. Angles are off by about
    position × frequency × 2**-23, which is 0.125 at position 2**20 in the first columns, and up to three times that
    where alpha is not 0. `table` returns the rows at alpha 0, correctly rounded.

    Args:
        std: standard deviation of the normal distribution of the initial alpha; by default alpha starts at 0.
    Raises:
        ValueError: if `std` is negative, or `convention` is `"column_index"`, which has no pairs.

    >>> LearnedSinusoidal(dim=5).parameters()
    {'alpha': Parameter(shape=(3,), std=0.0, mean=0.0)}
    """

    std: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("std", self.std, minimum=0)
        if self.convention == "column_index":
            raise ValueError(
                "`convention` must not be 'column_index' where frequencies are learned; its columns are not pairs."
            )

    table_names: ClassVar[tuple[str, ...]] = ()
    computes_rows: ClassVar[bool] = True

    def constants(self, max_len: int) -> Tables:
        frequencies = as_float64(self._frequencies()).astype(np.float32)
        return {"frequencies": frequencies, "places": self._places()}

    def parameters(self) -> dict[str, Parameter]:
        return {"alpha": Parameter(shape=(len(self._frequencies()),), std=self.std)}

    def rows_of(self, weights: Weights, positions: Array) -> tuple[Array, ...]:
        """Return the rows from the arrays of a layer, float32: `(..., length) -> (..., length, dim)`."""
        xp = namespace_of(positions)
        learned = weights["frequencies"] * xp.exp(xp.astype(weights["alpha"], xp.float32))
        return (in_columns(angles(xp.astype(positions, xp.float32), learned), weights["places"]),)
