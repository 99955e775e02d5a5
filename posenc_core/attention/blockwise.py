"""Attention of long sequences block by block, so that the full scores are never in memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial, reduce
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from .._array_api.checks import check_floating, check_integer, check_rank, check_width, is_specialized, shown
from .._array_api.namespace import A, Array, dtype_name, dtype_of, namespace_of
from ..positions.sequences import as_array_like
from .attend import (
    Additions,
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
from .softmax import OnlineSoftmaxState, log_sum_exp, merge, partial_softmax, weighted_mean

Mask: TypeAlias = Callable[[Any, Any], Any]


def attend_by_block(
    q: A,
    k: A,
    v: A,
    *,
    position: Position | None = None,
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
    return _result_and_lse(q, k, v, Additions(position, bias, mask), block)[0]


class AttentionState(NamedTuple):
    """Attention to some of the keys, which `merge_states` joins with attention to others.

    Attributes:
        result: what `attend` returns for these keys, `(..., queries, value_width)`.
        lse: log Σ exp(score) of each query (log-sum-exp), `(..., queries)`; -inf where it sees none of these keys.
            float32, or float64 where queries are.
    """

    result: Any
    lse: Any


def attention_state(
    q: Array,
    k: Array,
    v: Array,
    *,
    position: Position | None = None,
    bias: Array | None = None,
    mask: Array | Mask | None = None,
    block: int = 512,
) -> AttentionState:
    """Return attention to these keys with its log-sum-exp, for `merge_states`, as in ring attention.

    Arguments are those of `attend_by_block`, and so are the errors; also:

    Raises:
        ValueError: if scores depend on other keys than their own, as those of `Cope` and `ForgettingBias` do.
    Source: Liu et al. 2023, Ring Attention (arXiv:2310.01889).

    >>> import numpy as np
    >>> from posenc_core import merge_states
    >>> x = np.eye(4, dtype=np.float32)
    >>> halves = [attention_state(x, x[keys], x[keys]) for keys in (slice(0, 2), slice(2, 4))]
    >>> np.allclose(merge_states(*halves).result, attend(x, x, x))
    True
    """
    return AttentionState(*_result_and_lse(q, k, v, Additions(position, bias, mask), block, for_merge=True))


def merge_states(*states: tuple[Array, Array]) -> AttentionState:
    """Return the state of attention to the keys of all of the states; each key must be in one of them.

    Computed in the dtype of `lse` and rounded to that of the result, both of the first state.

    Args:
        states: of `attention_state` with the same queries; or pairs `(result, lse)` of another kernel, with the natural
            logarithm, and -inf for a query that sees no key.
    Raises:
        TypeError: if a state is not a pair of floating-point arrays.
        ValueError: without a state, or if shapes differ.
    Source: Milakov and Gimelshein 2018, algorithm 3 (arXiv:1805.02867).

    >>> import numpy as np
    >>> one = AttentionState(np.array([[1.0]]), np.array([0.0]))
    >>> merge_states(one, AttentionState(np.array([[4.0]]), np.log([2.0]))).result
    array([[3.]])
    """
    if not states:
        raise ValueError("`states` must hold one state at least, got none.")
    given: tuple[Any, ...] = states
    for state in given:
        if not (isinstance(state, tuple) and len(state) == 2):
            raise TypeError(f"`states` must be pairs of a result and its log-sum-exp, got {shown(state)}.")
        for name, x in zip(AttentionState._fields, state, strict=True):
            check_floating(name, x)
        for x, shape in ((state[1], tuple(states[0][1].shape)), (state[0], (*state[1].shape, states[0][0].shape[-1]))):
            if tuple(x.shape) != shape:
                raise ValueError(f"`states` must have one shape, got {tuple(x.shape)} where {shape} was expected.")
    (result, lse), xp = states[0], namespace_of(states[0][0])
    merged = reduce(merge, [_online(xp.astype(part, lse.dtype), xp.astype(each, lse.dtype)) for part, each in states])
    return AttentionState(xp.astype(weighted_mean(merged), result.dtype), log_sum_exp(merged))


def _online(result: Array, lse: Array) -> OnlineSoftmaxState:
    """Return a state of attention as online softmax has it: one weight, or none where all keys are hidden."""
    max_score, weights = partial_softmax(namespace_of(lse).expand_dims(lse, axis=-1))
    return OnlineSoftmaxState(max_score, weights, result * weights)


def _result_and_lse(q: A, k: A, v: A, additions: Additions, block: int, *, for_merge: bool = False) -> tuple[A, Any]:
    """Return the result of `attend_by_block` and the log-sum-exp of its scores, after all checks."""
    block = check_integer("block", block)
    check_floating("q", q)
    check_rank("q", q, minimum=2, axes="(..., queries, width)")
    check_values(v, k)
    position, bias, mask = additions
    checked = additions._replace(mask=None if callable(mask) else mask)
    check_fit(q, k, checked)
    _check_can_be_cut(q, k, position, for_merge=for_merge)
    q, k = (q, k) if position is None else position.rotate(q, k)
    xp = namespace_of(q)
    wide = q if dtype_name(q) in ("float32", "float64") else xp.astype(q, xp.float32)  # in which `lse` stays
    if 0 in (q.shape[-2], k.shape[-2]):
        return attend(q, k, v), xp.full_like(xp.sum(wide, axis=-1), -math.inf)
    tokens = {"k": grouped(k, q), "v": grouped(v, q)}
    operation: Any = partial(_attend_by_block, additions=additions, block=block)
    both: Any = computed(operation, wide, tokens, bias=bias, mask=checked.mask)
    result, lse = both
    return result if wide is q else xp.astype(result, dtype_of(q)), lse


def _check_can_be_cut(q: Array, k: Array, position: Any, *, for_merge: bool) -> None:
    if not all(is_specialized(x.shape[-2], x) for x in (q, k)):
        raise ValueError(
            f"`q` and `k` must have lengths that are known when code is traced, got shapes {tuple(q.shape)} and "
            f"{tuple(k.shape)}; fix them, or call `attend`."
        )
    if position is not None and position.needs_all_keys and (for_merge or not position.sums_later_keys):
        raise ValueError(f"`position` must look at one key at a time, got {shown(position.encoding)}; call `attend`.")


def _attend_by_block(q: Array, k: Array, v: Array, *, additions: Additions, block: int) -> tuple[Array, Array]:
    xp = namespace_of(q)
    if additions.position is not None:
        additions = additions._replace(position=additions.position.with_weights(q))
    rows: list[tuple[Array, Array]] = []
    for queries in _blocks_of(q, block):
        blocks = _visible_blocks(additions, queries, q, _blocks_of(k, block))
        rows.append(_checkpoint(partial(_attend_queries, blocks=blocks), q[..., queries, :], k, v))
    if len(rows) == 1:
        return rows[0]
    results, lses = zip(*rows, strict=True)
    return xp.concat(results, axis=-2), xp.concat(lses, axis=-1)


def _blocks_of(x: Array, block: int) -> list[slice]:
    """Return the slices that cut the sequence of `x` into blocks."""
    length = x.shape[-2]
    return [slice(first, min(first + block, length)) for first in range(0, length, block)]


def _visible_blocks(
    additions: Additions, queries: slice, q: Array, blocks: list[slice]
) -> list[tuple[slice, Additions]]:
    """Return the blocks of keys that these queries may see, at least one, and what attention adds there."""
    before = [keys for keys in blocks if not _comes_after(additions, queries, keys)]
    masks = [(keys, _mask(additions, queries, keys, q)) for keys in before or blocks[:1]]
    visible = [pair for pair in masks if not isinstance(pair[1], np.ndarray) or pair[1].any()]
    return [(keys, _cut(additions, queries, keys, mask)) for keys, mask in visible or masks[:1]]


def _cut(additions: Additions, queries: slice, keys: slice, mask: Any) -> Additions:
    """Return the same for a block with this mask."""
    position = None if additions.position is None else additions.position.part(queries, keys)
    return Additions(position, _part(additions.bias, queries, keys), mask)


def _comes_after(additions: Additions, queries: slice, keys: slice) -> bool:
    """Return whether the causal mask is known to hide all of these keys from all of these queries."""
    both = _positions_of(additions.position, queries, keys)
    return _is_known(additions.mask, both) and both[0][-1] < both[1][0]


def _mask(additions: Additions, queries: slice, keys: slice, q: Array) -> Array | None:
    """Return the mask of a block; None where the causal mask is known to hide nothing."""
    if not callable(additions.mask):
        return _part(additions.mask, queries, keys)
    both = _positions_of(additions.position, queries, keys)
    if _is_known(additions.mask, both) and both[0][0] >= both[1][-1]:
        return None
    mask: Array = additions.mask(*[as_array_like(positions, like=q) for positions in both])
    check_mask(mask, (*q.shape[:-2], queries.stop - queries.start, keys.stop - keys.start))
    return mask


def _positions_of(position: Any, queries: slice, keys: slice) -> tuple[Any, Any]:
    """Return the positions of some queries and keys that a mask compares."""
    if position is None or position.has_points:
        return range(queries.start, queries.stop), range(keys.start, keys.stop)
    part = position.part(queries, keys)
    return part.query_positions, part.key_positions


def _is_known(mask: Any, positions: tuple[Any, Any]) -> bool:
    """Return whether the ends of the positions tell which keys the mask hides: of ranges, under the causal mask."""
    return mask is causal and all(isinstance(each, range) for each in positions)


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


def _attend_queries(q: Array, k: Array, v: Array, *, blocks: list[tuple[slice, Additions]]) -> tuple[Array, Array]:
    """Return the result of some queries, and its log-sum-exp."""
    state = reduce(merge, _states(q, k, v, blocks))
    return weighted_mean(state), log_sum_exp(state)


def _states(q: Array, k: Array, v: Array, blocks: list[tuple[slice, Additions]]) -> Iterator[OnlineSoftmaxState]:
    """Yield the state of each block; from the last one on where scores depend on a sum over later keys."""
    summed: list[Array] = []  # over the keys of all blocks so far, if scores depend on this sum
    position = blocks[0][1].position
    for keys, additions in reversed(blocks) if position is not None and position.sums_later_keys else blocks:
        operation = partial(_attend_block, additions=additions)
        max_score, sum_of_weights, values, *summed = _checkpoint(
            operation, q, k[..., keys, :], v[..., keys, :], *summed
        )
        yield OnlineSoftmaxState(max_score, sum_of_weights, values)


def _attend_block(q: Array, k: Array, v: Array, *summed: Array, additions: Additions) -> tuple[Array, ...]:
    """Return the fields of the `OnlineSoftmaxState` of one block.

    Where scores depend on a sum over later keys, `summed` is that over all later blocks, and the sum over these and the
    block follows the state.
    """
    xp, position = namespace_of(q), additions.position
    scores = scored(q, k, scale_of(q, position), additions)
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
