"""Encodings at positions, the argument `position` of `attend`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from operator import mul
from typing import Any, cast

import numpy as np

from .._array_api.checks import check_positions_shape, check_rank, check_type, check_width, is_static, shown
from .._array_api.lazy import tables_by_block
from .._array_api.namespace import A, Array, aligned, aligned_by_head, dtype_name, in_float32, namespace_of, shape_of
from ..attention.attend import AttentionInputs, products
from ..attention.relative import Positions, expand_offsets
from ..positions.sequences import arange_like, from_array
from ..rotation import rotate_pairs
from ..tables.sincos import DType
from .base import Encoding, Tabular, TokenRows
from .query_scale import QueryEncoding
from .remapping import RemappedRotary
from .rotary.base import RotaryEncoding
from .rotary.pope import PoPE
from .scoring.base import ContentScoring, PositionScoring, Scoring


@dataclass(frozen=True, eq=False)
class Placed:
    """A rotary or scoring encoding with the positions of queries and keys, for `attend`.

    Args:
        encoding: the encoding; None for a `query_scale` alone, as in layers without RoPE.
        query_positions: shape `(queries,)` or `(batch, queries)`; preceded by an axis for rotary encodings
            of several axes.
        key_positions: shape `(keys,)` or `(batch, keys)`.
        weights: the parameters of the encoding, by name, if it has any; with all of its constants or with none of
            them.
        query_scale: the factor of queries as a function of their position, which multiplies them after any rotation.
        scale_weights: the parameters of `query_scale`, by name, if it has any.
    Raises:
        TypeError: if the encoding works before attention, as additive ones do, `query_scale` is not a factor of
            queries, or positions are not numbers.
        ValueError: if `weights` lack a parameter or have it in another shape, the encoding has no such position, or
            `query_scale` meets positions on several axes; in `attend`, if positions, heads or widths do not fit the
            queries and keys.

    >>> from posenc_core import Placed, Rotary, attend
    >>> x = np.ones((1, 2, 3, 4), np.float32)
    >>> attend(x, x, x, position=Placed(Rotary(head_dim=4, layout="half"), range(3), range(3))).shape
    (1, 2, 3, 4)
    """

    encoding: RotaryEncoding | RemappedRotary | PoPE | Scoring | None
    query_positions: Any
    key_positions: Any
    weights: Mapping[str, Array] | None = None
    query_scale: QueryEncoding | None = None
    scale_weights: Mapping[str, Array] | None = None

    def __post_init__(self) -> None:
        if self.query_scale is not None:
            check_type("query_scale", self.query_scale, QueryEncoding, "a QueryScale, a LearnedQueryScale or None")
        is_alone = self.encoding is None and self.query_scale is not None
        if not is_alone and not isinstance(self.encoding, (RotaryEncoding, RemappedRotary, PoPE, Scoring)):
            raise TypeError(f"`encoding` must be a rotary or scoring encoding, got {shown(self.encoding)}.")
        _check_parameters("weights", self.encoding, self.weights)
        _check_parameters("scale_weights", self.query_scale, self.scale_weights)
        for name in ("query_positions", "key_positions"):
            object.__setattr__(self, name, _checked_positions(self.encoding, name, getattr(self, name)))
        if self.query_scale is not None and self._num_axes > 1:
            raise ValueError(f"`query_scale` needs positions of one axis, got {shown(self.encoding)}; leave it out.")

    @property
    def needs_scores(self) -> bool:
        """Whether the encoding needs the scores or the weights, which a fused kernel does not return."""
        return not (self.encoding is None or isinstance(self.encoding, (RotaryEncoding, PositionScoring)))

    @property
    def query_rotations(self) -> int:
        """How many times as wide as before queries become: once for each region of a remapping, twice with `PoPE`."""
        if isinstance(self.encoding, RemappedRotary):
            return len(self.encoding.regions)
        return self.encoding.widening if isinstance(self.encoding, Tabular) else 1

    @property
    def needs_all_keys(self) -> bool:
        """Whether a score depends on other keys than its own."""
        return isinstance(self.encoding, Scoring) and self.encoding.needs_all_keys

    @property
    def sums_later_keys(self) -> bool:
        """Whether a score depends on later keys through one sum over them."""
        return isinstance(self.encoding, Scoring) and self.encoding.sums_later_keys

    @property
    def has_points(self) -> bool:
        """Whether a token has a position on each of several axes."""
        both = (self.query_positions, self.key_positions)
        return self._num_axes > 1 and any(
            len(positions.shape) > 1 for positions in both if not isinstance(positions, range)
        )

    @property
    def _num_axes(self) -> int:
        return self.encoding.num_axes if isinstance(self.encoding, RotaryEncoding) else 1

    def with_weights(self, x: Array) -> Placed:
        """Return the same with all arrays that scores are computed from, in the library of `x`."""
        return replace(self, weights=self._weights(x)) if isinstance(self.encoding, Scoring) else self

    def part(self, queries: slice, keys: slice) -> Placed:
        """Return the same for some of the queries and some of the keys."""

        def cut(positions: Any, tokens: slice) -> Any:
            return positions[tokens] if isinstance(positions, range) else positions[..., tokens]

        return replace(
            self, query_positions=cut(self.query_positions, queries), key_positions=cut(self.key_positions, keys)
        )

    def rotate(self, q: A, k: A) -> tuple[A, A]:
        """Check that queries and keys fit, and return them, rotated if the encoding rotates, queries scaled."""
        self._check(q, k)
        q, k = self._rotate(q, k)
        return (q if self.query_scale is None else self._scale(self.query_scale, q)), k

    def _rotate(self, q: A, k: A) -> tuple[A, A]:
        if self.encoding is None or isinstance(self.encoding, Scoring):
            return q, k
        at_queries = self._apply(self.encoding, q, self.query_positions, keys=False)
        return at_queries, self._apply(self.encoding, k, self.key_positions, keys=True)

    def _apply(self, encoding: RotaryEncoding | RemappedRotary | PoPE, x: Any, positions: Any, *, keys: bool) -> Any:
        return apply_rows(encoding, x, self._tables(encoding, x, positions), self.weights or {}, keys=keys)

    def _scale(self, query_scale: QueryEncoding, q: A) -> A:
        query_scale.check_queries(q)
        dtype = np.float64 if dtype_name(q) == "float64" and not query_scale.parameters() else np.float32
        (column,) = tables_by_block(partial(_rows, query_scale, dtype), self.query_positions)
        rows = aligned(_to_library_of(column, q), q, seq_axis=-2)
        scaled: A = in_float32(mul, q, query_scale.factors_of(self.scale_weights or {}, rows))
        return scaled

    def products(self, q: Array, k: Array) -> Array:
        """Return the product of each query and key, from the region of each pair if positions are remapped."""
        if isinstance(self.encoding, RemappedRotary):
            return self.encoding.products(q, k, *self._as_arrays(q))
        return products(q, k)

    def _check(self, q: Array, k: Array) -> None:
        self._check_sizes("query_positions", self.query_positions, q)
        self._check_sizes("key_positions", self.key_positions, k)
        if isinstance(self.encoding, (RotaryEncoding, RemappedRotary, PoPE, ContentScoring)):
            check_width("q", q, self.encoding.head_dim)
        if isinstance(self.encoding, Scoring):
            check_rank("q", q, minimum=3, maximum=4, axes="(heads, queries, width), with a batch or without")
            heads = self.encoding.num_heads
            if is_static(q.shape[-3]) and q.shape[-3] != heads:
                raise ValueError(
                    f"`q` must have the {heads} heads of {shown(self.encoding)}, got shape {tuple(q.shape)}."
                )

    def _check_sizes(self, name: str, positions: Any, x: Array) -> None:
        sizes = (len(positions),) if isinstance(positions, range) else tuple(positions.shape)
        if self._num_axes > 1 and len(sizes) > 1:
            sizes = sizes[1:]
        check_positions_shape(name, sizes, (x.shape[-2],), shape_of(x)[0] if len(x.shape) > 3 else None)

    def scores(self, content: AttentionInputs) -> Array | None:
        """Return what is added to the scores, or None."""
        encoding, x = self.encoding, content.scores
        if isinstance(encoding, ContentScoring):
            return encoding.scores(self._weights(x), *self._positions(x), content)
        if not isinstance(encoding, Scoring):
            return None
        ranges = self._ranges()
        if ranges is not None and isinstance(encoding, PositionScoring) and encoding.is_relative:
            return self._scores_by_offset(encoding, *ranges, x)
        return encoding.scores(self._weights(x), *self._as_arrays(x), content)

    def sum_of_keys(self, content: AttentionInputs) -> Array:
        """Return what a block of keys adds to the scores of all keys before it."""
        return cast("Scoring", self.encoding).sum_of_keys(self._weights(content.scores), content)

    def values(self, attention: Array) -> Array | None:
        """Return what is added to the result, given the attention weights, or None."""
        if not isinstance(self.encoding, ContentScoring) or not self.encoding.adds_values:
            return None
        return self.encoding.values(self._weights(attention), *self._positions(attention), attention)

    def _tables(self, encoding: RotaryEncoding | RemappedRotary | PoPE, x: Array, positions: Any) -> tuple[Array, ...]:
        """Return cosine and sine, and those of keys after those of queries where they differ."""
        if encoding.computes_rows:
            return encoding.rows_of(self._weights(x), _to_library_of(positions, x))
        dtype = np.float64 if dtype_name(x) == "float64" else np.float32
        if isinstance(encoding, RotaryEncoding) and encoding.num_axes > 1:
            rows = encoding.cos_sin(positions, dtype=dtype)
        else:
            rows = tables_by_block(partial(_rows, encoding, dtype), positions)
        tables = tuple(_to_library_of(table, x) for table in rows)
        return encoding.mixed(self.weights or {}, tables) if encoding.mixes_rows else tables

    def _scores_by_offset(self, encoding: PositionScoring, queries: range, keys: range, x: Array) -> Array:
        """Return the scores of two ranges, computed once per offset, of which there are far fewer."""
        first = keys.start - queries.stop + 1
        offsets = range(first, first + len(queries) + len(keys))
        by_offset = encoding.score(self._weights(x), _to_library_of(range(1), x), _to_library_of(offsets, x))[:, 0, :]
        return expand_offsets(by_offset, queries=len(queries), keys=len(keys))

    def _positions(self, x: Array) -> tuple[Positions, Positions]:
        return self._ranges() or self._as_arrays(x)

    def _ranges(self) -> tuple[range, range] | None:
        """Return both positions if they are ranges of step 1, or None."""
        queries, keys = self.query_positions, self.key_positions
        return (queries, keys) if _is_range(queries) and _is_range(keys) else None

    def _as_arrays(self, x: Array) -> tuple[Array, Array]:
        return _to_library_of(self.query_positions, x), _to_library_of(self.key_positions, x)

    def _weights(self, x: Array) -> Mapping[str, Array]:
        """Return all constants and parameters: those given, with the constants if only parameters were given."""
        given, encoding = self.weights or {}, cast("Encoding", self.encoding)
        if len(given) > len(encoding.parameters()):
            return given
        constants = encoding.constants(0).items()
        return {**{name: _to_library_of(table, x) for name, table in constants}, **given}


def _rows(encoding: Tabular, dtype: DType, positions: Any) -> tuple[Any, ...]:
    return tuple(encoding.rows(from_array(positions), dtype).values())


def _check_parameters(argument: str, encoding: Encoding | None, weights: Mapping[str, Array] | None) -> None:
    """Raise unless `weights` have what the encoding learns."""
    for name, parameter in ({} if encoding is None else encoding.parameters()).items():
        given, shape = (weights or {}).get(name), parameter.shape
        if given is None:
            raise ValueError(f"`{argument}` must have what {shown(encoding)} learns, got none called {shown(name)}.")
        if hasattr(given, "shape") and tuple(given.shape) != shape:  # symbols have none
            raise ValueError(
                f"`{argument}` must have {shown(name)} in shape {shape} for {shown(encoding)}, "
                f"got {tuple(given.shape)}."
            )


def _checked_positions(encoding: Encoding | None, name: str, positions: Any) -> Any:
    """Return positions as a range of step 1 or an array, checked where their numbers are known."""
    if hasattr(positions, "shape") and not isinstance(positions, np.ndarray):
        return positions
    positions = positions if _is_range(positions) else from_array(positions)
    if isinstance(encoding, Scoring):  # tables of rotary encodings check them
        encoding.check_positions(name, positions)
    return positions


def apply_rows(
    encoding: RotaryEncoding | RemappedRotary | PoPE,
    x: Any,
    rows: tuple[Any, ...],
    weights: Mapping[str, Array],
    *,
    keys: bool,
) -> Any:
    """Return queries, or with `keys` keys, `(..., heads, length, head_dim)`, at the positions of these rows."""
    return encoding.apply(x, TokenRows(rows, partial(_rotate, encoding), weights, keys))


def _rotate(encoding: RotaryEncoding | RemappedRotary | PoPE, x: A, *tables: Array) -> A:
    fit = aligned if encoding.table_heads is None else aligned_by_head
    cos, sin = (fit(table, x, seq_axis=-2) for table in tables)
    return rotate_pairs(x, cos, sin, pairing=encoding.pairing)


def _to_library_of(given: Any, x: Array) -> Array:
    """Return numbers, positions or a table as an array of the library and on the device of `x`."""
    if _is_range(given):
        return arange_like(len(given), like=x) + given.start
    if hasattr(given, "shape") and not isinstance(given, np.ndarray):
        return given
    return given if isinstance(x, np.ndarray) else namespace_of(x).asarray(given, device=getattr(x, "device", None))


def _is_range(positions: Any) -> bool:
    return isinstance(positions, range) and positions.step == 1
