"""The base classes of scoring encodings, which add to the scores of attention."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from ..._array_api.checks import WIDEST, check_integer, check_rank, check_width, is_static, shown
from ..._array_api.lazy import positions_by_block
from ..._array_api.namespace import Array
from ...attention.attend import AttentionInputs
from ...attention.relative import Positions, expand_offsets
from ...positions.sequences import LIMIT, as_array_like, from_array
from ..attention_encoding import AttentionEncoding, check_head_dim


@dataclass(frozen=True, kw_only=True, repr=False)
class Scoring(AttentionEncoding):
    """An encoding that adds to the scores of attention, depending on the positions of queries and keys."""

    num_heads: int

    layer_name: ClassVar[str] = "AttentionBias"
    adds_scores: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("num_heads", self.num_heads, maximum=WIDEST)

    def check_sizes(self, head_dim: int, num_heads: int, num_kv_heads: int) -> None:
        if self.num_heads != num_heads:
            raise ValueError(f"`position` must have `num_heads` {num_heads}, got {shown(self)}.")
        if self.uses_content:
            check_head_dim(self, head_dim)

    def check_queries(self, q: Array) -> None:
        if self.uses_content:
            check_width("q", q, self.head_dim)
        check_rank("q", q, minimum=3, maximum=4, axes="(heads, queries, width), with a batch or without")
        if is_static(q.shape[-3]) and q.shape[-3] != self.num_heads:
            raise ValueError(f"`q` must have the {self.num_heads} heads of {shown(self)}, got shape {tuple(q.shape)}.")

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
        self,
        weights: Mapping[str, Array],
        query_positions: Positions,
        key_positions: Positions,
        content: AttentionInputs,
    ) -> Array: ...


@dataclass(frozen=True, kw_only=True, repr=False)
class PositionScoring(Scoring):
    """A scoring encoding that depends on positions alone, not on queries and keys."""

    needs_scores: ClassVar[bool] = False

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
        self,
        weights: Mapping[str, Array],
        query_positions: Positions,
        key_positions: Positions,
        content: AttentionInputs,
    ) -> Array:
        x = content.scores
        if not (self.is_relative and isinstance(query_positions, range) and isinstance(key_positions, range)):
            at_queries, at_keys = as_array_like(query_positions, like=x), as_array_like(key_positions, like=x)
            return self.score(weights, at_queries, at_keys)
        first = key_positions.start - query_positions.stop + 1  # once per offset, of which there are far fewer
        offsets = range(first, first + len(query_positions) + len(key_positions))
        by_offset = self.score(weights, as_array_like(range(1), like=x), as_array_like(offsets, like=x))[:, 0, :]
        return expand_offsets(by_offset, queries=len(query_positions), keys=len(key_positions))

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

    uses_content: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("head_dim", self.head_dim, maximum=WIDEST)

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
