"""Parse and check the arguments of layers: starts, positions, lengths, caches."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from .._array_api.checks import (
    check_not_masked,
    check_positions_shape,
    check_rank,
    is_specialized,
    is_static,
    shown,
    sizes_match,
)
from .._array_api.namespace import Array, dtype_name, is_floating, shape_of
from ..encodings import Encoding
from ..positions.sequences import LIMIT, from_array
from .backend import Backend, Given, Host, Size


def host_values(given: Given, backend: Backend) -> Host | None:
    """Return a number, a list or an array as a NumPy array; None if it is traced, so that its values are unknown.

    Raises:
        TypeError: if it is none of these; if it is in half precision; if it is traced and neither int32 nor int64.
    """
    _check_not_half(given)
    if isinstance(given, (int, float, list, tuple, range, np.ndarray, np.generic)):
        check_not_masked("positions", given)
        return _as_numbers(given)
    if not hasattr(given, "shape") or not hasattr(type(given), "__getitem__"):
        raise TypeError(f"Positions and lengths must be numbers, lists or arrays, got {shown(given)}.")
    if not backend.is_unread(given):
        return backend.to_numpy(given)
    dtype = dtype_name(given)
    if dtype not in ("int32", "int64"):
        advice = "real positions must be known when code is traced: give them as a NumPy array"
        advice = advice if is_floating(given) else "cast them to int32 first"
        raise TypeError(f"Traced positions and lengths must be int32 or int64, got {dtype}; {advice}.")
    return None


def _as_numbers(given: Given) -> Host:
    try:
        host = np.asarray(given)
    except ValueError as error:
        raise TypeError(f"Positions and lengths must be numbers or equal rows of them, got {shown(given)}.") from error
    if host.dtype.kind not in "biuf":
        raise TypeError(f"Positions and lengths must be numbers, lists or arrays, got {shown(given)}.")
    return host


def is_real(given: Given) -> bool:
    """Return whether `given` is a floating-point array of a framework, which may have a gradient; NumPy's has none."""
    is_array = hasattr(given, "shape") and hasattr(type(given), "__getitem__")
    return is_array and not isinstance(given, (np.ndarray, np.generic)) and is_floating(given)


def known_integers(given: Given, backend: Backend) -> Given:
    """Return integers of a framework as a NumPy array, if they are known; all else as it is."""
    if not isinstance(given, backend.array_types) or backend.is_unread(given):
        return given
    return backend.to_numpy(given) if dtype_name(given) in ("int32", "int64") else given


def first_of(positions: Given, tokens: tuple[Size, ...]) -> int | None:
    """Return the first of integers that follow one another, the same in all rows of tokens of this shape; else None."""
    if type(positions) is not np.ndarray or positions.dtype.kind != "i" or positions.shape[-1:] != tokens[-2:-1]:
        return None
    if positions.ndim > 2 or (positions.ndim == 2 and (len(tokens) < 3 or len(positions) not in (1, tokens[0]))):
        return None
    first, last = (int(positions.flat[0]), int(positions.flat[-1])) if positions.size else (0, -1)
    if last - first != positions.shape[-1] - 1:
        return None
    return first if positions.size == 1 or (positions == np.arange(first, last + 1)).all() else None


def as_integers(array: Host) -> Host:
    """Return int64 if all numbers are whole, since some frameworks hold integers in floats; else the array itself."""
    is_whole = array.dtype.kind in "iu" or (array.dtype.kind == "f" and (array == np.rint(array)).all())
    return array.astype(np.int64) if is_whole else array


def parse_start(start: Given, batch: Size, backend: Backend) -> Given:
    """Return the start as an int, as a NumPy array of one integer per batch row, or as it is if it is traced.

    Raises:
        TypeError, ValueError: if it is none of these, or 2**31 or more in size.
    """
    if type(start) is not int:
        host = host_values(start, backend)
        check_positions("start", start if host is None else host, (), batch)
        if host is None:
            return start
        starts = as_integers(host)
        if starts.dtype.kind != "i":
            raise TypeError(f"`start` must be an integer, or one for each batch row, got {shown(start)}.")
        start = starts if starts.ndim else int(starts)
    farthest = abs(start) if type(start) is int else np.abs(start).max(initial=0)
    if farthest >= LIMIT:
        raise ValueError(f"`start` must be below 2**31 in size, got {shown(start)}.")
    return start


def parse_positions(name: str, given: Given, sizes: tuple[Size, Size], axes: int, backend: Backend) -> Given:
    """Return checked positions of attention: a NumPy array, or as they are if traced, or real and so with a gradient.

    Args:
        name: of the argument.
        given: positions, or None.
        sizes: of the batch and the sequence.
        axes: the number of axes that a position has.
        backend: of the layer.
    Raises:
        TypeError, ValueError: if they are not positions, or do not fit the tokens.
    """
    if given is None:
        return None
    (batch, length), host = sizes, host_values(given, backend)
    positions = given if host is None or is_real(given) else as_integers(from_array(host))
    if axes == 1 or len(positions.shape) == 1:
        check_positions(name, positions, (length,), batch)
        return positions
    check_axes(positions, axes, name)
    check_positions(name, positions[0, ...], (length,), batch)
    return positions


def check_positions(name: str, given: Given, tail: tuple[Size, ...], batch: Size) -> None:
    """Raise unless `given` has shape `tail`, or that once for each row of a batch (None: there are no rows)."""
    _check_not_half(given)
    sizes = given.shape if isinstance(given, np.ndarray) else shape_of(given)
    check_positions_shape(name, tuple(sizes), tail, batch)


def check_axes(positions: Array, axes: int, name: str = "positions") -> None:
    """Raise unless the first axis of positions is that of their axes."""
    if len(positions.shape) < 2 or (is_static(positions.shape[0]) and positions.shape[0] != axes):
        raise ValueError(f"`{name}` must have shape ({axes}, ..., length), got {tuple(positions.shape)}.")


def sequence_axis(x: Array, seq_axis: int, *, name: str = "x") -> int:
    """Return the axis of the sequence, counted from the first; raise if `x` lacks it, or it is the last."""
    rank = len(x.shape)
    if type(seq_axis) is not int:
        raise TypeError(f"`seq_axis` must be an integer, got {shown(seq_axis)}.")
    if not -rank <= seq_axis < rank or seq_axis % rank == rank - 1:
        raise ValueError(f"`seq_axis` must be an axis of `{name}` before the last of {rank}, got {shown(seq_axis)}.")
    return seq_axis % rank


def batch_size(x: Array, sequence: int) -> Size:
    """Return the size of the first axis of `x` that is neither its sequence nor its last; None if it has none."""
    return shape_of(x)[0 if sequence else 1] if len(x.shape) > 2 else None


def cached_length(cache: object, start: Given, keys: Array, widening: int = 1) -> int:
    """Return the number of tokens in a cache, after checking that it is `start` and that new `keys` fit behind them.

    Args:
        cache: a pair (keys, values) of shape `(batch, num_kv_heads, start, head_dim)`, or `()`; None holds none.
        start: the position of the first new token.
        keys: `(batch, num_kv_heads, length, head_dim)`.
        widening: how many times as wide the keys in the cache are.
    """
    if cache is None:
        return 0
    if not isinstance(cache, (tuple, list)) or len(cache) not in (0, 2):
        raise TypeError(f"`cache` must be a pair (keys, values), or () to begin with, got {type(cache).__name__}.")
    if type(start) is not int:
        raise ValueError("`start` must be one integer with a `cache`, its length; `positions` may differ in each row.")
    batch, heads, _, head_dim = shape_of(keys)
    for array in cache:
        check_rank("cache", array, minimum=4, maximum=4, axes="(batch, num_kv_heads, start, head_dim)")
    length = shape_of(cache[0])[2] if cache else 0
    if is_static(length) and is_specialized(start, keys) and not is_specialized(length, keys):
        raise ValueError(
            f"`cache` must have a length that stays where `start` is the number {start}, got {length}; give `start` "
            "and the cache another length in another program."
        )
    if is_static(length) and start != length:
        raise ValueError(f"`start` must be the length of the `cache`, {length}, got {shown(start)}.")
    for array, width in zip(cache, (widening * head_dim, head_dim), strict=False):
        wanted, sizes = (batch, heads, start, width), shape_of(array)
        if not sizes_match(sizes, wanted):
            raise ValueError(f"`cache` must have shape {wanted} to go before the new keys, got {sizes}.")
    return start


def check_valid_lens(shape: tuple[Size, ...], values: Host | None, sizes: tuple[Size, ...]) -> None:
    """Raise unless lengths of this shape and these values (None: unknown) fit `(batch, queries, keys)`."""
    batch, queries, keys = sizes
    is_known = all(map(is_static, (*shape, *sizes)))
    if len(shape) not in (1, 2) or (is_known and shape not in ((batch,), (batch, queries))):
        raise ValueError(f"`valid_lens` must have shape ({batch},) or ({batch}, {queries}), got {shape}.")
    if values is None:
        return
    if as_integers(values).dtype.kind != "i":
        raise TypeError(f"`valid_lens` must be integers, got {values.dtype}: {shown(values.ravel()[:3])} …")
    if is_static(keys) and values.size and not 0 <= values.min() <= values.max() <= keys:
        wrong = values.max() if values.max() > keys else values.min()
        raise ValueError(f"`valid_lens` must lie from 0 to the number of keys {keys}, got {wrong}.")


def end_of(given: Given, start: Given, length: Size) -> int:
    """Return one more than the last position, or 0 if it is not known: given positions, or `length` from `start` on."""
    if isinstance(given, np.ndarray):
        return math.ceil(given.max(initial=-1) + 1)
    if given is not None or not is_static(length) or not isinstance(start, (int, np.ndarray)):
        return 0
    return (start if isinstance(start, int) else int(start.max(initial=0))) + length


def learned_by(encoding: Encoding | tuple[Encoding, ...]) -> str:
    """Return the name of encodings in saved states: their repr without what changes no number of a trained layer."""
    return re.sub(", (max_len|std)=[^,)]*", "", repr(encoding))


def traced_limit(rows: int, encoding: Encoding) -> tuple[int, Callable[[Size], str]]:
    """Return the number of positions that traced code has, and a function that makes the message for code past them."""
    max_seq_len = encoding.max_seq_len
    if max_seq_len is None or rows < max_seq_len:
        return rows, lambda stop: past_tables(rows, stop)
    return max_seq_len, lambda stop: past_frequencies(encoding, stop - 1)


def past_tables(rows: int, stop: Size, where: str = "while the layer is traced") -> str:
    """Return the message for a call that goes past tables of so many rows, which do not grow there."""
    return f"`max_len` is {rows}, but position {stop - 1} is asked for {where}; make it with `max_len={stop}` or more."


def past_frequencies(encoding: Any, last: Size) -> str:
    """Return the message for traced code that goes past the length that frequencies are for."""
    return (
        f"Position {last} lies past the {encoding.max_seq_len} that these frequencies of {shown(encoding)} are for; "
        "make the layer with `encoding.at(seq_len)`."
    )


def other_tables(encoding: Encoding) -> str:
    """Return the message for traced code that asks for the rows of another encoding than its layer's."""
    return f"`seq_len` asks for other tables than a traced layer holds; make the layer with {shown(encoding)}."


def _check_not_half(given: Given) -> None:
    """Raise for numbers in half precision, which mixed policies make of all floats: 1001 is 1000 in bfloat16."""
    if type(given) is np.ndarray and given.dtype.kind in "iu":  # whose dtype takes long to name itself
        return
    if hasattr(given, "shape") and "float16" in str(getattr(given, "dtype", None)):
        raise TypeError(
            f"Positions and lengths must be integers or float32, got {dtype_name(given)}, which rounds them; "
            "make them integers before a mixed policy casts them."
        )
