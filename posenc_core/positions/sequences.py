"""Positions of tokens in sequences, padded and packed batches, and shards: integers or real numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Number
from typing import Any, Literal, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from .._array_api.checks import (
    as_integer,
    check_integer,
    check_known,
    check_numbers,
    check_rank,
    host_array,
    is_specialized,
    is_static,
    named,
    shown,
)
from .._array_api.comparison import differs
from .._array_api.namespace import A, Array, beside, dtype_name, namespace_of

Order: TypeAlias = Literal["contiguous", "zigzag"]
LIMIT = 2**31


def sequence(length: int, *, start: int = 0) -> npt.NDArray[np.int64]:
    """Return the positions `start … start + length - 1`, int64, shape `(length,)`.

    Raises:
        TypeError: if `length` or `start` is not an integer.
        ValueError: if `length` is negative, or a position is not below 2**31 in size.

    >>> sequence(3, start=5)
    array([5, 6, 7])
    """
    length = check_integer("length", length, minimum=0)
    start = check_integer("start", start, minimum=-math.inf, maximum=math.inf)
    if not -LIMIT < start <= LIMIT - length:
        raise ValueError(f"`start` must keep positions below 2**31 in size, got {shown(start)} for {length} positions.")
    return np.arange(start, start + length, dtype=np.int64)


def from_array(positions: Any) -> npt.NDArray[Any]:
    """Convert positions to a NumPy array of int64 or float64, shape `(..., length)`.

    Args:
        positions: integers or real numbers, a list or an array that NumPy can read.
    Raises:
        TypeError: if they are not real numbers.
        ValueError: if they are a single number, or one is not finite or not below 2**31 in size.

    >>> from_array([0, 7, -3])
    array([ 0,  7, -3])
    """
    array = positions if type(positions) is np.ndarray else host_array("positions", positions)
    if array.dtype.kind not in "iuf":
        found = type(positions) if array.dtype.kind == "O" else array.dtype
        raise TypeError(f"`positions` must be integers or real numbers, got {found}.")
    if array.ndim == 0:
        raise ValueError(f"`positions` must have shape (..., length), got the single number {array}.")
    array = array.astype(np.float64, copy=False) if array.dtype.kind == "f" else array
    outside = array[~((array > -LIMIT) & (array < LIMIT))]
    if outside.size:
        raise ValueError(f"`positions` must be finite and below 2**31 in size, got {outside[0]}.")
    return array.astype(np.float64 if array.dtype.kind == "f" and array.size else np.int64, copy=False)


def from_mask(mask: Any) -> Any:
    """Return the positions of padded rows: each row counts its real tokens from 0, wherever the padding is.

    Padding has position 0, which every table has, and does not shift the tokens after it. To decode with a KV cache,
    take the last columns of the positions of the extended mask.

    Args:
        mask: 1 or True for a real token, 0 or False for padding, shape `(length,)` or `(batch, length)`; it is
            `attention_mask` in transformers. A list, or an array of any library, traced or not.
    Returns:
        Integers of the library and shape of `mask`; a NumPy array for a list.
    Raises:
        TypeError: if `mask` is neither boolean nor integer; an additive mask for scores is rejected.
        ValueError: if it has no axes or more than two.
    Source: `attention_mask.cumsum(-1) - 1` in the generation of transformers, where padding has position 1.

    >>> from_mask([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]])
    array([[0, 0, 0, 1, 2],
           [0, 1, 2, 3, 4]])
    >>> from_mask([[0, 0, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1]])[:, -1:]
    array([[3],
           [5]])
    """
    mask = as_array("mask", mask)
    check_numbers("mask", mask, kinds=("bool", "int", "uint"))
    check_rank("mask", mask, minimum=1, maximum=2, axes="(length,) or (batch, length)")
    xp = namespace_of(mask)
    is_bool = dtype_name(mask) == "bool"
    is_real = xp.astype(mask, xp.int32) > 0 if is_bool else named(lambda: differs(mask, 0), {"mask": mask})
    positions = xp.cumulative_sum(xp.astype(is_real, xp.int32), axis=-1) - 1
    return xp.where(is_real, positions, xp.zeros_like(positions))


def counted_from(start: Any, length: Any) -> Any:
    """Return `length` consecutive positions for each row: `(batch,) -> (batch, length)`.

    Args:
        start: the first position of each row, for example the number of tokens in its KV cache; a list, or an array of
            any library, traced or not.
        length: the number of positions, an integer or a scalar of the library. A traced scalar is not checked, and
            needs a library that compiles arrays of unknown length, as TensorFlow does.
    Returns:
        int64 in the library of `start`, a NumPy array for a list; int32 where the library counts in it, as JAX and
        TensorFlow do, which start at most at `2**31 - length`.
    Raises:
        TypeError: if `start` is not made of integers, or of uint32 or uint64 in a library other than NumPy, or `length`
            is not an integer.
        ValueError: if `length` is negative and not traced, or a NumPy array or a list counts past 2**63.

    >>> counted_from([0, 5], 3)
    array([[0, 1, 2],
           [5, 6, 7]])
    """
    start = as_array("start", start)
    check_numbers("start", start, kinds=("int", "uint"))
    xp, steps = namespace_of(start), _steps(length, start)
    if isinstance(start, np.ndarray):
        count = steps.shape[0]
        if start.size and int(start.max()) + count > 2**63:
            raise ValueError(f"`start` must keep positions below 2**63, got {start.max()} for {count} positions.")
        first = start.astype(np.int64)
    elif dtype_name(start) in ("uint32", "uint64"):
        raise TypeError(f"`start` must be int32 or int64, got {dtype_name(start)}; cast it first.")
    else:  # to the wider of both, as far as the library has it
        first = start if dtype_name(start) == "int64" else xp.astype(start, xp.int32)
        first = xp.astype(first, steps.dtype) if dtype_name(steps) == "int64" else first
    return xp.expand_dims(first, axis=-1) + xp.expand_dims(xp.astype(steps, first.dtype), axis=0)


def arange_like(length: Any, *, like: Array) -> Array:
    """Return the positions `0 … length - 1` in the library and on the device of `like`, shape `(length,)`."""
    return namespace_of(like).arange(length, **beside(like))


def as_array_like(given: Any, *, like: Array) -> Array:
    """Return a range of step 1 or an array of NumPy in the library and on the device of `like`; other arrays as given.

    >>> as_array_like(range(3, 5), like=np.zeros(1))
    array([3, 4])
    """
    if isinstance(given, range):
        return arange_like(len(given), like=like) + given.start
    if isinstance(like, np.ndarray) or not isinstance(given, np.ndarray):
        return given
    return namespace_of(like).asarray(given, **beside(like))


@overload
def shard(positions: A, rank: Any, world_size: int, *, order: Order = "contiguous") -> A: ...
@overload
def shard(positions: Sequence[Any], rank: int, world_size: int, *, order: Order = "contiguous") -> npt.NDArray[Any]: ...
def shard(positions: Any, rank: Any, world_size: int, *, order: Order = "contiguous") -> Any:
    """Return the positions that one rank of a context-parallel group computes.

    Shard each sequence of a packed batch by itself and concatenate the results.

    Args:
        positions: the positions of all tokens, shape `(..., length)`, or any other array with the tokens on its last
            axis: token ids, labels, masks of keys. A list, or an array of any library, traced or not.
        rank: the rank, `0 … world_size - 1`; a traced one, such as `jax.lax.axis_index` in `shard_map`, is not checked.
        world_size: the number of ranks that share the sequence.
        order: `"contiguous"` gives rank r the r-th of `world_size` equal chunks; `"zigzag"` gives it the r-th from the
            start and the r-th from the end of `2 * world_size` chunks, so that causal attention is balanced.
    Returns:
        Array of the library of `positions`, shape `(..., length / world_size)`.
    Raises:
        TypeError: if `positions` is not an array, or `rank` or `world_size` not an integer.
        ValueError: if `length` is not a multiple of the number of chunks or is unknown, or the rank is not below
            `world_size`.
    Source: Llama 3, section 3.3.2 (arXiv:2407.21783); `get_batch_on_this_cp_rank` of Megatron-LM.

    >>> [shard(np.arange(8), rank, 2, order="zigzag").tolist() for rank in range(2)]
    [[0, 1, 6, 7], [2, 3, 4, 5]]
    """
    world_size = check_integer("world_size", world_size)
    is_known = as_integer(rank) is not None or not dtype_name(rank).startswith("int") or len(rank.shape) > 0
    rank = check_integer("rank", rank, minimum=0) if is_known else rank
    check_known("order", order, ("contiguous", "zigzag"))
    if is_known and rank >= world_size:
        raise ValueError(f"`rank` must be below the `world_size` {world_size}, got {rank}.")
    array = as_array("positions", positions)
    check_rank("positions", array, minimum=1, axes="(..., length)")
    chunks = [rank] if order == "contiguous" else [rank, 2 * world_size - 1 - rank]
    size = _chunk_size(array.shape[-1], len(chunks) * world_size)
    if is_known:
        parts = [array[..., chunk * size : (chunk + 1) * size] for chunk in chunks]
        return parts[0] if len(parts) == 1 else namespace_of(array).concat(parts, axis=-1)
    xp, steps = namespace_of(rank), arange_like(size, like=rank)
    index = xp.concat([xp.astype(steps, rank.dtype) + chunk * size for chunk in chunks], axis=0)
    return xp.take(as_array_like(array, like=rank), index, axis=len(array.shape) - 1)


def as_array(name: str, values: Any) -> Any:
    """Return a list, a tuple or a range as a NumPy array, other values as they are."""
    return host_array(name, values) if isinstance(values, (list, tuple, range)) else values


def _steps(length: Any, start: Array) -> Array:
    """Return `0 … length - 1` for an integer, or for a scalar of the library or a tracer."""
    is_python = type(length).__module__ == "builtins" or isinstance(length, (Number, str, np.ndarray, np.generic))
    if is_python or getattr(length, "ndim", 0) != 0:
        return arange_like(check_integer("length", length, minimum=0, maximum=LIMIT), like=start)
    if hasattr(length, "dtype"):
        check_numbers("length", length, kinds=("int", "uint"))
    try:
        steps = arange_like(length, like=start)
    except (TypeError, ValueError):  # some libraries take no scalar of their own, or no negative one
        return arange_like(check_integer("length", length, minimum=0, maximum=LIMIT), like=start)
    if is_specialized(steps.shape[0], steps) and steps.shape[0] == 0:  # others take negative scalars as 0
        check_integer("length", length, minimum=0)
    return steps


def _chunk_size(length: Any, chunks: int) -> int:
    if not is_static(length):
        raise ValueError(f"`positions` must have a known length, got {length}.")
    if length % chunks:
        padded = -(-length // chunks) * chunks
        raise ValueError(
            f"`positions` must split into {chunks} equal chunks, got length {length}; pad the sequence to {padded}."
        )
    return length // chunks
