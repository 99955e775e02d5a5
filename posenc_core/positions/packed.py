"""Positions of tokens in packed batches, where sequences lie one after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._array_api.checks import (
    as_integer,
    check_integer,
    check_numbers,
    check_rank,
    check_sized,
    host_array,
    shown,
)
from .._array_api.comparison import differs
from .._array_api.namespace import Array, dtype_name, namespace_of
from .sequences import LIMIT, arange_like, as_array, as_array_like


def from_cu_seqlens(cu_seqlens: Any, *, length: int | None = None, start: Any = 0) -> Any:
    """Return the positions of a packed batch: sequences one after the other, each counted from 0 or its start.

    An array of a framework stays on its device and may be traced. Its numbers are not checked; without `length`, its
    last one is read.

    Args:
        cu_seqlens: cumulative sequence lengths, `[0, n1, n1 + n2, …]`, shape `(sequences + 1,)`; a list, or an array of
            any library. A sequence may be empty. If sequences are padded, pass the padded lengths.
        length: the length of the buffer in tokens; tokens after the last sequence have position 0. The default is the
            end of the last sequence.
        start: the first position of each sequence, an integer, or one for each, `(sequences,)`, such as the number of
            its tokens in a cache.
    Returns:
        Integers, shape `(length,)`, of the library and on the device of `cu_seqlens`; int64 in NumPy, also for a list.
    Raises:
        TypeError: if `cu_seqlens`, `length` or `start` is not made of integers.
        ValueError: if a list or NumPy array does not start at 0, decreases, or exceeds `length`, if `start` does not
            fit the sequences, or `length` is neither given nor known.
    Source: `cu_seqlens` of FlashAttention's `flash_attn_varlen_func` (Dao et al. 2022, arXiv:2205.14135).

    >>> from_cu_seqlens([0, 3, 5], length=6)
    array([0, 1, 2, 0, 1, 0])
    >>> from_cu_seqlens([0, 3, 5], start=[7, 0])
    array([7, 8, 9, 0, 1])
    """
    bounds, tokens, index = _sequences(cu_seqlens, length)
    xp, count = namespace_of(bounds), bounds.shape[0] - 1
    first: Any = as_integer(start)
    if first is None:
        first = as_array_like(as_array("start", start), like=bounds)
        check_numbers("start", first, kinds=("int", "uint"))
        if tuple(first.shape) != (count,):
            raise ValueError(f"`start` must be an integer, or one for each of {count} sequences, got {shown(start)}.")
        last = xp.full_like(index, max(count - 1, 0))
        first = xp.take(xp.astype(first, bounds.dtype), xp.minimum(index, last), axis=0) if count else 0
    else:
        first = check_integer("start", start, minimum=1 - LIMIT, maximum=LIMIT - 1)
    positions = tokens - xp.take(bounds, index, axis=0) + first
    if isinstance(positions, np.ndarray) and positions.max(initial=0) >= LIMIT:
        raise ValueError(f"`start` must keep positions below 2**31, got {shown(start)}.")
    return xp.where(index < xp.full_like(index, count), positions, xp.zeros_like(positions))


def sequence_ids(cu_seqlens: Any, *, length: int | None = None) -> Any:
    """Return the index of the sequence that each token of a packed batch belongs to; pass it to `same_sequence`.

    Arguments and errors are those of `from_cu_seqlens`.

    Returns:
        Integers as there, shape `(length,)`; -1 for tokens after the last sequence.

    >>> sequence_ids([0, 3, 5], length=6)
    array([ 0,  0,  0,  1,  1, -1])
    """
    bounds, _, index = _sequences(cu_seqlens, length)
    xp = namespace_of(bounds)
    return xp.where(index < xp.full_like(index, bounds.shape[0] - 1), index, xp.full_like(index, -1))


def sequence_ids_from_positions(positions: Any) -> Any:
    """Return the index of the sequence of each token, of one packed row or of each of several; for `same_sequence`.

    Args:
        positions: integers, `(length,)` or `(batch, length)`, `position_ids` in transformers; a list, or an array of
            any library, traced or not. A sequence begins with each row, and wherever a position does not follow the
            one before.
    Returns:
        Integers of the library, shape and device of `positions`, each row counted from 0; int64 in NumPy.
    Raises:
        TypeError: if they are not integers, or of uint32 or uint64 in a library other than NumPy.
        ValueError: if they have no axes or more than two.
    Source: `find_packed_sequence_indices` of transformers.

    >>> sequence_ids_from_positions([[0, 1, 2, 0, 1], [0, 1, 0, 1, 2]])
    array([[0, 0, 0, 1, 1],
           [0, 0, 1, 1, 1]])
    """
    at = _integers("positions", positions)
    check_rank("positions", at, minimum=1, maximum=2, axes="(length,) or (batch, length)")
    xp = namespace_of(at)
    begun = xp.cumulative_sum(xp.astype(differs(at[..., 1:] - at[..., :-1], 1), at.dtype), axis=-1)
    return xp.concat([xp.zeros_like(at[..., :1]), xp.astype(begun, at.dtype)], axis=-1)


def to_cu_seqlens(positions: Any, *, sequences: int | None = None) -> Any:
    """Return the cumulative lengths of the sequences in packed rows, all rows one after the other.

    Kernels for packed batches, such as `flash_attn_varlen_func`, take them with the tokens of all rows in one axis.

    Args:
        positions: as in `sequence_ids_from_positions`, at least one.
        sequences: how many sequences there are at most; those that there are not are empty. The default is their
            number, which is read from the device; traced code must give it.
    Returns:
        Integers of the library and on the device of `positions`, int64 in NumPy, shape `(sequences + 1,)`.
    Raises:
        TypeError: if `positions` or `sequences` is not made of integers.
        ValueError: if there are no positions, they have more than two axes, or `sequences` is neither given nor known,
            or in NumPy less than their number.

    >>> to_cu_seqlens([[0, 1, 2, 0, 1], [0, 1, 2, 3, 4]])
    array([ 0,  3,  5, 10])
    """
    ids = sequence_ids_from_positions(positions)
    xp = namespace_of(ids)
    check_sized("positions", ids)
    if 0 in ids.shape:
        raise ValueError(f"`positions` must be those of at least one token, got shape {tuple(ids.shape)}.")
    if len(ids.shape) > 1:  # those of all rows, one after the other
        counts = ids[:, -1] + 1
        before = xp.astype(xp.cumulative_sum(counts, axis=0), ids.dtype) - counts
        ids = xp.reshape(ids + xp.expand_dims(before, axis=-1), (-1,))
    count = 0 if sequences is None else check_integer("sequences", sequences, maximum=LIMIT)
    if sequences is None or isinstance(ids, np.ndarray):
        known = _read("sequences", ids[-1]) + 1
        if sequences is not None and count < known:
            raise ValueError(f"`sequences` must be at least the {known} that there are, got {sequences}.")
        count = count or known
    numbers = xp.astype(arange_like(count, like=ids), ids.dtype)
    return xp.concat([xp.zeros_like(ids[:1]), _last_below(ids, numbers) + 1], axis=0)


def _sequences(cu_seqlens: Any, length: int | None) -> tuple[Any, Any, Any]:
    """Return the bounds of the sequences, the numbers of the tokens, and the last bound before or at each token."""
    bounds = _bounds(cu_seqlens) if _is_read(cu_seqlens) else _integers("cu_seqlens", cu_seqlens)
    check_rank("cu_seqlens", bounds, minimum=1, maximum=1, axes="(sequences + 1,)")
    if bounds.shape[0] == 0:
        raise ValueError("`cu_seqlens` must have shape (sequences + 1,), got (0,).")
    if length is None:
        length = _read("length", bounds[-1])
    else:
        length = check_integer("length", length, minimum=0, maximum=LIMIT)
        if isinstance(bounds, np.ndarray) and length < bounds[-1]:
            raise ValueError(f"`length` must hold the {bounds[-1]} packed tokens, got {length}.")
    tokens = namespace_of(bounds).astype(arange_like(length, like=bounds), bounds.dtype)
    return bounds, tokens, _last_below(bounds, tokens)


def _is_read(given: Any) -> bool:
    """Return whether NumPy reads what is given: lists and its own arrays, those in blocks, and of unknown libraries."""
    if isinstance(given, np.ndarray) or not hasattr(given, "shape"):
        return True
    try:
        return hasattr(namespace_of(given), "apply_gufunc")
    except TypeError:
        return True


def _read(name: str, number: Any) -> int:
    """Return a number of an array, which the argument of this name would tell."""
    try:
        return int(number)
    except Exception as error:  # of a framework that we do not know
        raise ValueError(f"`{name}` must be given where code is traced, or an array has no numbers.") from error


def _integers(name: str, given: Any) -> Any:
    """Return int64, or int32 of a library whose array has no more bits."""
    array = as_array(name, given)
    check_numbers(name, array, kinds=("int", "uint"))
    xp = namespace_of(array)
    if isinstance(array, np.ndarray):
        return array.astype(np.int64)
    if dtype_name(array) in ("uint32", "uint64"):
        raise TypeError(f"`{name}` must be int32 or int64, got {dtype_name(array)}; cast it first.")
    return array if dtype_name(array) == "int64" else xp.astype(array, xp.int32)


def _last_below(bounds: Array, numbers: Array) -> Any:
    """Return the index of the last of the sorted bounds that is not above each number, by bisection; else 0."""
    xp, last = namespace_of(bounds), bounds.shape[0] - 1
    index = xp.zeros_like(numbers)
    for step in reversed([1 << bit for bit in range(31) if 1 << bit <= last]):
        further = xp.minimum(index + step, xp.full_like(index, last))
        index = xp.where(xp.take(bounds, further, axis=0) <= numbers, further, index)
    return index


def _bounds(cu_seqlens: Any) -> npt.NDArray[np.int64]:
    """Return the bounds of the sequences as int64, or raise what `from_cu_seqlens` promises."""
    bounds = host_array("cu_seqlens", cu_seqlens)
    if bounds.dtype.kind not in "iu":
        raise TypeError(f"`cu_seqlens` must be a list or a NumPy array of integers, got {bounds.dtype}.")
    if bounds.ndim != 1 or not bounds.size:
        raise ValueError(f"`cu_seqlens` must have shape (sequences + 1,), got {bounds.shape}.")
    if bounds[0] != 0:
        raise ValueError(f"`cu_seqlens` must start with 0, the start of the first sequence, got {bounds[0]}.")
    decreases = np.flatnonzero(bounds[1:] < bounds[:-1])
    if int(bounds[-1]) >= LIMIT:
        raise ValueError(f"`cu_seqlens` must end below 2**31, got {bounds[-1]}.")
    if decreases.size:
        before, after = bounds[decreases[0]], bounds[decreases[0] + 1]
        raise ValueError(f"`cu_seqlens` must not decrease, got {after} after {before}; pass cumulative lengths.")
    return bounds.astype(np.int64)
