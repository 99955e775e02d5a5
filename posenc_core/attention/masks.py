"""Masks of attention, True where a key is visible; every mask broadcasts against `(batch, heads, queries, keys)`."""

from __future__ import annotations

import operator
from typing import Any

from .._array_api.checks import check_integer, check_numbers, check_rank, check_rows, named
from .._array_api.comparison import Relation, compared, differs
from .._array_api.namespace import Array, distance, namespace_of, paired
from ..positions.sequences import LIMIT


def causal(query_positions: Array, key_positions: Array) -> Any:
    """Hide the keys after each query: `(queries,) x (keys,) -> (queries, keys)`, or `(batch, 1, queries, keys)`.

    Positions are integers or real numbers of any dtypes, which are compared exactly.

    Raises:
        TypeError: if positions are not arrays of numbers.

    >>> import numpy as np
    >>> causal(np.arange(2), np.arange(3))
    array([[ True, False, False],
           [ True,  True, False]])
    """
    both = {"query_positions": query_positions, "key_positions": key_positions}
    _check_both(both)
    return named(lambda: causal_checked(query_positions, key_positions), both)


def causal_checked(query_positions: Array, key_positions: Array) -> Any:
    """Return `causal` of checked positions."""
    visible = _compared(operator.ge, query_positions, key_positions)
    batched = len(query_positions.shape) + len(key_positions.shape) > 2
    return namespace_of(visible).expand_dims(visible, axis=1) if batched else visible


def sliding_window(query_positions: Array, key_positions: Array, window: int) -> Any:
    """Hide the keys that are `window` or more positions away from each query, before it and after it.

    With `causal` a query sees the last `window` tokens, itself included, as with `sliding_window` in configs.

    Args:
        query_positions: integers or real numbers, `(queries,)` or `(batch, queries)`.
        key_positions: likewise, `(keys,)` or `(batch, keys)`.
        window: the number of tokens that a query sees on each side, itself included.
    Returns:
        Array of bools, `(queries, keys)`, or with a batch `(batch, 1, queries, keys)`.
    Raises:
        TypeError: if positions are not arrays of numbers, or `window` is not an integer.
        ValueError: if `window` is not positive.
    Source: Beltagy et al. 2020, section 3.1 (arXiv:2004.05150); Jiang et al. 2023, section 2 (arXiv:2310.06825).

    >>> import numpy as np
    >>> sliding_window(np.arange(3), np.arange(3), 2).astype(int)
    array([[1, 1, 0],
           [1, 1, 1],
           [0, 1, 1]])
    """
    window = check_integer("window", window)
    both = {"query_positions": query_positions, "key_positions": key_positions}
    _check_both(both)
    return named(lambda: sliding_window_checked(query_positions, key_positions, window), both)


def sliding_window_checked(query_positions: Array, key_positions: Array, window: int) -> Any:
    """Return `sliding_window` of checked arguments."""
    far = distance(*paired(query_positions, key_positions))
    xp, batched = namespace_of(far), len(query_positions.shape) + len(key_positions.shape) > 2
    visible = far < xp.full_like(far, min(window, LIMIT - 1))
    return xp.expand_dims(visible, axis=1) if batched else visible


def valid_lengths(valid_lens: Array, key_positions: Array) -> Any:
    """Show the first keys of each row, or of each query of each row.

    Args:
        valid_lens: numbers of keys, shape `(batch,)` or `(batch, queries)`.
        key_positions: `0 … keys - 1`, shape `(keys,)`.
    Returns:
        Array of bools, shape `(batch, 1, 1 or queries, keys)`.
    Raises:
        TypeError: if one of them is not an array of numbers.

    >>> import numpy as np
    >>> valid_lengths(np.array([1, 2]), np.arange(3))[:, 0, 0]
    array([[ True, False, False],
           [ True,  True, False]])
    """
    check_numbers("valid_lens", valid_lens)
    both = {"valid_lens": _by_query(valid_lens), "key_positions": key_positions}
    _check_both(both)
    return named(lambda: valid_lengths_checked(valid_lens, key_positions), both)


def valid_lengths_checked(valid_lens: Array, key_positions: Array) -> Any:
    """Return `valid_lengths` of checked arrays."""
    visible = _compared(operator.gt, _by_query(valid_lens), key_positions)
    return namespace_of(visible).expand_dims(visible, axis=1)


def _by_query(valid_lens: Array) -> Array:
    """Return `(batch, 1 or queries)` numbers of keys."""
    return valid_lens if len(valid_lens.shape) > 1 else namespace_of(valid_lens).expand_dims(valid_lens, axis=-1)


def padding(tokens: Array, pad: int) -> Any:
    """Show the keys that are not padding: `(batch, keys) -> (batch, 1, 1, keys)`.

    Args:
        tokens: integers of any dtype.
        pad: the padding token; a value outside the range of the dtype occurs in no row.
    Raises:
        TypeError: if `tokens` or `pad` are not integers; real numbers are not rounded.

    >>> import numpy as np
    >>> padding(np.array([[5, 7, 0]]), 0)[:, 0, 0]
    array([[ True,  True, False]])
    """
    check_numbers("tokens", tokens, kinds=("int", "uint"))
    check_rank("tokens", tokens, minimum=1, axes="(batch, keys)")
    pad = check_integer("pad", pad, minimum=-(2**63))
    visible = named(lambda: differs(tokens, pad), {"tokens": tokens})
    xp = namespace_of(visible)
    return xp.expand_dims(xp.expand_dims(visible, axis=1), axis=1)


def same_sequence(query_ids: Array, key_ids: Array) -> Any:
    """Show only keys of the same sequence in packed rows; negative ids belong to no sequence.

    Args:
        query_ids: the sequence of each token, as `sequence_ids` numbers them, shape `(queries,)` or `(batch, queries)`.
        key_ids: likewise, shape `(keys,)` or `(batch, keys)`.
    Returns:
        Array of bools, shape `(queries, keys)`, or with a batch `(batch, 1, queries, keys)`.
    Raises:
        TypeError: if ids are not arrays of numbers.

    >>> import numpy as np
    >>> ids = np.array([0, 0, 1, -1])
    >>> same_sequence(ids, ids).astype(int)
    array([[1, 1, 0, 0],
           [1, 1, 0, 0],
           [0, 0, 1, 0],
           [0, 0, 0, 0]])
    """
    both = {"query_ids": query_ids, "key_ids": key_ids}
    _check_both(both)
    return named(lambda: _same_sequence(query_ids, key_ids), both)


def _same_sequence(query_ids: Array, key_ids: Array) -> Any:
    same = all_of(_compared(operator.ge, query_ids, key_ids), _compared(operator.le, query_ids, key_ids))
    xp = namespace_of(query_ids)
    same = all_of(same, xp.expand_dims(query_ids >= xp.zeros_like(query_ids), axis=-1))
    return xp.expand_dims(same, axis=1) if len(query_ids.shape) + len(key_ids.shape) > 2 else same


def _check_both(arrays: dict[str, Array]) -> None:
    """Raise unless two arrays of numbers, by their names, have axes `(..., length)` that fit each other."""
    for name, x in arrays.items():
        check_numbers(name, x)
        check_rank(name, x, minimum=1, axes="(..., length)")
    (first, x), (second, y) = arrays.items()
    check_rows(second, y, first, x)


def _compared(relation: Relation, first: Array, second: Array) -> Array:
    """Compare each number of the first array with each of the second on their last axes."""
    xp = namespace_of(first)
    return compared(relation, xp.expand_dims(first, axis=-1), xp.expand_dims(second, axis=-2))


def all_of(first: Array, *others: Array) -> Array:
    """Combine masks that broadcast against each other, as `&`, which MXNet lacks for bools.

    >>> import numpy as np
    >>> all_of(np.array([[True], [False]]), np.array([True, False]))
    array([[ True, False],
           [False, False]])
    """
    xp = namespace_of(first)
    for other in others:
        first = xp.where(first, other, xp.zeros_like(other))
    return first
