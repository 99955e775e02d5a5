"""The base classes of scoring encodings, which add to the scores of attention."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..._array_api.checks import WIDEST, check_integer, shown
from ..._array_api.lazy import positions_by_block
from ..._array_api.namespace import Array
from ...attention.attend import AttentionInputs
from ...attention.relative import Positions
from ...positions.sequences import LIMIT, from_array
from ..base import Encoding


@dataclass(frozen=True, kw_only=True, repr=False)
class Scoring(Encoding):
    """An encoding that adds to the scores of attention, depending on the positions of queries and keys."""

    num_heads: int

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("num_heads", self.num_heads, maximum=WIDEST)

    @property
    def adds_values(self) -> bool:
        """Whether it also adds to the result of attention."""
        return False

    @property
    def needs_all_keys(self) -> bool:
        """Whether a score depends on other keys than its own, so that keys cannot be taken block by block."""
        return False

    @property
    def sums_later_keys(self) -> bool:
        """Whether a score depends on later keys through one sum over them, so that the last block may come first."""
        return False

    @property
    def needs_integer_positions(self) -> bool:
        """Whether positions or offsets are indices of a table, so that they must be integers."""
        return False

    def check_positions(self, name: str, positions: npt.NDArray[Any] | range) -> None:
        """Raise unless the encoding has all of these positions."""
        if isinstance(positions, range):
            ends: tuple[Any, ...] = (*positions[:1], *positions[-1:])
        else:
            ends = (positions.min().item(), positions.max().item()) if positions.size else ()
            if self.needs_integer_positions and (positions != np.rint(positions)).any():
                raise TypeError(f"`{name}` must be integers where offsets are looked up, got {positions.dtype}.")
        lowest = 0 if self.limit < LIMIT else 1 - LIMIT
        for end in ends:
            if not lowest <= end < self.limit:
                raise ValueError(f"`{name}` of {shown(self)} must lie from {lowest} to {self.limit - 1}, got {end}.")

    @abstractmethod
    def scores(
        self, weights: Mapping[str, Array], query_positions: Array, key_positions: Array, content: AttentionInputs
    ) -> Array:
        """Return the term added to the scores.

        Args:
            weights: the arrays of `constants` and `parameters`, of any framework, by name.
            query_positions: shape `(queries,)` or `(batch, queries)`.
            key_positions: shape `(keys,)` or `(batch, keys)`.
            content: queries, keys and their scores so far.
        Returns:
            Array that broadcasts to `(batch, heads, queries, keys)`.
        """

    def sum_of_keys(self, weights: Mapping[str, Array], content: AttentionInputs) -> Array:
        """Return what a block of keys adds to the scores of all keys before it, `(..., queries, 1)`.

        Args:
            weights: as in `scores`.
            content: queries, keys and their scores, -inf where a key is hidden.
        Raises:
            TypeError: unless `sums_later_keys`.
        """
        raise TypeError(f"`sum_of_keys` is asked of encodings with `sums_later_keys`, unlike {shown(self)}.")

    def values(
        self, weights: Mapping[str, Array], query_positions: Array, key_positions: Array, attention: Array
    ) -> Array | None:
        """Return the term added to the result of attention, given its weights, or None."""
        return None


@dataclass(frozen=True, kw_only=True, repr=False)
class PositionScoring(Scoring):
    """A scoring encoding that depends on positions alone, not on queries and keys."""

    @abstractmethod
    def score(self, weights: Mapping[str, Array], query_positions: Array, key_positions: Array) -> Array:
        """Return the term added to the scores: `(heads, queries, keys)`, or `(batch, heads, queries, keys)`."""

    def score_of(self, weights: Mapping[str, Array], head: Array, query_position: Array, key_position: Array) -> Array:
        """Return the term added to single scores, elementwise: the formula of `score`, for kernels that need one.

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
        """Whether scores depend only on the offset (key less query)."""
        return True

    def bias(self, query_positions: Any, key_positions: Any) -> npt.NDArray[np.float32]:
        """Return the bias added to the scores, float32: `(queries,), (keys,) -> (heads, queries, keys)`.

        Raises:
            TypeError: if it depends on parameters, which only a layer has.
        """
        if self.parameters():
            raise TypeError(f"`bias` of {shown(self)} depends on what is learned; ask a layer that holds it.")
        queries, keys = positions_by_block(from_array, query_positions, key_positions)
        return self.score(self.constants(0), queries, keys)  # type: ignore[return-value]


class Pairs(NamedTuple):
    """Queries with keys, for kernels that compute single scores: integer arrays, of shapes that broadcast.

    Attributes:
        row: the row of the batch.
        head: the number of the head.
        query, key: the numbers of both tokens in their arrays.
        query_position, key_position: their positions.
    """

    row: Array
    head: Array
    query: Array
    key: Array
    query_position: Array
    key_position: Array


@dataclass(frozen=True, kw_only=True, repr=False)
class ContentScoring(Scoring):
    """A scoring encoding that depends on queries and keys as well as on their positions.

    Args:
        head_dim: width of each head's queries and keys.
    """

    head_dim: int

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("head_dim", self.head_dim, maximum=WIDEST)

    @abstractmethod
    def scores(
        self,
        weights: Mapping[str, Array],
        query_positions: Positions,
        key_positions: Positions,
        content: AttentionInputs,
    ) -> Array:
        """Return the term added to the scores, as `Scoring.scores`; both positions may be ranges of step 1."""

    @property
    def lookup_inputs(self) -> tuple[str, ...]:
        """The tokens whose `lookup_tables` have all numbers that scores need: of `"queries"` and `"keys"`, or none."""
        return ()

    def lookup_tables(self, weights: Mapping[str, Array], q: Any, k: Any) -> dict[str, Array]:
        """Return the products of each token with learned vectors, `(batch, heads, tokens, columns)`, for `score_of`.

        Args:
            weights: as in `scores`.
            q, k: queries and keys, `(batch, heads, tokens, head_dim)`; those not in `lookup_inputs` may be
                None.
        Raises:
            TypeError: if a score depends on more than such products.
        """
        raise TypeError(f"`lookup_tables` would need other scores or the weights of attention in {shown(self)}.")

    def score_of(self, weights: Mapping[str, Array], tables: Mapping[str, Array], scores: Array, pairs: Pairs) -> Array:
        """Return the term added to single scores, elementwise: the formula of `scores`, for kernels that need one.

        Args:
            weights: as in `scores`, of a library that takes integer arrays as indices, as NumPy and PyTorch do.
            tables: the result of `lookup_tables`.
            scores: q kᵀ / √head_dim of each pair.
            pairs: their queries and keys.
        Raises:
            TypeError: where `lookup_tables` does.
        """
        raise TypeError(f"`score_of` would need other scores or the weights of attention in {shown(self)}.")

    def values(
        self, weights: Mapping[str, Array], query_positions: Positions, key_positions: Positions, attention: Array
    ) -> Array | None:
        return None
