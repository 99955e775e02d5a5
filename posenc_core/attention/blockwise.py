"""Blockwise: attention of long sequences, whose scores are never all in memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from .._array_api.checks import check_as_long, check_integer, check_rank, check_width, is_specialized
from .._array_api.namespace import A, Array, in_float32, namespace_of
from ..positions.sequences import arange_like
from .attend import Position, attend, check_mask, fitted, grouped, scored
from .masks import causal
from .softmax import OnlineSoftmaxState, mean, merge, partial_softmax

if TYPE_CHECKING:
    from typing import Self

Mask: TypeAlias = Callable[[Any, Any], Any]


class BlockPosition(Position, Protocol):
    """A `Position` that can be cut into blocks of queries and keys."""

    @property
    def encoding(self) -> Any:
        """The encoding, for messages."""

    @property
    def query_positions(self) -> Any:
        """The positions of the queries: a range, or an array `(..., queries)`."""

    @property
    def key_positions(self) -> Any:
        """The positions of the keys: a range, or an array `(..., keys)`."""

    @property
    def needs_all_keys(self) -> bool:
        """Whether a score depends on other keys than its own."""

    @property
    def has_points(self) -> bool:
        """Whether a token has a position on each of several axes."""

    def with_weights(self, x: Array) -> Self:
        """Return the same with all arrays that scores are computed from, in the library of `x`."""

    def part(self, queries: slice, keys: slice) -> Self:
        """Return the same for some of the queries and some of the keys."""


def attend_by_block(
    q: A,
    k: A,
    v: A,
    *,
    position: BlockPosition | None = None,
    bias: Array | None = None,
    mask: Array | Mask | None = None,
    block: int = 512,
) -> A:
    """What `attend` gives, with the scores of `block` queries and `block` keys in memory at a time.

    Sums over the keys of a block are joined with those before, weighed by the largest scores of both. What an encoding adds
    is made for the positions of one block. Blocks of which no query sees a key are left out where that is known: under
    `causal`, of plain sequences, and by any mask in NumPy. Memory grows with queries + keys. So does that of gradients where
    a library computes blocks again when it needs them; elsewhere they keep all weights.

    Args:
        q, k, v: as in `attend`.
        position: likewise; any encoding but `Cope`, which counts along whole rows.
        bias: likewise.
        mask: likewise; or a function of the positions of some queries and keys that makes it, like `causal`, whose
            result is never there as a whole. They are those of `position`, integers in the library of `q`, and count
            from 0 without it, or where a token has one on each of several axes.
        block: how many queries, and how many keys.
    Raises:
        TypeError, ValueError: as in `attend`; if `block` is not positive, or compiled code does not know the lengths.
    Source: Rabe and Staats 2021 (arXiv:2112.05682); Dao et al. 2022 (arXiv:2205.14135).

    >>> import numpy as np
    >>> from posenc_core import causal
    >>> x = np.eye(4, dtype=np.float32)
    >>> np.allclose(attend_by_block(x, x, x, mask=causal, block=3), attend(x, x, x, mask=causal(np.arange(4), np.arange(4))))
    True
    """
    check_integer("block", block)
    check_rank("q", q, minimum=2, axes="(..., queries, width)")
    check_as_long("v", v, "k", k)
    _check_can_be_cut(q, k, position)
    q, k = fitted(q, k, position, bias, None if callable(mask) else mask)
    if 0 in (q.shape[-2], k.shape[-2]):
        return attend(q, k, v)
    k, v = (grouped(x, q) for x in (k, v))
    return in_float32(partial(_attended, told=_Told(position, bias, mask), block=block), q, k, v)


def _check_can_be_cut(q: Array, k: Array, position: BlockPosition | None) -> None:
    if not all(is_specialized(x.shape[-2], x) for x in (q, k)):
        raise ValueError(
            f"`q` and `k` must have lengths that are known when code is traced, got shapes {tuple(q.shape)} and "
            f"{tuple(k.shape)}; fix them, or call `attend`."
        )
    if position is not None and position.needs_all_keys:
        raise ValueError(f"`position` must look at one key at a time, got {position.encoding!r}; call `attend`.")


class _Told(NamedTuple):
    """What attention is told besides queries, keys and values: of all of them, or of a block."""

    position: BlockPosition | None
    bias: Array | None
    mask: Any

    def part(self, queries: slice, keys: slice, mask: Any) -> _Told:
        """The same of a block, whose mask is this."""
        position = None if self.position is None else self.position.part(queries, keys)
        return _Told(position, _part(self.bias, queries, keys), mask)


def _attended(q: Array, k: Array, v: Array, *, told: _Told, block: int) -> Array:
    if told.position is not None:
        told = told._replace(position=told.position.with_weights(q))
    rows = []
    for queries in _cut(q, block):
        blocks = _seen(told, queries, q, _cut(k, block))
        rows.append(_recomputed(partial(_rows, blocks=blocks), q[..., queries, :], k, v))
    return rows[0] if len(rows) == 1 else namespace_of(q).concat(rows, axis=-2)


def _cut(x: Array, block: int) -> list[slice]:
    """The sequence of `x` in blocks."""
    length = x.shape[-2]
    return [slice(first, min(first + block, length)) for first in range(0, length, block)]


def _seen(told: _Told, queries: slice, q: Array, blocks: list[slice]) -> list[tuple[slice, _Told]]:
    """The blocks of keys that some of these queries see, as far as that is known, and what is told of them; at least one."""
    before = [keys for keys in blocks if not _comes_after(told, queries, keys)]
    masks = [(keys, _mask(told, queries, keys, q)) for keys in before or blocks[:1]]
    shown = [pair for pair in masks if not isinstance(pair[1], np.ndarray) or pair[1].any()]
    return [(keys, told.part(queries, keys, mask)) for keys, mask in shown or masks[:1]]


def _comes_after(told: _Told, queries: slice, keys: slice) -> bool:
    """Whether it is known that order hides these keys from these queries."""
    at_queries, at_keys = _places(told.position, queries, keys)
    return told.mask is causal and _are_plain(at_queries, at_keys) and at_queries[-1] < at_keys[0]


def _mask(told: _Told, queries: slice, keys: slice, q: Array) -> Array | None:
    """The mask of a block; None where it is known that order shows all."""
    if not callable(told.mask):
        return _part(told.mask, queries, keys)
    at_queries, at_keys = _places(told.position, queries, keys)
    if told.mask is causal and _are_plain(at_queries, at_keys) and at_queries[0] >= at_keys[-1]:
        return None
    mask: Array = told.mask(_numbers(at_queries, q), _numbers(at_keys, q))
    check_mask(mask, (*q.shape[:-2], queries.stop - queries.start, keys.stop - keys.start))
    return mask


def _places(position: BlockPosition | None, queries: slice, keys: slice) -> tuple[Any, Any]:
    """Where some queries and keys stand, as far as a mask is concerned."""
    if position is None or position.has_points:
        return range(queries.start, queries.stop), range(keys.start, keys.stop)
    part = position.part(queries, keys)
    return part.query_positions, part.key_positions


def _are_plain(*positions: Any) -> bool:
    return all(isinstance(each, range) for each in positions)


def _numbers(positions: Any, q: Array) -> Any:
    """Positions as integers in the library of `q`."""
    if isinstance(positions, range):
        return arange_like(len(positions), like=q) + positions.start
    if isinstance(q, np.ndarray) or not isinstance(positions, np.ndarray):
        return positions
    return namespace_of(q).asarray(positions, device=getattr(q, "device", None))


def _part(x: Array | None, queries: slice, keys: slice) -> Array | None:
    """What belongs to a block of an array that broadcasts to the scores."""
    if x is None:
        return None
    sizes = (1, 1, *x.shape)
    x = x if sizes[-1] == 1 else x[..., keys]
    return x if sizes[-2] == 1 else x[..., queries, :]


def _recomputed(function: Callable[..., Any], *arrays: Array) -> Any:
    """`function(*arrays)`, of which a framework that can computes what gradients need when they do."""
    own = getattr(namespace_of(*arrays), "recomputed", None)
    return function(*arrays) if own is None else own(function, *arrays)


def _rows(q: Array, k: Array, v: Array, *, blocks: list[tuple[slice, _Told]]) -> Array:
    """The result of some queries."""
    each = (_recomputed(partial(_summed, told=told), q, k[..., keys, :], v[..., keys, :]) for keys, told in blocks)
    return mean(reduce(merge, (OnlineSoftmaxState(*sums) for sums in each)))


def _summed(q: Array, k: Array, v: Array, *, told: _Told) -> tuple[Array, Array, Array]:
    """The sums of a block."""
    xp = namespace_of(q)
    peak, parts = partial_softmax(scored(q, k, 1 / math.sqrt(q.shape[-1]), **told._asdict()))
    mixed = xp.matmul(parts, v)
    added = None if told.position is None else told.position.values(parts)
    if added is not None:
        check_width("v", v, added.shape[-1])
        mixed = mixed + added
    return peak, xp.sum(parts, axis=-1, keepdims=True), mixed
