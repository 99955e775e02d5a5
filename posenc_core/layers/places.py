"""Where the tokens of one call of `MultiHeadAttention` stand."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from .._array_api.checks import is_static
from .._array_api.namespace import Array, shape_of
from ..attention.masks import causal
from ..positions.sequences import arange_like, counted_from, from_array
from .base import Backend, check_stated, host_values, is_real, whole


class TokenPositions(NamedTuple):
    """Queries count from `start` and keys from 0, those of the cache first, unless their positions are given.

    Attributes:
        sizes: batch, number of queries, number of keys, those of the cache too.
        start: of the queries, an integer, or one for each row.
        cached: the number of keys that are in the cache.
        positions: of the queries, `(queries,)` or `(batch, queries)`, an axis before where an encoding has several; or None.
        key_positions: of all keys, likewise; or None.
        axes: how many axes positions have.
    """

    sizes: tuple[Any, Any, Any]
    start: Any
    cached: int
    positions: Any
    key_positions: Any
    axes: int

    @property
    def new_key_positions(self) -> Any:
        """The positions of the keys that are not in the cache, if they were given."""
        return None if self.key_positions is None else self.key_positions[..., self.cached :]

    @property
    def reach(self) -> int:
        """How long the sequence is, as far as its numbers are known where code is traced."""
        _, queries, keys = self.sizes
        at_queries = _end(self.positions, self.start, queries)
        return max(at_queries, _end(self.key_positions, 0, keys))

    def causal(self, backend: Backend, like: Array) -> Array:
        """No key after its query; in the order of the sequence where a position is a point on several axes."""
        given = [x for x in (self.positions, self.key_positions) if x is not None]
        ordered = self.axes > 1 and any(len(x.shape) > 1 for x in given)
        queries, keys = (None, None) if ordered else (self.positions, self.key_positions)
        return causal(self._of_queries(queries, backend, like), self._of_keys(keys, backend, like))

    def _of_queries(self, given: Any, backend: Backend, like: Array) -> Array:
        if given is not None:
            return to_backend(given, backend, like)
        if type(self.start) is int:
            return arange_like(self.sizes[1], like=like) + self.start
        return counted_from(to_backend(self.start, backend, like), self.sizes[1])

    def _of_keys(self, given: Any, backend: Backend, like: Array) -> Array:
        return arange_like(self.sizes[2], like=like) if given is None else to_backend(given, backend, like)


def _end(given: Any, start: Any, length: Any) -> int:
    """One more than the last position, as far as it is known; 0 if it is not."""
    if isinstance(given, np.ndarray):
        return math.ceil(given.max(initial=-1) + 1)
    if given is not None or not is_static(length) or not isinstance(start, (int, np.ndarray)):
        return 0
    end: int = (start if isinstance(start, int) else int(start.max(initial=0))) + length
    return end


def to_backend(given: Any, backend: Backend, like: Array) -> Any:
    """A list or a NumPy array as an array of the framework."""
    numbers = isinstance(given, (list, tuple, np.ndarray, np.generic))
    return backend.from_numpy(np.asarray(given), like=like) if numbers else given


def stated_positions(name: str, given: Any, sizes: tuple[Any, Any], axes: int, backend: Backend) -> Any:
    """Positions that were given, checked, as a NumPy array; as they are if traced, or real and so with a gradient.

    Args:
        sizes: of the batch and the sequence.
        axes: how many a position has.
    Raises:
        TypeError, ValueError: if they are no positions, or not as many as the tokens.
    """
    if given is None:
        return None
    (batch, length), host = sizes, host_values(given, backend)
    positions = given if host is None or is_real(given) else whole(from_array(host))
    if axes == 1 or len(positions.shape) == 1:
        check_stated(name, positions, (length,), batch)
        return positions
    if is_static(shape_of(positions)[0]) and positions.shape[0] != axes:
        raise ValueError(f"`{name}` must have shape ({axes}, ..., length), got {tuple(positions.shape)}.")
    check_stated(name, positions[0, ...], (length,), batch)
    return positions
