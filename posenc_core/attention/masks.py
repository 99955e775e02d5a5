"""Masks: which keys a query may see. True is visible; every mask broadcasts against `(batch, heads, queries, keys)`."""

from __future__ import annotations

from .._array_api.namespace import Array, namespace_of, paired


def causal(query_positions: Array, key_positions: Array) -> Array:
    """Hide the keys after each query: `(queries,) x (keys,) -> (queries, keys)`, or `(batch, 1, queries, keys)`.

    >>> import numpy as np
    >>> causal(np.arange(2), np.arange(3))
    array([[ True, False, False],
           [ True,  True, False]])
    """
    queries, keys = paired(query_positions, key_positions)
    visible = queries >= keys
    batched = len(query_positions.shape) + len(key_positions.shape) > 2
    return namespace_of(visible).expand_dims(visible, axis=1) if batched else visible


def valid_lengths(valid_lens: Array, key_positions: Array) -> Array:
    """Show the first keys of each row, or of each query of each row.

    Args:
        valid_lens: numbers of keys, shape `(batch,)` or `(batch, queries)`.
        key_positions: `0 … keys - 1`, shape `(keys,)`.
    Returns:
        Array of bools, shape `(batch, 1, 1 or queries, keys)`.

    >>> import numpy as np
    >>> valid_lengths(np.array([1, 2]), np.arange(3))[:, 0, 0]
    array([[ True, False, False],
           [ True,  True, False]])
    """
    if len(valid_lens.shape) == 1:
        valid_lens = namespace_of(valid_lens).expand_dims(valid_lens, axis=-1)
    return valid_per_query(valid_lens, key_positions)


def valid_per_query(valid_lens: Array, key_positions: Array) -> Array:
    """Return `valid_lengths` for `(batch, 1 or queries)` alone, without asking for a shape."""
    lengths, keys = paired(valid_lens, key_positions)
    return namespace_of(lengths).expand_dims(lengths > keys, axis=1)


def padding(tokens: Array, pad: int) -> Array:
    """Show the keys that are not padding: `(batch, keys) -> (batch, 1, 1, keys)`.

    >>> import numpy as np
    >>> padding(np.array([[5, 7, 0]]), 0)[:, 0, 0]
    array([[ True,  True, False]])
    """
    xp = namespace_of(tokens)
    visible = xp.abs(xp.astype(tokens, xp.int32) - pad) > 0
    return xp.expand_dims(xp.expand_dims(visible, axis=1), axis=1)


def same_sequence(query_ids: Array, key_ids: Array) -> Array:
    """Show the keys of a query's own sequence, where several are packed into a row; negative ids belong to none.

    Args:
        query_ids: the sequence of each token, as `sequence_ids` numbers them, shape `(queries,)` or `(batch, queries)`.
        key_ids: likewise, shape `(keys,)` or `(batch, keys)`.
    Returns:
        Array of bools, shape `(queries, keys)`, or with a batch `(batch, 1, queries, keys)`.

    >>> import numpy as np
    >>> ids = np.array([0, 0, 1, -1])
    >>> same_sequence(ids, ids).astype(int)
    array([[1, 1, 0, 0],
           [1, 1, 0, 0],
           [0, 0, 1, 0],
           [0, 0, 0, 0]])
    """
    queries, keys = paired(query_ids, key_ids)
    same = all_of(queries >= keys, keys >= queries, queries >= namespace_of(queries).zeros_like(queries))
    batched = len(query_ids.shape) + len(key_ids.shape) > 2
    return namespace_of(same).expand_dims(same, axis=1) if batched else same


def all_of(first: Array, *others: Array) -> Array:
    """Show the keys that all masks show, which broadcast against each other: `&`, which MXNet does not have for bools.

    >>> import numpy as np
    >>> all_of(np.array([[True], [False]]), np.array([True, False]))
    array([[ True, False],
           [False, False]])
    """
    xp = namespace_of(first)
    for other in others:
        first = xp.where(first, other, xp.zeros_like(other))
    return first
