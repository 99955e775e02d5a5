"""What every encoding answers, so that one layer per framework can hold them all."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .._array_api.checks import check_integer
from .._array_api.lazy import positions_by_block, tables_by_block
from .._array_api.namespace import Array, dtype_name
from .._values import Value
from ..attention.attend import AttentionInputs
from ..attention.relative import Stated
from ..positions.sequences import LIMIT, from_array, sequence

Tables = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """An array that is learned: its shape, and the normal distribution that it starts from."""

    shape: tuple[int, ...]
    std: float
    mean: float = 0.0


@dataclass(frozen=True, kw_only=True, repr=False)
class Encoding(Value):
    """A positional encoding as a value. It owns no arrays: it says which ones a layer has to hold."""

    @property
    def limit(self) -> int:
        """The number of positions it has: the first one that it cannot encode."""
        return LIMIT

    @property
    def table_names(self) -> tuple[str, ...]:
        """The names of those constants and parameters that have one row per position, in the order of `rows`."""
        return ()

    @abstractmethod
    def constants(self, max_len: int) -> Tables:
        """The arrays that never change, by name, for the first `max_len` positions; rounded once to float32."""

    def parameters(self) -> dict[str, Parameter]:
        """The arrays that are learned, by name."""
        return {}


@dataclass(frozen=True, kw_only=True, repr=False)
class Tabular(Encoding):
    """An encoding whose arrays have one row per position."""

    @property
    def num_axes(self) -> int:
        """How many axes positions have: `(length,)` for one, `(axes, length)` for more."""
        return 1

    @property
    def needs_positions(self) -> bool:
        """Whether a call must give positions, because tokens on a grid cannot be counted from a start."""
        return False

    @property
    def computes_rows(self) -> bool:
        """Whether a layer computes rows from parameters by `rows_of`, in its framework, and holds no table."""
        return False

    @property
    def key_tables(self) -> bool:
        """Whether keys have tables of their own, which come after those of queries."""
        return False

    @property
    def offset(self) -> int:
        """The row of a learned table that belongs to position 0."""
        return 0

    @abstractmethod
    def rows(self, positions: npt.NDArray[Any]) -> Tables:
        """The rows of the positions given, by table, each `(..., length, columns)`."""

    def rows_of(self, weights: Mapping[str, Array], positions: Array) -> tuple[Array, ...]:
        """Compute the rows of positions from the constants and parameters of a layer, in its framework.

        Raises:
            TypeError: unless `computes_rows`.
        """
        raise TypeError(
            f"`rows_of` is for encodings whose rows are computed from parameters, got {self!r}; call `rows`."
        )

    def derivatives(self, positions: npt.NDArray[Any]) -> Tables:
        """The derivatives of `rows` with respect to the positions, by table; empty where rows do not change smoothly."""
        return {}

    def angular_frequencies(self) -> npt.NDArray[np.float64]:
        """How fast the angle of each column turns, radians per position, `(columns,)`; `(axes, columns)` where axes mix.

        0 where a column is no sine or cosine, and its derivative constant.
        """
        return np.zeros(1)

    def traced_rows(self, positions: Array, /) -> tuple[Array, ...]:
        """The rows of real positions that only a tracer knows, computed in its framework, where they are smooth.

        In float32, or in float64 where positions are; frequency and angle are rounded on the way, so that angles are off
        by up to 2**-23 of their size, and entries by as much.

        Raises:
            TypeError: if they are not.
        """
        raise TypeError(
            f"Traced positions of {self} must be int32 or int64, got {dtype_name(positions)}; real positions must be known "
            "when code is traced: give them as a NumPy array."
        )

    def constants(self, max_len: int) -> Tables:
        check_integer("max_len", max_len)
        return self.rows(sequence(min(max_len, self.max_table_len)))

    @property
    def max_table_len(self) -> int:
        """The number of rows that a layer may hold: compiled code takes any of them without a question."""
        return self.limit

    def _known(self, positions: Any, *, minimum: int = -LIMIT) -> npt.NDArray[Any]:
        """The positions as an array, all of them among those that the encoding has."""
        array = from_array(positions)
        wrong = array[(array < minimum) | (array >= self.limit)]
        if wrong.size:
            raise ValueError(f"`positions` of {self} must lie from {minimum} to {self.limit - 1}, got {wrong.flat[0]}.")
        return array


@dataclass(frozen=True, kw_only=True, repr=False)
class Scoring(Encoding):
    """An encoding that works inside attention, on what it knows of a query's and a key's position."""

    num_heads: int

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("num_heads", self.num_heads)

    @property
    def adds_values(self) -> bool:
        """Whether it adds to the result of attention, too."""
        return False

    @property
    def needs_all_keys(self) -> bool:
        """Whether a score depends on other keys than its own, so that keys cannot be taken block by block."""
        return False

    @property
    def needs_integer_positions(self) -> bool:
        """Whether it looks positions or offsets up, so that they must be integers."""
        return False

    def check_positions(self, name: str, positions: npt.NDArray[Any] | range) -> None:
        """Raise unless positions are among those that it has."""
        if isinstance(positions, range):
            ends: tuple[Any, ...] = (*positions[:1], *positions[-1:])
        else:
            ends = (positions.min().item(), positions.max().item()) if positions.size else ()
            if self.needs_integer_positions and (positions != np.rint(positions)).any():
                raise TypeError(f"`{name}` must be integers where offsets are looked up, got {positions.dtype}.")
        lowest = 0 if self.limit < LIMIT else 1 - LIMIT
        for end in ends:
            if not lowest <= end < self.limit:
                raise ValueError(f"`{name}` of {self} must lie from {lowest} to {self.limit - 1}, got {end}.")

    @abstractmethod
    def scores(
        self, weights: Mapping[str, Array], query_positions: Array, key_positions: Array, content: AttentionInputs
    ) -> Array:
        """What is added to the scores.

        Args:
            weights: the arrays of `constants` and `parameters`, of any framework, by name.
            query_positions: shape `(queries,)` or `(batch, queries)`.
            key_positions: shape `(keys,)` or `(batch, keys)`.
            content: queries, keys and their scores so far.
        Returns:
            Array that broadcasts to `(batch, heads, queries, keys)`.
        """

    def values(
        self, weights: Mapping[str, Array], query_positions: Array, key_positions: Array, attention: Array
    ) -> Array | None:
        """What is added to the result of attention, given its weights; None where that is nothing."""
        return None


@dataclass(frozen=True, kw_only=True, repr=False)
class PositionScoring(Scoring):
    """A scoring encoding that looks at positions alone, not at what stands there."""

    @abstractmethod
    def score(self, weights: Mapping[str, Array], query_positions: Array, key_positions: Array) -> Array:
        """What is added to the scores: `(heads, queries, keys)`, or `(batch, heads, queries, keys)`."""

    def score_of(self, weights: Mapping[str, Array], head: Array, query_position: Array, key_position: Array) -> Array:
        """Return what is added to single scores, elementwise: the formula of `score`, for kernels that ask for one score.

        Args:
            weights: the arrays of `constants` and `parameters`, by name, of a library that takes integer arrays as
                indices, as NumPy and PyTorch do.
            head: the number of the head, an integer array of any shape.
            query_position, key_position: integers, of shapes that broadcast against that of `head`.
        Raises:
            TypeError: if the encoding has no such formula.
        """
        raise TypeError(
            f"`score_of` needs a formula for one query and one key, which {type(self).__name__} does not define."
        )

    def scores(
        self, weights: Mapping[str, Array], query_positions: Array, key_positions: Array, content: AttentionInputs
    ) -> Array:
        return self.score(weights, query_positions, key_positions)

    @property
    def is_relative(self) -> bool:
        """Whether only the offset of key and query matters."""
        return True

    def bias(self, query_positions: Any, key_positions: Any) -> npt.NDArray[np.float32]:
        """What is added to the scores, float32: `(queries,), (keys,) -> (heads, queries, keys)`.

        Raises:
            TypeError: if it depends on what is learned, which only a layer has.
        """
        if self.parameters():
            raise TypeError(f"`bias` of {self} depends on what is learned; ask a layer that holds it.")
        queries, keys = positions_by_block(from_array, query_positions, key_positions)
        return self.score(self.constants(0), queries, keys)  # type: ignore[return-value]


@dataclass(frozen=True, kw_only=True, repr=False)
class ContentScoring(Scoring):
    """A scoring encoding that looks at queries and keys as well as at where they stand.

    Args:
        head_dim: width of each head's queries and keys.
    """

    head_dim: int

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("head_dim", self.head_dim)

    @abstractmethod
    def scores(
        self, weights: Mapping[str, Array], query_positions: Stated, key_positions: Stated, content: AttentionInputs
    ) -> Array:
        """As above; positions are two ranges where that says it all."""

    def values(
        self, weights: Mapping[str, Array], query_positions: Stated, key_positions: Stated, attention: Array
    ) -> Array | None:
        return None


@dataclass(frozen=True, kw_only=True, repr=False)
class Additive(Tabular):
    """An encoding whose rows are added to tokens, or appended to them."""

    dim: int

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("dim", self.dim)

    @property
    def table_names(self) -> tuple[str, ...]:
        return ("table",)

    @property
    def needs_positions(self) -> bool:
        return self.num_axes > 1

    @property
    def mixes_axes(self) -> bool:
        """Whether a column changes with more than one axis."""
        return False

    def table(self, positions: Any) -> npt.NDArray[np.float32]:
        """The rows of the positions given, float32: `(..., length) -> (..., length, dim)`.

        Positions on several axes are `(axes, ..., length)`, or `(length,)` if they are the same on all of them.

        Raises:
            TypeError: if positions are not numbers.
            ValueError: if the encoding has no such position.
        """
        return tables_by_block(self._table, positions)

    def _table(self, positions: Any) -> npt.NDArray[np.float32]:
        return self.rows(positions)["table"]
