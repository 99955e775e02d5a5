"""What every encoding answers, so that one layer per framework can hold them all."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .._arrays import Array
from .._checks import check_integer
from .._values import Value
from ..positions import LIMIT, from_array, sequence

Tables = dict[str, npt.NDArray[np.float32]]


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """An array that is learned: its shape, and the normal distribution that it starts from."""

    shape: tuple[int, ...]
    std: float


@dataclass(frozen=True, kw_only=True, repr=False)
class Encoding(Value):
    """A positional encoding as a value. It owns no arrays: it says which ones a layer has to hold."""

    @property
    def limit(self) -> int:
        """The number of positions it has: the first one that it cannot encode."""
        return LIMIT

    @abstractmethod
    def constants(self, max_len: int) -> Tables:
        """The arrays that never change, by name, for the first `max_len` positions; rounded once to float32."""

    def parameters(self) -> dict[str, Parameter]:
        """The arrays that are learned, by name."""
        return {}


@dataclass(frozen=True, kw_only=True, repr=False)
class Tabular(Encoding):
    """An encoding whose arrays have one row per position."""

    @abstractmethod
    def rows(self, positions: npt.NDArray[Any]) -> Tables:
        """The rows of the positions given, by table, each `(..., length, columns)`."""

    def constants(self, max_len: int) -> Tables:
        check_integer("max_len", max_len)
        return self.rows(sequence(min(max_len, self.held_limit)))

    @property
    def held_limit(self) -> int:
        """The number of rows that a layer may hold: compiled code takes any of them without a question."""
        return self.limit

    def _known(self, positions: Any, *, minimum: int = -LIMIT) -> npt.NDArray[Any]:
        """The positions as an array, all of them among those that the encoding has."""
        array = from_array(positions)
        outside = array[(array < minimum) | (array >= self.limit)]
        if outside.size:
            raise ValueError(
                f"`positions` of {self} must lie from {minimum} to {self.limit - 1}, got {outside.flat[0]}."
            )
        return array


@dataclass(frozen=True, kw_only=True, repr=False)
class Scoring(Encoding):
    """An encoding that adds to attention scores what it knows of a query's and a key's position."""

    num_heads: int

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("num_heads", self.num_heads)

    @abstractmethod
    def score(self, weights: Mapping[str, Array], query_positions: Array, key_positions: Array) -> Array:
        """What is added to the scores, from the arrays of `constants` and `parameters`.

        Args:
            weights: arrays of any framework, by name.
            query_positions: shape `(queries,)` or `(batch, queries)`.
            key_positions: shape `(keys,)` or `(batch, keys)`.
        Returns:
            Array of shape `(heads, queries, keys)`, or `(batch, heads, queries, keys)`.
        """

    def bias(self, query_positions: Any, key_positions: Any) -> npt.NDArray[np.float32]:
        """What is added to the scores, float32: `(queries,), (keys,) -> (heads, queries, keys)`."""
        return np.asarray(self.score(self.constants(0), from_array(query_positions), from_array(key_positions)))


@dataclass(frozen=True, kw_only=True, repr=False)
class Additive(Tabular):
    """An encoding whose rows are added to tokens, or appended to them."""

    dim: int

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("dim", self.dim)

    def table(self, positions: Any) -> npt.NDArray[np.float32]:
        """The rows of the positions given, float32: `(..., length) -> (..., length, dim)`.

        Raises:
            TypeError: if positions are not numbers.
            ValueError: if the encoding has no such position.
        """
        return self.rows(positions)["table"]
