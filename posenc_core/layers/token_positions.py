"""The positions of queries and keys in one call of attention."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._array_api.checks import host_array, is_specialized, is_static, shown
from .._array_api.namespace import Array, shape_of
from ..positions.sequences import LIMIT, arange_like, counted_from
from .backend import Backend, Given, Tensor
from .heads import Heads
from .inputs import cached_length, end_of, parse_positions, parse_start


class TokenPositions(NamedTuple):
    """Positions of one call; by default queries count from `start`, and keys from 0, cached keys first.

    Attributes:
        sizes: batch, number of queries, number of keys, those of the cache included.
        start: of the queries, an integer, or one for each row.
        cached: the number of keys that are in the cache.
        positions: of the queries, `(queries,)` or `(batch, queries)`, an axis before where an encoding has several; or
            None.
        key_positions: of all keys, likewise; or None.
        axes: the number of axes that a position has.
        is_one_sequence: whether queries and new keys are known to be as many.
    """

    sizes: tuple[Tensor, Tensor, Tensor]
    start: Given
    cached: int
    positions: Given
    key_positions: Given
    axes: int
    is_one_sequence: bool = False

    def in_order(self) -> TokenPositions:
        """Return the positions that say which tokens come later: the order of the sequence where they are points."""
        given = [x for x in (self.positions, self.key_positions) if x is not None]
        are_points = self.axes > 1 and any(len(x.shape) > 1 for x in given)
        return self._replace(positions=None, key_positions=None) if are_points else self

    @property
    def by_index(self) -> TokenPositions:
        """Return the numbers of tokens in their arrays, those of the cache first, as their positions."""
        return self._replace(positions=None, key_positions=None, start=self.cached)

    def arrays(self, like: Tensor, backend: Backend) -> tuple[Array, Array]:
        """Return the positions of queries and keys as arrays of the framework, beside `like`; counted where None."""
        _, queries, keys = self.sizes
        if self.positions is not None:
            at_queries = array_like("positions", self.positions, like, backend)
        elif type(self.start) is int:
            at_queries = arange_like(queries, like=like) + self.start
        else:
            at_queries = counted_from(array_like("start", self.start, like, backend), queries)
        if self.key_positions is None:
            return at_queries, arange_like(keys, like=like)
        return at_queries, array_like("key_positions", self.key_positions, like, backend)

    def is_one_length(self, like: Tensor) -> bool:
        """Return whether there are as many new keys as queries, where a program has both numbers as constants."""
        _, queries, keys = self.sizes
        keys = keys - self.cached
        return is_specialized(queries, like) and is_specialized(keys, like) and queries == keys

    @property
    def starts_at_0(self) -> bool:
        """Whether there are as many queries as keys, both at positions from 0 on."""
        is_start = type(self.start) is int and self.start == self.cached == 0
        return self.is_one_sequence and is_start and self.positions is self.key_positions is None

    @property
    def is_shared(self) -> bool:
        """Whether queries and new keys have the same positions."""
        if self.positions is self.key_positions is None:
            return self.is_one_sequence and type(self.start) is int and self.start == self.cached
        return self.is_one_sequence and self.cached == 0 and self.positions is self.key_positions

    @property
    def is_last(self) -> bool:
        """Whether the one query is the last token, which sees all keys."""
        _, queries, keys = self.sizes
        are_numbers = type(queries) is type(keys) is type(self.start) is int and self.positions is self.key_positions
        return are_numbers and queries == 1 and self.positions is None and self.start + 1 >= keys

    def is_within(self, window: int) -> bool:
        """Return whether all keys are known to be fewer positions away from each query than `window`."""
        _, queries, keys = self.sizes
        are_numbers = type(queries) is type(keys) is type(self.start) is int and self.positions is self.key_positions
        return are_numbers and self.positions is None and max(self.start + queries, keys - self.start) <= window

    @property
    def seq_len(self) -> int:
        """The length of the sequence, as far as its numbers are known where code is traced."""
        _, queries, keys = self.sizes
        return max(end_of(self.positions, self.start, queries), end_of(self.key_positions, 0, keys))


def token_positions(
    q: Tensor,
    k: Tensor,
    start: Given,
    positions: tuple[Tensor, Tensor],
    cache: Any,
    kind: tuple[int, int],
    backend: Backend,
) -> TokenPositions:
    """Return the positions of queries and keys, `(batch, heads, length, head_dim)`; new keys follow the cache.

    Args:
        q, k: queries and new keys.
        start: of the queries.
        positions: those of the queries and of the keys, or None for both.
        cache: keys and values of earlier tokens.
        kind: how many times as wide as tokens cached keys are, and the number of axes that a position has.
        backend: of the layer.
    """
    batch, _, queries, _ = shape_of(q)
    start = start if type(start) is int and 0 <= start < LIMIT else parse_start(start, batch, backend)
    widening, axes = kind
    cached = 0 if cache is None else cached_length(cache, start, k, widening)
    sizes = batch, queries, shape_of(k)[2] + cached
    of_queries, of_keys = positions
    if of_queries is of_keys is None:
        return TokenPositions(sizes, start, cached, None, None, axes)
    if of_keys is None:
        raise ValueError("`key_positions` must be given with `positions`; those of self-attention are the same.")
    at_queries = parse_positions("positions", of_queries, (batch, queries), axes, backend)
    if of_queries is of_keys and type(queries) is int and queries == sizes[2]:
        return TokenPositions(sizes, start, cached, at_queries, at_queries, axes)
    at_keys = parse_positions("key_positions", of_keys, (batch, sizes[2]), axes, backend)
    return TokenPositions(sizes, start, cached, at_queries, at_keys, axes)


def rotate_heads(
    rotary: Any, tokens: tuple[Tensor, Tensor], at: TokenPositions, heads: Heads | None, cos_sin: Any
) -> tuple[Tensor, Tensor]:
    """Return queries and new keys, `(batch, heads, length, head_dim)`, rotated for the whole sequence length.

    Args:
        rotary: the layer that rotates.
        tokens: queries and keys.
        at: their positions.
        heads: those of keys that the process has; None for all.
        cos_sin: the rows of all tokens, where they are known; else None.
    """
    (q, k), limit = tokens, rotary.encoding.max_seq_len
    options: dict[str, Any] = {"seq_axis": -2}
    if heads is not None and rotary.encoding.parameters():
        options["heads"] = heads
    if cos_sin is not None:
        _, queries, keys = at.sizes
        if is_static(queries) and is_static(keys) and queries != keys - at.cached:
            raise ValueError(
                "`cos_sin` must be left out where queries are not as many as new keys, "
                f"got {queries} and {keys - at.cached}."
            )
        return rotary(q, k, cos_sin=cos_sin, **options)
    if limit is not None and at.seq_len > limit:
        options["seq_len"] = at.seq_len
    if at.is_shared:
        return rotary(q, k, start=at.start, positions=at.positions, **options)
    new_positions = None if at.key_positions is None else at.key_positions[..., at.cached :]
    of_keys = {"start": at.cached, "positions": new_positions, **options}
    at_queries = rotary(q, start=at.start, positions=at.positions, **options)
    if rotary.encoding.keys_differ:
        return at_queries, rotary(k, k, **of_keys)[1]
    return at_queries, rotary(k, **of_keys)


def rotates_no_rows(position: object) -> str:
    """Return the message that attention with this position does not rotate by rows that a call gives."""
    return f"`cos_sin` must be left out where `position` rotates no keys before attention, got {shown(position)}."


def array_like(name: str, given: Given, like: Tensor, backend: Backend) -> Tensor:
    """Return a list or a NumPy array as an array of the framework beside `like`; others as they are."""
    is_host = isinstance(given, (list, tuple, np.ndarray, np.generic))
    return backend.from_numpy(host_array(name, given), like=like) if is_host else given
