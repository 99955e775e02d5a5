"""Positions: where tokens stand. Integers or reals; the first stage of every encoding."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from .._array_api.checks import check_integer, check_known, check_rank, is_static
from .._array_api.namespace import Array, dtype_name, namespace_of

Order: TypeAlias = Literal["contiguous", "zigzag"]
LIMIT = 2**31


def sequence(length: int, *, start: int = 0) -> npt.NDArray[np.int64]:
    """The positions `start … start + length - 1`, shape `(length,)`.

    Raises:
        ValueError: if `length` is negative, or a position not below 2**31 in size.

    >>> sequence(3, start=5)
    array([5, 6, 7])
    """
    check_integer("length", length, minimum=0)
    if not -LIMIT < start <= LIMIT - length:
        raise ValueError(f"`start` must keep positions below 2**31 in size, got {start} for {length} positions.")
    return np.arange(start, start + length, dtype=np.int64)


def from_array(positions: Any) -> npt.NDArray[Any]:
    """Positions given as numbers, as a NumPy array of int64 or float64, shape `(..., length)`.

    Raises:
        TypeError: if they are not real numbers.
        ValueError: if one is not finite, or not below 2**31 in size.

    >>> from_array([0, 7, -3])
    array([ 0,  7, -3])
    """
    given = np.asarray(positions)
    if given.dtype.kind not in "iuf":
        kind = type(positions) if given.dtype.kind == "O" else given.dtype  # what NumPy cannot read is named
        raise TypeError(f"`positions` must be integers or real numbers, got {kind}.")
    if given.ndim == 0:
        raise ValueError(f"`positions` must have shape (..., length), got the single number {given}.")
    given = given.astype(np.float64, copy=False) if given.dtype.kind == "f" else given
    outside = given[~((given > -LIMIT) & (given < LIMIT))]
    if outside.size:
        raise ValueError(f"`positions` must be finite and below 2**31 in size, got {outside[0]}.")
    return given.astype(np.float64 if given.dtype.kind == "f" and given.size else np.int64, copy=False)


def from_mask(mask: Any) -> Array:
    """The positions of padded rows: each counts from 0 at its first token that counts, wherever the padding is.

    Padded tokens have position 0, which every table holds; they do not move the tokens after them. To decode with a
    cache, take the last columns of the longer mask's positions.

    Args:
        mask: 1 or True where a token counts, 0 or False where it is padding, shape `(length,)` or `(batch, length)`:
            `attention_mask` elsewhere. A list, or an array of any library, traced or not.
    Returns:
        Integers in the library of `mask`, and of its shape; a NumPy array for a list.
    Raises:
        TypeError: if `mask` holds neither booleans nor integers, as one that is added to scores does.
        ValueError: if it has more than two axes.
    Source: `attention_mask.cumsum(-1) - 1`, as generation in transformers counts; padding has position 1 there.

    >>> from_mask([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]])
    array([[0, 0, 0, 1, 2],
           [0, 1, 2, 3, 4]])
    >>> from_mask([[0, 0, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1]])[:, -1:]
    array([[3],
           [5]])
    """
    mask = _array(mask)
    if hasattr(mask, "shape"):  # a symbol tells neither that nor its dtype
        check_rank("mask", mask, minimum=1, maximum=2, axes="(length,) or (batch, length)")
        _check_integers("mask", mask, or_booleans=True)
    xp = namespace_of(mask)
    counts = xp.abs(xp.astype(mask, xp.int32)) > 0
    positions = xp.cumulative_sum(xp.astype(counts, xp.int32), axis=-1) - 1
    return xp.where(counts, positions, xp.zeros_like(positions))


def from_cu_seqlens(cu_seqlens: Any, *, length: int | None = None) -> npt.NDArray[np.int64]:
    """The positions of a packed batch: sequences one after the other, each counted from 0.

    Args:
        cu_seqlens: where sequences begin and the last one ends, `[0, n1, n1 + n2, …]`, shape `(sequences + 1,)`;
            a list, or an array that NumPy can read. A sequence may be empty. Where each is padded, the padded bounds.
        length: of the buffer that the batch lies in, in tokens; tokens after the last sequence have position 0.
            The default is the end of the last sequence.
    Returns:
        NumPy array, shape `(length,)`.
    Raises:
        TypeError: if `cu_seqlens` are not integers.
        ValueError: if they do not start at 0, decrease, or exceed `length`.
    Source: `cu_seqlens` of FlashAttention's `flash_attn_varlen_func` (Dao et al. 2022, arXiv:2205.14135).

    >>> from_cu_seqlens([0, 3, 5], length=6)
    array([0, 1, 2, 0, 1, 0])
    """
    bounds = _bounds(cu_seqlens)
    total = int(bounds[-1])
    if length is not None:
        check_integer("length", length, minimum=0)
        if length < total:
            raise ValueError(f"`length` must hold the {total} packed tokens, got {length}.")
    positions = np.zeros(total if length is None else length, np.int64)
    positions[:total] = np.arange(total) - np.repeat(bounds[:-1], np.diff(bounds))
    return positions


def sequence_ids(cu_seqlens: Any, *, length: int | None = None) -> npt.NDArray[np.int64]:
    """Which sequence of a packed batch each token is of, counted from 0; -1 after the last one: for `same_sequence`.

    Arguments and errors are those of `from_cu_seqlens`.

    >>> sequence_ids([0, 3, 5], length=6)
    array([ 0,  0,  0,  1,  1, -1])
    """
    bounds = _bounds(cu_seqlens)
    positions = from_cu_seqlens(cu_seqlens, length=length)
    ids = np.full(positions.shape, -1)
    ids[: bounds[-1]] = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    return ids


def counted_from(start: Any, length: Any) -> Array:
    """`length` positions for each row, the first of them in `start`: `(batch,) -> (batch, length)`.

    Args:
        start: the first position of each row, for example how many tokens its cache holds; a list, or an array of any
            library, traced or not.
        length: how many positions, an integer or a scalar of the library.
    Returns:
        Integers, at least 32 bits wide, in the library of `start`; a NumPy array for a list.
    Raises:
        TypeError: if `start` is not made of integers.

    >>> counted_from([0, 5], 3)
    array([[0, 1, 2],
           [5, 6, 7]])
    """
    start = _array(start)
    _check_integers("start", start)
    xp = namespace_of(start)
    first = start if dtype_name(start) == "int64" else xp.astype(start, xp.int32)
    steps = xp.astype(arange_like(length, like=first), first.dtype)
    return xp.expand_dims(first, axis=-1) + xp.expand_dims(steps, axis=0)


def arange_like(length: Any, *, like: Array) -> Array:
    """The positions `0 … length - 1` in the library and on the device of `like`, shape `(length,)`."""
    return namespace_of(like).arange(length, device=getattr(like, "device", None))


def shard(positions: Any, rank: int, world_size: int, *, order: Order = "contiguous") -> Array:
    """The part of the positions that one rank of a context-parallel group computes; all parts make up the whole.

    Rows of a packed batch are cut sequence by sequence: concatenate the parts of each.

    Args:
        positions: of all tokens, shape `(..., length)`, or anything else with the tokens on its last axis: token
            numbers, labels, masks of keys. A list, or an array of any library, traced or not.
        rank: which part, `0 … world_size - 1`.
        world_size: how many ranks share the sequence.
        order: `"contiguous"` gives rank r the r-th of `world_size` equal chunks; `"zigzag"` the r-th and the r-th from
            the end of `2 * world_size`, so that under a causal mask all ranks have the same work.
    Returns:
        Array of the library of `positions`, shape `(..., length / world_size)`.
    Raises:
        ValueError: if `length` cannot be cut into equal chunks, or there is no such rank.
    Source: Llama 3, section 3.3.2 (arXiv:2407.21783); `get_batch_on_this_cp_rank` of Megatron-LM.

    >>> [shard(np.arange(8), rank, 2, order="zigzag").tolist() for rank in range(2)]
    [[0, 1, 6, 7], [2, 3, 4, 5]]
    """
    check_integer("world_size", world_size)
    check_integer("rank", rank, minimum=0)
    check_known("order", order, ("contiguous", "zigzag"))
    if rank >= world_size:
        raise ValueError(f"`rank` must be below the `world_size` {world_size}, got {rank}.")
    array = _array(positions)
    check_rank("positions", array, minimum=1, axes="(..., length)")
    chunks = [rank] if order == "contiguous" else [rank, 2 * world_size - 1 - rank]
    size = _chunk_size(array.shape[-1], len(chunks) * world_size)
    parts = [array[..., chunk * size : (chunk + 1) * size] for chunk in chunks]
    return parts[0] if len(parts) == 1 else namespace_of(array).concat(parts, axis=-1)


def _array(given: Any) -> Any:
    return np.asarray(given) if isinstance(given, (list, tuple, range)) else given


def _check_integers(name: str, array: Array, *, or_booleans: bool = False) -> None:
    kind = dtype_name(array)
    if not kind.startswith(("int", "uint", "bool") if or_booleans else ("int", "uint")):
        wanted = "booleans or integers" if or_booleans else "integers"
        raise TypeError(f"`{name}` must be {wanted}, got {kind}; cast it first.")


def _bounds(cu_seqlens: Any) -> npt.NDArray[np.int64]:
    given = np.asarray(cu_seqlens)
    if given.dtype.kind not in "iu":
        raise TypeError(f"`cu_seqlens` must be a list or a NumPy array of integers, got {given.dtype}.")
    if given.ndim != 1 or not given.size:
        raise ValueError(f"`cu_seqlens` must have shape (sequences + 1,), got {given.shape}.")
    if given[0] != 0:
        raise ValueError(f"`cu_seqlens` must start with 0, where the first sequence begins, got {given[0]}.")
    falls = np.flatnonzero(given[1:] < given[:-1])
    if falls.size:
        before, after = given[falls[0]], given[falls[0] + 1]
        raise ValueError(f"`cu_seqlens` must not decrease, got {after} after {before}; it holds sums of lengths.")
    return given.astype(np.int64)


def _chunk_size(length: Any, chunks: int) -> int:
    if not is_static(length):
        raise ValueError(f"`positions` must have a known length to be cut, got {length}.")
    if length % chunks:
        padded = -(-length // chunks) * chunks
        raise ValueError(
            f"`positions` must be cut into {chunks} equal chunks, got length {length}; pad the sequence to {padded}."
        )
    return length // chunks
