"""Attention of long sequences block by block, so that the full scores are never in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial, reduce
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from .._array_api.checks import check_floating, check_integer, check_rank, check_width, is_specialized, shown
from .._array_api.namespace import A, Array, namespace_of
from ..positions.sequences import as_array_like
from .attend import (
    AttentionInputs,
    Position,
    attend,
    check_fit,
    check_mask,
    check_values,
    computed,
    grouped,
    scale_of,
    scored,
)
from .masks import causal
from .softmax import OnlineSoftmaxState, merge, partial_softmax, weighted_mean

Mask: TypeAlias = Callable[[Any, Any], Any]


class BlockPosition(Position):
    """A `Position` that can be cut into blocks of queries and keys.

    Attributes:
        encoding: the encoding, for messages.
        query_positions: the positions of the queries: a range, or an array `(..., queries)`.
        key_positions: the positions of the keys: a range, or an array `(..., keys)`.
    """

    encoding: Any
    query_positions: Any
    key_positions: Any

    @property
    def needs_all_keys(self) -> bool:
        """Whether a score depends on other keys than its own."""
        return False

    @property
    def sums_later_keys(self) -> bool:
        """Whether a score depends on later keys through one sum over them."""
        return False

    @property
    def has_points(self) -> bool:
        """Whether a token has a position on each of several axes."""
        return False

    def with_weights(self, x: Array) -> BlockPosition:
        """Return the same with all arrays that scores are computed from, in the library of `x`."""
        raise NotImplementedError

    def part(self, queries: slice, keys: slice) -> BlockPosition:
        """Return the same for some of the queries and some of the keys."""
        raise NotImplementedError

    def sum_of_keys(self, content: AttentionInputs) -> Array:
        """Return what a block of keys adds to the scores of all keys before it, `(..., queries, 1)`."""
        raise NotImplementedError


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
    """Return what `attend` returns, with the scores of `block` queries and `block` keys in memory at a time.

    Online softmax merges the sums over the keys of a block with those of earlier blocks. An encoding adds its scores
    for the positions of one block. Blocks without a visible key are skipped where this is known: under `causal`
    for plain sequences, and under any mask in NumPy. Memory grows with queries + keys. Gradients need as much in
    libraries that recompute blocks; elsewhere they keep all weights.

    Args:
        q, k, v: as in `attend`.
        position: likewise; any encoding except `Cope`, which looks up a table at the sum of gates along a row. Those of
            `ForgettingBias` are added, so that it takes the blocks of keys from the last on.
        bias: likewise.
        mask: likewise; or a function, like `causal`, that computes the mask of a block from the positions of its
            queries and keys. It receives those of `position`, integers in the library of `q`; without `position`, or
            where a token has a position on each of several axes, it receives the numbers of the tokens, counted from 0.
        block: the number of queries and of keys in a block.
    Raises:
        TypeError, ValueError: as in `attend`; if `block` is not positive, or compiled code does not know the lengths.
    Source: Rabe and Staats 2021 (arXiv:2112.05682); Dao et al. 2022 (arXiv:2205.14135).

    >>> import numpy as np
    >>> from posenc_core import causal
    >>> x = np.eye(4, dtype=np.float32)
    >>> expected = attend(x, x, x, mask=causal(np.arange(4), np.arange(4)))
    >>> np.allclose(attend_by_block(x, x, x, mask=causal, block=3), expected)
    True
    """
    block = check_integer("block", block)
    check_floating("q", q)
    check_rank("q", q, minimum=2, axes="(..., queries, width)")
    check_values(v, k)
    check_fit(q, k, position, bias, None if callable(mask) else mask)
    _check_can_be_cut(q, k, position)
    q, k = (q, k) if position is None else position.rotate(q, k)
    if 0 in (q.shape[-2], k.shape[-2]):
        return attend(q, k, v)
    tokens = {"k": grouped(k, q), "v": grouped(v, q)}
    operation = partial(_attend_by_block, additions=_Additions(position, bias, mask), block=block)
    return computed(operation, q, tokens, bias=bias, mask=None if callable(mask) else mask)


def _check_can_be_cut(q: Array, k: Array, position: BlockPosition | None) -> None:
    if not all(is_specialized(x.shape[-2], x) for x in (q, k)):
        raise ValueError(
            f"`q` and `k` must have lengths that are known when code is traced, got shapes {tuple(q.shape)} and "
            f"{tuple(k.shape)}; fix them, or call `attend`."
        )
    if position is not None and position.needs_all_keys and not position.sums_later_keys:
        raise ValueError(f"`position` must look at one key at a time, got {shown(position.encoding)}; call `attend`.")


class _Additions(NamedTuple):
    """The bias that attention adds to scores, and which keys it hides: of all queries and keys, or of a block."""

    position: BlockPosition | None
    bias: Array | None
    mask: Any

    def part(self, queries: slice, keys: slice, mask: Any) -> _Additions:
        """Return the same for a block with this mask."""
        position = None if self.position is None else self.position.part(queries, keys)
        return _Additions(position, _part(self.bias, queries, keys), mask)


def _attend_by_block(q: Array, k: Array, v: Array, *, additions: _Additions, block: int) -> Array:
    if additions.position is not None:
        additions = additions._replace(position=additions.position.with_weights(q))
    rows = []
    for queries in _blocks_of(q, block):
        blocks = _visible_blocks(additions, queries, q, _blocks_of(k, block))
        rows.append(_checkpoint(partial(_attend_queries, blocks=blocks), q[..., queries, :], k, v))
    return rows[0] if len(rows) == 1 else namespace_of(q).concat(rows, axis=-2)


def _blocks_of(x: Array, block: int) -> list[slice]:
    """Return the slices that cut the sequence of `x` into blocks."""
    length = x.shape[-2]
    return [slice(first, min(first + block, length)) for first in range(0, length, block)]


def _visible_blocks(
    additions: _Additions, queries: slice, q: Array, blocks: list[slice]
) -> list[tuple[slice, _Additions]]:
    """Return the blocks of keys that these queries may see, at least one, and what attention adds there."""
    before = [keys for keys in blocks if not _comes_after(additions, queries, keys)]
    masks = [(keys, _mask(additions, queries, keys, q)) for keys in before or blocks[:1]]
    visible = [pair for pair in masks if not isinstance(pair[1], np.ndarray) or pair[1].any()]
    return [(keys, additions.part(queries, keys, mask)) for keys, mask in visible or masks[:1]]


def _comes_after(additions: _Additions, queries: slice, keys: slice) -> bool:
    """Return whether the causal mask is known to hide all of these keys from all of these queries."""
    query_positions, key_positions = _positions_of(additions.position, queries, keys)
    return (
        additions.mask is causal
        and _are_ranges(query_positions, key_positions)
        and query_positions[-1] < key_positions[0]
    )


def _mask(additions: _Additions, queries: slice, keys: slice, q: Array) -> Array | None:
    """Return the mask of a block; None where the causal mask is known to hide nothing."""
    if not callable(additions.mask):
        return _part(additions.mask, queries, keys)
    query_positions, key_positions = _positions_of(additions.position, queries, keys)
    if (
        additions.mask is causal
        and _are_ranges(query_positions, key_positions)
        and query_positions[0] >= key_positions[-1]
    ):
        return None
    mask: Array = additions.mask(as_array_like(query_positions, like=q), as_array_like(key_positions, like=q))
    check_mask(mask, (*q.shape[:-2], queries.stop - queries.start, keys.stop - keys.start))
    return mask


def _positions_of(position: BlockPosition | None, queries: slice, keys: slice) -> tuple[Any, Any]:
    """Return the positions of some queries and keys that a mask compares."""
    if position is None or position.has_points:
        return range(queries.start, queries.stop), range(keys.start, keys.stop)
    part = position.part(queries, keys)
    return part.query_positions, part.key_positions


def _are_ranges(*positions: Any) -> bool:
    return all(isinstance(each, range) for each in positions)


def _part(x: Array | None, queries: slice, keys: slice) -> Array | None:
    """Return the block of an array that broadcasts to the scores."""
    if x is None:
        return None
    sizes = (1, 1, *x.shape)
    x = x if sizes[-1] == 1 else x[..., keys]
    return x if sizes[-2] == 1 else x[..., queries, :]


def _checkpoint(function: Callable[..., Any], *arrays: Array) -> Any:
    """Return `function(*arrays)`; its gradient computes it again, in a framework that can (gradient checkpointing)."""
    own = getattr(namespace_of(*arrays), "recomputed", None)
    return function(*arrays) if own is None else own(function, *arrays)


def _attend_queries(q: Array, k: Array, v: Array, *, blocks: list[tuple[slice, _Additions]]) -> Array:
    """Return the result of some queries."""
    return weighted_mean(reduce(merge, _states(q, k, v, blocks)))


def _states(q: Array, k: Array, v: Array, blocks: list[tuple[slice, _Additions]]) -> Iterator[OnlineSoftmaxState]:
    """Yield the state of each block; from the last one on where scores depend on a sum over later keys."""
    summed: list[Array] = []  # over the keys of all blocks so far, if scores depend on this sum
    position = blocks[0][1].position
    for keys, additions in reversed(blocks) if position is not None and position.sums_later_keys else blocks:
        operation = partial(_attend_block, additions=additions)
        max_score, sum_of_weights, values, *summed = _checkpoint(
            operation, q, k[..., keys, :], v[..., keys, :], *summed
        )
        yield OnlineSoftmaxState(max_score, sum_of_weights, values)


def _attend_block(q: Array, k: Array, v: Array, *summed: Array, additions: _Additions) -> tuple[Array, ...]:
    """Return the fields of the `OnlineSoftmaxState` of one block.

    Where scores depend on a sum over later keys, `summed` is that over all later blocks, and the sum over these and the
    block follows the state.
    """
    xp, position = namespace_of(q), additions.position
    scores = scored(q, k, scale_of(q, position), **additions._asdict())
    for later in summed:
        scores = scores + later
    max_score, weights = partial_softmax(scores)
    values = xp.matmul(weights, v)
    added = None if position is None else position.values(weights)
    if added is not None:
        check_width("v", v, added.shape[-1])
        values = values + added
    state = max_score, xp.sum(weights, axis=-1, keepdims=True), values
    if position is None or not position.sums_later_keys:
        return state
    sum_of_keys = position.sum_of_keys(AttentionInputs(q, k, scores))
    return (*state, sum_of_keys + summed[0] if summed else sum_of_keys)
