"""The simplest additive encodings: the position itself, whole, normalized, or in binary digits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ..._array_api.checks import check_integer, check_known
from ..._array_api.namespace import Array, namespace_of
from ...tables.angles import angles_of
from ...tables.sincos import DType, check_dtype
from ..base import Tables
from .base import Additive

BIT_ORDERS = ("most_significant_first", "least_significant_first")


@dataclass(frozen=True, kw_only=True, repr=False)
class Integer(Additive):
    """The position itself in every column. It grows without bound.

    >>> Integer(dim=2).table([0, 1, 2])
    array([[0., 0.],
           [1., 1.],
           [2., 2.]], dtype=float32)
    """

    def rows(self, positions: Any, dtype: DType = np.float32) -> Tables:
        return {"table": _repeated(self._known(positions), self.dim, dtype)}

    def derivatives(self, positions: Any) -> Tables:
        return {"table": _repeated(np.ones_like(self._known(positions)), self.dim)}

    def traced_rows(self, positions: Array) -> tuple[Array, ...]:
        return (angles_of(positions, np.ones(self.dim)),)


@dataclass(frozen=True, kw_only=True, repr=False)
class Normalized(Additive):
    """Position / `length` in every column: from 0 to below 1, which float32 may round to 1.

    Steps shrink as `length` grows.

    Raises:
        ValueError: if a position is negative or not below `length`.

    >>> Normalized(dim=1, length=4).table([0, 1, 3])
    array([[0.  ],
           [0.25],
           [0.75]], dtype=float32)
    """

    length: int

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("length", self.length)

    @property
    def limit(self) -> int:
        return self.length

    def rows(self, positions: Any, dtype: DType = np.float32) -> Tables:
        return {"table": _repeated(self._known(positions, minimum=0) / self.length, self.dim, dtype)}

    def derivatives(self, positions: Any) -> Tables:
        return {"table": _repeated(np.ones_like(self._known(positions, minimum=0)) / self.length, self.dim)}

    def traced_rows(self, positions: Array) -> tuple[Array, ...]:
        """Return rows as `Additive.traced_rows`; those of positions that the encoding does not have are NaN."""
        shares = angles_of(positions, np.full(self.dim, 1 / self.length))
        xp = namespace_of(shares)
        return (xp.where((shares >= 0) & (shares < 1), shares, xp.full_like(shares, float("nan"))),)


@dataclass(frozen=True, kw_only=True, repr=False)
class Binary(Additive):
    """The binary digits of position + `start`. Neighbours can be far apart, and there are only `2**dim` codes.

    Args:
        dim: number of digits.
        start: the number that represents position 0.
        bit_order: `"most_significant_first"` or `"least_significant_first"`.
    Raises:
        ValueError: if a position is negative, or needs more than `dim` digits.

    >>> Binary(dim=3, start=1).table([0, 1, 2, 3])
    array([[0., 0., 1.],
           [0., 1., 0.],
           [0., 1., 1.],
           [1., 0., 0.]], dtype=float32)
    """

    start: int = 0
    bit_order: Literal["most_significant_first", "least_significant_first"] = "most_significant_first"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("start", self.start, minimum=0)
        if self.start.bit_length() > min(self.dim, 31):  # `2**dim` itself may not fit into memory
            raise ValueError(f"`start` must be below 2**{min(self.dim, 31)} for {self.dim} digits, got {self.start}.")
        check_known("bit_order", self.bit_order, BIT_ORDERS)

    @property
    def limit(self) -> int:
        return min(2 ** min(self.dim, 63) - self.start, super().limit)

    def rows(self, positions: Any, dtype: DType = np.float32) -> Tables:
        numbers = self._integers(positions, minimum=0) + self.start
        places = np.minimum(np.arange(self.dim), 62)  # where all these numbers have a zero
        if self.bit_order == "most_significant_first":
            places = places[::-1]
        return {"table": (numbers[..., None] >> places & 1).astype(check_dtype(dtype))}


def _repeated(column: npt.NDArray[Any], dim: int, dtype: DType = np.float32) -> npt.NDArray[Any]:
    return np.repeat(column[..., None].astype(check_dtype(dtype)), dim, axis=-1)
