"""The base classes of scoring encodings, which add to the scores of attention."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from ..._array_api.checks import WIDEST, check_integer, check_rank, check_width, is_static, shown
from ..._array_api.lazy import positions_by_block
from ..._array_api.namespace import Array, Weights, namespace_of
from ...attention.attend import AttentionInputs
from ...attention.relative import Positions, expand_offsets
from ...positions.sequences import LIMIT, as_array_like, from_array
from ..attention_encoding import AttentionEncoding, check_head_dim
from ..base import Tables

OFFSET_TABLE = "offset_table"  # among the weights of a layer: the table of the encoding, its middle at offset 0


@dataclass(frozen=True, kw_only=True, repr=False)
class Scoring(AttentionEncoding):
    """An encoding that adds to the scores of attention, depending on the positions of queries and keys."""

    num_heads: int

    layer_name: ClassVar[str] = "AttentionBias"
    adds_scores: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("num_heads", self.num_heads, maximum=WIDEST)

    def constants(self, max_len: int) -> Tables:
        return {}  # where all numbers are learned

    def check_sizes(self, head_dim: int, num_heads: int, num_kv_heads: int) -> None:
        if self.num_heads != num_heads:
            raise ValueError(f"`position` must have `num_heads` {num_heads}, got {shown(self)}.")
        if self.uses_content:
            check_head_dim(self, head_dim)

    def heads_in(self, w: Array, columns: int) -> int:
        """Return the number of heads that have so many columns each in the last axis of `w`; symbols have all heads."""
        return w.shape[-1] // columns if hasattr(w, "shape") else self.num_heads

    def check_queries(self, q: Array, num_heads: int | None = None) -> None:
        if self.uses_content:
            check_width("q", q, self.head_dim)
        check_rank("q", q, minimum=3, maximum=4, axes="(heads, queries, width), with a batch or without")
        heads = self.num_heads if num_heads is None else num_heads
        if is_static(q.shape[-3]) and q.shape[-3] != heads:
            raise ValueError(f"`q` must have the {heads} heads of {shown(self)}, got shape {tuple(q.shape)}.")

    #: Whether it depends on positions through their offset alone, by a table that never changes.
    has_offset_table: ClassVar[bool] = False

    def check_positions(self, name: str, positions: npt.NDArray[Any] | range) -> None:
        """Raise unless the encoding has all of these positions."""
        limit = self.limit
        if isinstance(positions, range):
            ends: tuple[Any, ...] = (*positions[:1], *positions[-1:])
        else:
            ends = (positions.min().item(), positions.max().item()) if positions.size else ()
            if self.needs_integer_positions and (positions != np.rint(positions)).any():
                raise TypeError(f"`{name}` must be integers where offsets are looked up, got {positions.dtype}.")
        lowest = 0 if limit < LIMIT else 1 - LIMIT
        for end in ends:
            if not lowest <= end < limit:
                raise ValueError(f"`{name}` of {shown(self)} must lie from {lowest} to {limit - 1}, got {end}.")

    @abstractmethod
    def scores(
        self, weights: Weights, query_positions: Positions, key_positions: Positions, content: AttentionInputs
    ) -> Array: ...


@dataclass(frozen=True, kw_only=True, repr=False)
class PositionScoring(Scoring):
    """A scoring encoding that depends on positions alone, not on queries and keys."""

    needs_scores: ClassVar[bool] = False

    #: Whether `score` takes two ranges of step 1 as they are.
    takes_ranges: ClassVar[bool] = False

    @abstractmethod
    def score(self, weights: Weights, query_positions: Array, key_positions: Array) -> Array:
        """Return the term added to the scores: `(heads, queries, keys)`, or `(batch, heads, queries, keys)`."""

    @property
    def has_offset_table(self) -> bool:  # type: ignore[override]
        """Whether it has an `offset_table`: by default if it is relative and learns nothing."""
        return self.is_relative and not self.parameters()

    def offset_table(self, weights: Weights, offsets: npt.NDArray[Any]) -> Array:
        """Return what is fixed at each offset (key less query), which a layer computes once, on the host.

        Args:
            weights: the constants, by name.
            offsets: consecutive integers.
        Returns:
            The bias, `(heads, offsets)`; from an encoding that learns, what `by_offset` takes, `(offsets,)`.
        """
        bias: Array = self.score(weights, np.zeros(1, offsets.dtype), offsets)[:, 0, :]
        return bias

    def by_offset(self, weights: Weights, rows: Array) -> Array:
        """Return the bias at some offsets, given what `offset_table` has for them: `(offsets,) -> (heads, offsets)`."""
        raise TypeError(f"`by_offset` is for encodings that learn, with an `offset_table`, unlike {shown(self)}.")

    def score_of(self, weights: Weights, head: Array, query_position: Array, key_position: Array) -> Array:
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
        self, weights: Weights, query_positions: Positions, key_positions: Positions, content: AttentionInputs
    ) -> Array:
        are_ranges, x = isinstance(query_positions, range) and isinstance(key_positions, range), content.scores
        if are_ranges and self.is_relative:
            return self._scores_by_offset(weights, query_positions, key_positions, x)  # type: ignore[arg-type]
        if not (are_ranges and self.takes_ranges):
            query_positions, key_positions = (as_array_like(at, like=x) for at in (query_positions, key_positions))
        return self.score(weights, query_positions, key_positions)  # type: ignore[arg-type]

    def _scores_by_offset(self, weights: Weights, queries: range, keys: range, x: Array) -> Array:
        """Return the scores of two ranges, looked up or computed once per offset, of which there are far fewer."""
        first, count = keys.start - queries.stop + 1, len(queries) + len(keys)
        table, column = weights.get(OFFSET_TABLE), 0
        if table is None:
            used = count - 1 if queries and keys else count  # the encoding may have no offset past the last one
            offsets = as_array_like(range(first, first + used), like=x)
            table = self.score(weights, as_array_like(range(1), like=x), offsets)[:, 0, :]
        else:
            column = first + table.shape[-1] // 2
            if len(table.shape) == 1:
                table, column = self.by_offset(weights, table[column : column + count - 1]), 0
        return expand_offsets(table, queries=len(queries), keys=len(keys), first=column)

    #: Whether scores depend only on the offset (key less query).
    is_relative: ClassVar[bool] = True

    def bias(self, query_positions: Any, key_positions: Any) -> npt.NDArray[np.float32]:
        """Return the bias added to the scores, float32: `(queries,), (keys,) -> (heads, queries, keys)`.

        Raises:
            TypeError: if it depends on parameters, which only a layer has.
        """
        if self.parameters():
            raise TypeError(f"`bias` of {shown(self)} depends on what is learned; ask a layer that holds it.")
        queries, keys = positions_by_block(from_array, query_positions, key_positions)
        return self.score(self.constants(0), queries, keys)  # type: ignore[return-value]

    def bias_by_offset(self, offsets: Any, weights: Weights | None = None) -> Array:
        """Return the bias at offsets (key less query) of any shape: `(heads, *offsets.shape)`, float32.

        Args:
            offsets: integers, or real numbers where nothing is looked up: a list, or an array of any library.
            weights: the constants and parameters by name, as `arrays` of a layer has them; needed if something is
                learned.
        Raises:
            TypeError: if the bias depends on more than the offset, or what is learned is missing.
            ValueError: if an offset is not finite or not below 2**31 in size.

        >>> from posenc_core import Alibi
        >>> Alibi(num_heads=1).bias_by_offset([[-1, -2], [-3, -4]]).tolist()
        [[[-0.00390625, -0.0078125], [-0.01171875, -0.015625]]]
        """
        if not self.is_relative:
            raise TypeError(f"`bias_by_offset` needs a bias by offsets, unlike that of {shown(self)}.")
        if weights is None and self.parameters():
            raise TypeError(f"`weights` must have what {shown(self)} learns, such as `arrays` of its layer, got None.")
        weights = self.constants(0) if weights is None else weights
        zero, flat, shape = self._flat_offsets(offsets, like=next(iter(weights.values()), None))
        found: Array = self.score(weights, zero, flat)
        return namespace_of(found).reshape(found, (self.num_heads, *shape))

    def _flat_offsets(self, offsets: Any, like: Array | None) -> tuple[Array, Array, tuple[int, ...]]:
        """Return position 0 and the offsets in one row, in the library of `like`, and their shape."""
        try:
            host = from_array(offsets)
        except (TypeError, ValueError) as error:
            raise type(error)(str(error).replace("`positions`", "`offsets`")) from None
        self.check_positions("offsets", host)
        flat = host.reshape(-1) if like is None else as_array_like(host.reshape(-1), like=like)
        return as_array_like(range(1), like=flat), flat, host.shape


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

    #: The tokens whose `lookup_tables` have all numbers that scores need: of `"queries"` and `"keys"`, or none.
    lookup_inputs: ClassVar[tuple[str, ...]] = ()

    def lookup_tables(self, weights: Weights, q: Any, k: Any) -> dict[str, Array]:
        """Return the products of each token with learned vectors, `(batch, heads, tokens, columns)`, for `score_of`.

        Args:
            weights: as in `scores`.
            q, k: queries and keys, `(batch, heads, tokens, head_dim)`; those not in `lookup_inputs` may be
                None.
        Raises:
            TypeError: if a score depends on more than such products.
        """
        raise TypeError(f"`lookup_tables` would need other scores or the weights of attention in {shown(self)}.")

    def score_of(self, weights: Weights, tables: Weights, scores: Array, pairs: Pairs) -> Array:
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
