"""Encodings inside attention: each with the positions of the queries and keys that it is asked about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from .._array_api.checks import check_positions_shape, check_rank, check_width, is_static
from .._array_api.lazy import tables_by_block
from .._array_api.namespace import A, Array, aligned, namespace_of, shape_of
from ..attention.attend import AttentionInputs
from ..attention.relative import Positions, expand_offsets
from ..positions.sequences import arange_like, from_array
from ..rotation import Pairing, rotate_pairs
from .base import Encoding
from .rotary.base import RotaryEncoding
from .scoring.base import ContentScoring, PositionScoring, Scoring


@dataclass(frozen=True, eq=False)
class Placed:
    """A rotary or scoring encoding with the positions of queries and keys: what `attend` takes.

    Args:
        encoding: the encoding.
        query_positions: shape `(queries,)` or `(batch, queries)`; with an axis before where a rotary encoding has several.
        key_positions: shape `(keys,)` or `(batch, keys)`.
        weights: the arrays of the encoding, by name, where it has learned ones; those that are fixed may be left out, all
            together.
    Raises:
        TypeError: if the encoding works before attention, as additive ones do, or positions are not numbers.
        ValueError: if `weights` lack what is learned or have it in another shape, or the encoding has no such position;
            in `attend`, if positions, heads or widths do not fit the queries and keys.

    >>> from posenc_core import Placed, Rotary, attend
    >>> x = np.ones((1, 2, 3, 4), np.float32)
    >>> attend(x, x, x, position=Placed(Rotary(head_dim=4, layout="half"), range(3), range(3))).shape
    (1, 2, 3, 4)
    """

    encoding: RotaryEncoding | Scoring
    query_positions: Any
    key_positions: Any
    weights: Mapping[str, Array] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.encoding, RotaryEncoding | Scoring):
            raise TypeError(f"`encoding` must be a rotary or scoring encoding, got {self.encoding!r}.")
        for name, parameter in self.encoding.parameters().items():
            _check_learned(self.encoding, name, parameter.shape, (self.weights or {}).get(name))
        for name in ("query_positions", "key_positions"):
            object.__setattr__(self, name, _stated(self.encoding, name, getattr(self, name)))

    @property
    def needs_scores(self) -> bool:
        """Whether the encoding needs the scores or the weights themselves, which a fused kernel does not show."""
        return not isinstance(self.encoding, RotaryEncoding | PositionScoring)

    @property
    def needs_all_keys(self) -> bool:
        """Whether a score depends on other keys than its own."""
        return isinstance(self.encoding, Scoring) and self.encoding.needs_all_keys

    @property
    def has_points(self) -> bool:
        """Whether a token has a position on each of several axes."""
        several = isinstance(self.encoding, RotaryEncoding) and self.encoding.num_axes > 1
        stated = (self.query_positions, self.key_positions)
        return several and any(len(at.shape) > 1 for at in stated if not isinstance(at, range))

    def with_weights(self, x: Array) -> Placed:
        """The same with all arrays that scores are made of, in the library of `x`."""
        return replace(self, weights=self._weights(x)) if isinstance(self.encoding, Scoring) else self

    def part(self, queries: slice, keys: slice) -> Placed:
        """The same for some of the queries and some of the keys."""
        at_queries, at_keys = self.query_positions, self.key_positions
        at_queries = at_queries[queries] if isinstance(at_queries, range) else at_queries[..., queries]
        at_keys = at_keys[keys] if isinstance(at_keys, range) else at_keys[..., keys]
        return replace(self, query_positions=at_queries, key_positions=at_keys)

    def rotate(self, q: A, k: A) -> tuple[A, A]:
        """Queries and keys, rotated if the encoding rotates, once it is clear that they fit it and their positions."""
        self._check(q, k)
        if not isinstance(self.encoding, RotaryEncoding):
            return q, k
        for_queries = self._tables(self.encoding, q, self.query_positions)[:2]
        for_keys = self._tables(self.encoding, k, self.key_positions)[-2:]
        return _turned(q, for_queries, self.encoding.pairing), _turned(k, for_keys, self.encoding.pairing)

    def _check(self, q: Array, k: Array) -> None:
        self._check_sizes("query_positions", self.query_positions, q)
        self._check_sizes("key_positions", self.key_positions, k)
        if isinstance(self.encoding, RotaryEncoding | ContentScoring):
            check_width("q", q, self.encoding.head_dim)
        if isinstance(self.encoding, Scoring):
            check_rank("q", q, minimum=3, maximum=4, axes="(heads, queries, width), with a batch or without")
            heads = self.encoding.num_heads
            if is_static(q.shape[-3]) and q.shape[-3] != heads:
                raise ValueError(f"`q` must have {heads} heads, as {self.encoding} has, got shape {tuple(q.shape)}.")

    def _check_sizes(self, name: str, positions: Any, x: Array) -> None:
        several = isinstance(self.encoding, RotaryEncoding) and self.encoding.num_axes > 1
        sizes = (len(positions),) if isinstance(positions, range) else tuple(positions.shape)
        if several and len(sizes) > 1:
            sizes = sizes[1:]
        check_positions_shape(name, sizes, (x.shape[-2],), shape_of(x)[0] if len(x.shape) > 3 else None)

    def scores(self, content: AttentionInputs) -> Array | None:
        """What is added to the scores, if anything."""
        encoding, x = self.encoding, content.scores
        if isinstance(encoding, ContentScoring):
            return encoding.scores(self._weights(x), *self._stated(x), content)
        if not isinstance(encoding, Scoring):
            return None
        plain = self._ranges()
        if plain is not None and isinstance(encoding, PositionScoring) and encoding.is_relative:
            return self._spread(encoding, *plain, x)
        return encoding.scores(self._weights(x), *self._arrays(x), content)

    def values(self, attention: Array) -> Array | None:
        """What is added to the result, given the attention weights, if anything."""
        if not isinstance(self.encoding, ContentScoring) or not self.encoding.adds_values:
            return None
        return self.encoding.values(self._weights(attention), *self._stated(attention), attention)

    def _tables(self, encoding: RotaryEncoding, x: Array, positions: Any) -> tuple[Array, ...]:
        """Cosine and sine, and those of keys after those of queries where they are others."""
        if encoding.computes_rows:
            return encoding.rows_of(self._weights(x), _like(positions, x))
        several = encoding.num_axes > 1
        rows = encoding.cos_sin(positions) if several else tables_by_block(partial(_rows, encoding), positions)
        return tuple(_like(table, x) for table in rows)

    def _spread(self, encoding: PositionScoring, queries: range, keys: range, x: Array) -> Array:
        """Scores of plain sequences, by way of those of their offsets, which are far fewer."""
        first = keys.start - queries.stop + 1
        offsets = range(first, first + len(queries) + len(keys))
        by_offset = encoding.score(self._weights(x), _like(range(1), x), _like(offsets, x))[:, 0, :]
        return expand_offsets(by_offset, queries=len(queries), keys=len(keys))

    def _stated(self, x: Array) -> tuple[Positions, Positions]:
        return self._ranges() or self._arrays(x)

    def _ranges(self) -> tuple[range, range] | None:
        """Both positions, where they are plain sequences."""
        queries, keys = self.query_positions, self.key_positions
        return (queries, keys) if _is_plain(queries) and _is_plain(keys) else None

    def _arrays(self, x: Array) -> tuple[Array, Array]:
        return _like(self.query_positions, x), _like(self.key_positions, x)

    def _weights(self, x: Array) -> Mapping[str, Array]:
        """What the encoding needs: all that a layer holds, or what is learned with what is not."""
        held = self.weights or {}
        if len(held) > len(self.encoding.parameters()):
            return held
        fixed = self.encoding.constants(0).items()
        return {**{name: _like(table, x) for name, table in fixed}, **held}


def _rows(encoding: RotaryEncoding, positions: Any) -> tuple[Any, ...]:
    return tuple(encoding.rows(from_array(positions)).values())


def _check_learned(encoding: Encoding, name: str, shape: tuple[int, ...], given: Any) -> None:
    if given is None:
        raise ValueError(f"`weights` must have what {encoding} learns, got none called {name!r}.")
    if hasattr(given, "shape") and tuple(given.shape) != shape:  # symbols have none
        raise ValueError(f"`weights` must have {name!r} in shape {shape} for {encoding}, got {tuple(given.shape)}.")


def _stated(encoding: Encoding, name: str, positions: Any) -> Any:
    """Positions as a range of step 1 or an array, checked where their numbers are known."""
    if hasattr(positions, "shape") and not isinstance(positions, np.ndarray):
        return positions
    stated = positions if _is_plain(positions) else from_array(positions)
    if isinstance(encoding, Scoring):  # tables of a rotation check for themselves
        encoding.check_positions(name, stated)
    return stated


def _turned(x: A, tables: tuple[Array, ...], pairing: Pairing) -> A:
    cos, sin = (aligned(table, x, seq_axis=-2) for table in tables)
    return rotate_pairs(x, cos, sin, pairing=pairing)


def _like(given: Any, x: Array) -> Array:
    """Numbers, positions or a table as an array of the library and on the device of `x`."""
    if _is_plain(given):
        return arange_like(len(given), like=x) + given.start
    if hasattr(given, "shape") and not isinstance(given, np.ndarray):
        return given
    return given if isinstance(x, np.ndarray) else namespace_of(x).asarray(given, device=getattr(x, "device", None))


def _is_plain(positions: Any) -> bool:
    return isinstance(positions, range) and positions.step == 1
