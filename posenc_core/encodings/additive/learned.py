"""The additive encoding whose rows are learned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..._array_api.checks import check_integer, check_number
from ..base import Parameter, Tables
from .base import Additive


@dataclass(frozen=True, kw_only=True, repr=False)
class Learned(Additive):
    """One learned row per position, and no rows beyond `length`.

    Args:
        dim: number of columns.
        length: number of positions.
        std: standard deviation of the normal distribution that the rows start from.
        offset: position p takes row p + `offset` of a table that has `length` + `offset` rows: 2 in OPT and BART.
    Raises:
        ValueError: if `dim` or `length` is not positive, or `std` or `offset` is negative.

    >>> Learned(dim=2, length=5).parameters()
    {'table': Parameter(shape=(5, 2), std=0.02, mean=0.0)}
    """

    length: int
    std: float = 0.02
    offset: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("length", self.length)
        check_number("std", self.std)
        if self.std < 0:
            raise ValueError(f"`std` must not be negative, got {self.std!r}.")
        check_integer("offset", self.offset, minimum=0)

    @property
    def limit(self) -> int:
        return self.length

    def constants(self, max_len: int) -> Tables:
        return {}

    def parameters(self) -> dict[str, Parameter]:
        return {"table": Parameter(shape=(self.length + self.offset, self.dim), std=self.std)}

    def rows(self, positions: Any) -> Tables:
        self._known(positions, minimum=0)
        raise ValueError(f"Rows of {self} are learned: ask a layer that holds them, with integer `positions`.")
