"""Encodings at positions, the argument `position` of `attend`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from operator import mul
from typing import Any

import numpy as np

from .._array_api.checks import check_positions_shape, check_type, shown
from .._array_api.namespace import (
    A,
    Array,
    Weights,
    aligned,
    dtype_name,
    dtype_of,
    in_float32,
    is_floating,
    namespace_of,
    shape_of,
)
from ..attention.attend import AttentionInputs, Position, grouped
from ..attention.relative import Positions
from ..positions.sequences import as_array_like, from_array
from .attention_encoding import AttentionEncoding, QueryKeyEncoding
from .base import Encoding, TokenRows, consecutive_heads, num_heads_of
from .query_scale import QueryEncoding


@dataclass(frozen=True, eq=False)
class AtPositions(Position):
    """An encoding at the positions of queries and keys, as layers give it to attention: unchecked.

    Arguments are those of `Placed`; positions are ranges of step 1 or arrays.
    """

    encoding: AttentionEncoding | None
    query_positions: Any
    key_positions: Any
    weights: Weights | None = None
    query_scale: QueryEncoding | None = None
    scale_weights: Weights | None = None
    heads: Any = None

    @property
    def needs_scores(self) -> bool:
        return self.encoding is not None and self.encoding.needs_scores

    @property
    def query_rotations(self) -> int:
        return 1 if self.encoding is None else self.encoding.query_rotations

    @property
    def needs_all_keys(self) -> bool:
        """Whether a score depends on other keys than its own."""
        return self.encoding is not None and self.encoding.needs_all_keys

    @property
    def sums_later_keys(self) -> bool:
        """Whether a score depends on later keys through one sum over them."""
        return self.encoding is not None and self.encoding.sums_later_keys

    @property
    def has_points(self) -> bool:
        """Whether a token has a position on each of several axes."""
        both = (self.query_positions, self.key_positions)
        return self._num_axes > 1 and any(
            len(positions.shape) > 1 for positions in both if not isinstance(positions, range)
        )

    @property
    def _num_axes(self) -> int:
        return 1 if self.encoding is None else self.encoding.num_axes

    def with_weights(self, x: Array) -> AtPositions:
        """Return the same with all arrays that scores are computed from, in the library of `x`."""
        if self.encoding is None or not self.encoding.adds_scores:
            return self
        return AtPositions(**{**vars(self), "weights": self._weights_like(x), "heads": None})

    def part(self, queries: slice, keys: slice) -> AtPositions:
        """Return the same for some of the queries and some of the keys."""

        def cut(positions: Any, tokens: slice) -> Any:
            return positions[tokens] if isinstance(positions, range) else positions[..., tokens]

        return replace(
            self, query_positions=cut(self.query_positions, queries), key_positions=cut(self.key_positions, keys)
        )

    def check(self, q: Array, k: Array) -> None:
        for name, positions, x in (("query", self.query_positions, q), ("key", self.key_positions, k)):
            sizes = (len(positions),) if isinstance(positions, range) else tuple(positions.shape)
            sizes = sizes[1:] if self._num_axes > 1 and len(sizes) > 1 else sizes
            check_positions_shape(
                f"{name}_positions", sizes, (x.shape[-2],), shape_of(x)[0] if len(x.shape) > 3 else None
            )
        if self.encoding is not None:
            self.encoding.check_queries(q, None if self.heads is None else num_heads_of(self.heads))
        if self.query_scale is not None:
            self.query_scale.check_queries(q)

    def rotate(self, q: A, k: A) -> tuple[A, A]:
        if self.encoding is not None:
            weights = self.weights or {}
            if self.heads is not None and not self.encoding.adds_scores:
                weights = self.encoding.take_heads(weights, self._heads_like(q))
            q, k = self.encoding.prepare(q, k, self.query_positions, self.key_positions, weights)
        return (q if self.query_scale is None else self._scale(self.query_scale, q)), k

    def _scale(self, query_scale: QueryEncoding, q: A) -> A:
        dtype = np.float64 if dtype_name(q) == "float64" and not query_scale.parameters() else np.float32
        (column,) = query_scale.rows_by_block(self.query_positions, dtype)
        rows = aligned(as_array_like(column, like=q), q, seq_axis=-2)
        scaled: A = in_float32(mul, q, query_scale.factors_of(self.scale_weights or {}, rows))
        return scaled

    def products(self, q: Array, k: Array) -> Array:
        if self.encoding is None:
            return super().products(q, k)
        return self.encoding.products(q, k, *self._positions(q))

    def scores(self, content: AttentionInputs) -> Array | None:
        if self.encoding is None or not self.encoding.adds_scores:
            return None
        return self.encoding.scores(self._weights_like(content.scores), *self._positions(content.scores), content)

    def sum_of_keys(self, content: AttentionInputs) -> Array:
        """Return what a block of keys adds to the scores of all keys before it, `(..., queries, 1)`."""
        encoding: Any = self.encoding  # which is there where `sums_later_keys`
        total: Array = encoding.sum_of_keys(self._weights_like(content.scores), content)
        return total

    def values(self, attention: Array) -> Array | None:
        if self.encoding is None or not self.encoding.adds_values:
            return None
        return self.encoding.values(self._weights_like(attention), *self._positions(attention), attention)

    def _positions(self, x: Array) -> tuple[Positions, Positions]:
        """Return two ranges, or two arrays of the library of `x`."""
        queries, keys = self.query_positions, self.key_positions
        if isinstance(queries, range) and isinstance(keys, range):
            return queries, keys
        return as_array_like(queries, like=x), as_array_like(keys, like=x)

    def _weights_like(self, x: Array) -> Weights:
        """Return the constants and parameters of the heads, in the library of `x`."""
        encoding: Any = self.encoding
        weights: Weights = encoding.all_weights(self.weights or {}, x)
        if self.heads is None:
            return weights
        return encoding.take_heads(weights, self._heads_like(x))

    def _heads_like(self, x: Array) -> Any:
        return self.heads if isinstance(self.heads, range) else as_array_like(self.heads, like=x)


@dataclass(frozen=True, eq=False)
class RotatedTokens(Position):
    """Queries and keys that a layer rotated, and widened: their scores keep the scale of the heads."""

    encoding: QueryKeyEncoding

    @property
    def needs_scores(self) -> bool:
        return self.encoding.needs_scores

    @property
    def query_rotations(self) -> int:
        return self.encoding.query_rotations


@dataclass(frozen=True, eq=False)
class AtRows(RotatedTokens):
    """An encoding of queries and keys inside attention, with rows of the tables of a layer; unchecked.

    Args:
        encoding: the encoding.
        query_rows, key_rows: the rows of queries and keys, from each table.
        weights: the parameters of the layer, by name.
        rotate_by: rotates tokens by a cosine and a sine; by default as the encoding does.
        query_positions, key_positions: arrays, for an encoding whose products depend on them.
    """

    query_rows: tuple[Array, ...]
    key_rows: tuple[Array, ...]
    weights: Weights
    rotate_by: Callable[..., Any] | None = None
    query_positions: Any = None
    key_positions: Any = None

    def rotate(self, q: Any, k: Any) -> tuple[Any, Any]:
        rotate_by = self.encoding.rotate_by if self.rotate_by is None else self.rotate_by
        at_queries = self.encoding.apply(q, TokenRows(self.query_rows, rotate_by, self.weights, keys=False))
        return at_queries, self.encoding.apply(k, TokenRows(self.key_rows, rotate_by, self.weights, keys=True))

    def products(self, q: Array, k: Array) -> Array:
        return self.encoding.products(q, k, self.query_positions, self.key_positions)


@dataclass(frozen=True, eq=False)
class RotatedAndBiased(Position):
    """A rotary and a scoring encoding together; unchecked.

    Args:
        rotation: the first, which rotates queries and keys or says how they are rotated.
        bias: the second, which adds to their scores.
        tokens: queries and keys before the rotation, which the second looks at; None if it looks at positions alone.
    """

    rotation: Position
    bias: Position
    tokens: tuple[Any, Any] | None = None

    @property
    def needs_scores(self) -> bool:
        return self.rotation.needs_scores or self.bias.needs_scores

    @property
    def query_rotations(self) -> int:
        return self.rotation.query_rotations

    def rotate(self, q: A, k: A) -> tuple[A, A]:
        return self.rotation.rotate(q, k)

    def products(self, q: Array, k: Array) -> Array:
        return self.rotation.products(q, k)

    def scores(self, content: AttentionInputs) -> Array | None:
        if self.tokens is not None:
            xp, scores = namespace_of(content.scores), content.scores
            q, k = (xp.astype(x, dtype_of(scores)) for x in self.tokens)
            content = AttentionInputs(q, grouped(k, q), scores)
        return self.bias.scores(content)

    def values(self, attention: Array) -> Array | None:
        return self.bias.values(attention)


@dataclass(frozen=True, eq=False)
class Placed(AtPositions):
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
        heads: the numbers of the heads where queries and keys have a part of them, as in tensor parallelism:
            consecutive ones, a range or an array `(heads,)`; those of keys for a rotary encoding. Weights have all
            heads, or these.
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

    def __post_init__(self) -> None:
        if self.query_scale is not None:
            check_type("query_scale", self.query_scale, QueryEncoding, "a QueryScale, a LearnedQueryScale or None")
        if self.encoding is not None or self.query_scale is None:
            check_type("encoding", self.encoding, AttentionEncoding, "a rotary or scoring encoding")
        if self.heads is not None:
            object.__setattr__(self, "heads", consecutive_heads(self.heads))
            check_part_of_heads(self.encoding)
        check_parameters("weights", self.encoding, self.weights, heads=self.heads)
        check_parameters("scale_weights", self.query_scale, self.scale_weights)
        for name in ("query_positions", "key_positions"):
            positions = getattr(self, name)
            if isinstance(positions, np.ndarray) or not hasattr(positions, "shape"):
                is_range = isinstance(positions, range) and positions.step == 1
                positions = positions if is_range else from_array(positions)
                object.__setattr__(self, name, positions)
                if self.encoding is not None:
                    self.encoding.check_positions(name, positions)
            elif self.encoding is not None and self.encoding.needs_integer_positions and is_floating(positions):
                raise TypeError(
                    f"`{name}` must be integers where offsets are looked up, got {dtype_name(positions)}; "
                    "cast them to int32."
                )
        if self.query_scale is not None and self._num_axes > 1:
            raise ValueError(f"`query_scale` needs positions of one axis, got {shown(self.encoding)}; leave it out.")


def check_parameters(argument: str, encoding: Encoding | None, weights: Weights | None, *, heads: Any = None) -> None:
    """Raise unless `weights` have what the encoding learns; for some `heads`, `take_heads` checks shapes."""
    for name, parameter in ({} if encoding is None else encoding.parameters()).items():
        given, shape = (weights or {}).get(name), parameter.shape
        if given is None:
            raise ValueError(f"`{argument}` must have what {shown(encoding)} learns, got none called {shown(name)}.")
        if heads is None and hasattr(given, "shape") and tuple(given.shape) != shape:  # symbols have none
            raise ValueError(
                f"`{argument}` must have {shown(name)} in shape {shape} for {shown(encoding)}, "
                f"got {tuple(given.shape)}."
            )


def check_part_of_heads(encoding: Encoding | None) -> None:
    """Raise if the terms of a head depend on all heads, so that a process needs them all."""
    if getattr(encoding, "mixes_heads", False):
        raise ValueError(f"`heads` must be left out for {shown(encoding)}, whose terms depend on all heads.")
