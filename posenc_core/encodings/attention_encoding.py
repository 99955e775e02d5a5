"""The contract of encodings in attention."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from .._array_api.checks import check_integer, check_width, shown
from .._array_api.namespace import A, Array, Weights, aligned, aligned_by_head, dtype_name
from ..attention.attend import AttentionInputs, products
from ..attention.relative import Positions
from ..positions.sequences import as_array_like
from ..rotation import Pairing, rotate_pairs
from ..tables.sincos import Table
from .base import Encoding, Tabular, TokenRows

if TYPE_CHECKING:
    from typing import Self


@dataclass(frozen=True, kw_only=True, repr=False)
class AttentionEncoding(Encoding):
    """An encoding that acts in attention: on queries and keys, on their scores, or on the result.

    `attend` asks `Placed` for `prepare`, `products`, `scores` and `values`, in this order. By default each leaves
    attention as it is.
    """

    #: Whether it needs the scores or the weights of attention, which a fused kernel does not return.
    needs_scores: ClassVar[bool] = True

    if TYPE_CHECKING:  # a field of some encodings, a property of others; those without content have none

        @property
        def head_dim(self) -> int:
            """The number of channels of a head."""

    #: Whether the term of a head depends on queries or keys of all heads.
    mixes_heads: ClassVar[bool] = False

    #: Whether it adds a term to scores, by `scores`.
    adds_scores: ClassVar[bool] = False

    @property
    def query_rotations(self) -> int:
        """How many times as wide as before `prepare` returns queries; scores keep the scale of `head_dim`."""
        return 1

    #: Whether it also adds to the result of attention.
    adds_values: ClassVar[bool] = False

    #: Whether a score depends on later keys through one sum over them, so that the last block may come first.
    sums_later_keys: ClassVar[bool] = False

    #: Whether positions or offsets are indices of a table, so that they must be integers.
    needs_integer_positions: ClassVar[bool] = False

    @abstractmethod
    def check_sizes(self, head_dim: int, num_heads: int, num_kv_heads: int) -> None:
        """Raise unless it serves attention of these sizes, whose argument `position` it is.

        Args:
            head_dim: width of each head.
            num_heads: number of heads of queries.
            num_kv_heads: number of heads of keys and values.
        """

    @abstractmethod
    def check_queries(self, q: Array, num_heads: int | None = None) -> None:
        """Raise unless it is for queries of this shape, `(..., heads, queries, head_dim)`, of so many heads, or all."""

    def check_positions(self, name: str, positions: npt.NDArray[Any] | range) -> None:
        """Raise unless the encoding has all of these positions, the argument `name`; tables check those of rows."""

    def prepare(
        self, q: A, k: A, query_positions: Positions, key_positions: Positions, weights: Weights
    ) -> tuple[A, A]:
        """Return queries and keys at their positions.

        Args:
            q, k: queries and keys, `(..., heads, length, head_dim)`.
            query_positions: a range of step 1, or an array `(queries,)` or `(batch, queries)`, an axis before where a
                position has several.
            key_positions: likewise.
            weights: the parameters of a layer, by name, with all of its constants or none of them.
        """
        return q, k

    def products(self, q: Array, k: Array, query_positions: Positions, key_positions: Positions) -> Array:
        """Return the product of each query and key, as `prepare` returned them: `(..., queries, keys)`."""
        return products(q, k)

    def scores(
        self, weights: Weights, query_positions: Positions, key_positions: Positions, content: AttentionInputs
    ) -> Array | None:
        """Return the term added to the scores, or None.

        Args:
            weights: the arrays of `constants` and `parameters`, of any framework, by name.
            query_positions: `(queries,)` or `(batch, queries)`.
            key_positions: `(keys,)` or `(batch, keys)`; both are ranges of step 1, or both arrays.
            content: queries, keys and their scores so far.
        Returns:
            Array that broadcasts to `(batch, heads, queries, keys)`, or None.
        """
        return None

    def sum_of_keys(self, weights: Weights, content: AttentionInputs) -> Array:
        """Return what a block of keys adds to the scores of all keys before it, `(..., queries, 1)`.

        Args:
            weights: as in `scores`.
            content: queries, keys and their scores, -inf where a key is hidden.
        Raises:
            TypeError: unless `sums_later_keys`.
        """
        raise TypeError(f"`sum_of_keys` is asked of encodings with `sums_later_keys`, unlike {shown(self)}.")

    def values(
        self, weights: Weights, query_positions: Positions, key_positions: Positions, attention: Array
    ) -> Array | None:
        """Return the term added to the result of attention, given its weights, or None."""
        return None

    def all_weights(self, given: Weights, like: Array) -> Weights:
        """Return constants and parameters, by name: those given, with the constants if only parameters were given.

        Constants are arrays of the library of `like`.
        """
        if len(given) > len(self.parameters()):
            return given
        constants = self.constants(0).items()
        return {**{name: as_array_like(table, like=like) for name, table in constants}, **given}


@dataclass(frozen=True, kw_only=True, repr=False)
class QueryKeyEncoding(Tabular, AttentionEncoding):
    """An encoding that is applied to queries and keys, each by the rows of its position: the rotary family."""

    layer_name: ClassVar[str] = "RotaryEmbedding"

    if TYPE_CHECKING:  # a field of some encodings, a property of others

        @property
        def pairing(self) -> Pairing:
            """Which channels of the result form a pair."""

        def cos_sin(self, positions: Any) -> tuple[Table, Table]:
            """Return cosine and sine of positions, where attention is not needed: `(..., length, pairs)` each."""

    @property
    def remapping(self) -> dict[str, Any]:
        """The fields by which it remaps positions, by name; empty where distances are those of tokens."""
        return {}

    def at(self, seq_len: int | None) -> Self:
        """Return the encoding for sequences of `seq_len` positions; itself for None, or if lengths do not matter."""
        if seq_len is not None:
            check_integer("seq_len", seq_len)
        return self

    def check_sizes(self, head_dim: int, num_heads: int, num_kv_heads: int) -> None:
        check_head_dim(self, head_dim)
        self.check_heads(num_kv_heads)

    def check_heads(self, num_heads: int) -> None:
        """Raise unless the rows of each head serve as many of `num_heads` heads of keys."""
        if self.table_heads is not None and num_heads % self.table_heads:
            raise ValueError(f"`position` must have `num_heads` that divide {num_heads}, got {shown(self)}.")

    def check_queries(self, q: Array, num_heads: int | None = None) -> None:
        check_width("q", q, self.head_dim)

    @abstractmethod
    def apply(self, x: Array, at: TokenRows) -> Array:
        """Return queries or keys, `(..., length, head_dim)`, at the positions of these rows."""

    def prepare(
        self, q: A, k: A, query_positions: Positions, key_positions: Positions, weights: Weights
    ) -> tuple[A, A]:
        query_rows, key_rows = (self.rows_like(*at, weights) for at in ((q, query_positions), (k, key_positions)))
        at_queries: Any = self.apply(q, TokenRows(query_rows, self.rotate_by, weights, keys=False))
        at_keys: Any = self.apply(k, TokenRows(key_rows, self.rotate_by, weights, keys=True))
        return at_queries, at_keys

    def rows_like(self, x: Array, positions: Positions, weights: Weights) -> tuple[Array, ...]:
        """Return the rows of positions in the library of the tokens `x`, of float64 where the tokens are."""
        if self.computes_rows:
            return self.rows_of(self.all_weights(weights, x), as_array_like(positions, like=x))
        dtype = np.float64 if dtype_name(x) == "float64" else np.float32
        rows = tuple([as_array_like(table, like=x) for table in self.rows_by_block(positions, dtype)])
        return self.mixed(weights, rows) if self.mixes_rows else rows

    def rotate_by(self, x: A, cos: Array, sin: Array) -> A:
        """Return tokens `(..., heads, length, head_dim)` with their pairs rotated by rows of tables."""
        fit = aligned if self.table_heads is None else aligned_by_head
        return rotate_pairs(x, fit(cos, x, seq_axis=-2), fit(sin, x, seq_axis=-2), pairing=self.pairing)


def check_head_dim(encoding: AttentionEncoding, head_dim: int) -> None:
    """Raise unless an encoding, the argument `position` of a layer, is for heads of this width."""
    if encoding.head_dim != head_dim:
        raise ValueError(f"`position` must have `head_dim` {head_dim}, num_hiddens / num_heads, got {shown(encoding)}.")
