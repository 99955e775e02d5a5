"""The names of the array API standard that the core uses, for symbols whose number of axes is known."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Any

import mxnet as mx
import numpy as np
import numpy.typing as npt
from mxnet.symbol import Symbol
from numpy import float16, float32, float64, int32  # noqa: F401

from .array import SymbolArray, Table, broadcast
from .sizes import SymbolicSize, zeros

np_ = mx.sym.np


def _each(name: str) -> Callable[[SymbolArray], SymbolArray]:
    """Return a function of each number by itself."""
    return lambda x: x.like(getattr(np_, name)(x.symbol))


def _pair(name: str) -> Callable[[SymbolArray, SymbolArray], SymbolArray]:
    """Return a function of two arrays, number by number."""
    return lambda x, y: SymbolArray(getattr(np_, name)(x.symbol, y.symbol), broadcast(x.sizes, y.sizes), x.dtype)


def _along(name: str) -> Callable[..., SymbolArray]:
    """Return a function of all numbers along an axis."""

    def reduced(x: SymbolArray, /, *, axis: int, keepdims: bool) -> SymbolArray:
        sizes, axis = list(x.sizes), axis % len(x.sizes)
        sizes[axis : axis + 1] = [1] if keepdims else []
        return SymbolArray(getattr(np_, name)(x.symbol, axis=axis, keepdims=keepdims), sizes, x.dtype)

    return reduced


abs, cos, exp, log, log1p = map(_each, ("abs", "cos", "exp", "log", "log1p"))  # noqa: A001
sin, ones_like, zeros_like = map(_each, ("sin", "ones_like", "zeros_like"))
maximum, minimum = map(_pair, ("maximum", "minimum"))
max, sum = map(_along, ("max", "sum"))  # noqa: A001


def shape(x: SymbolArray, /) -> tuple[int | SymbolicSize, ...]:
    return x.sizes


def arange(stop: int | SymbolicSize, /, *, device: Any = None) -> SymbolArray:
    line = stop.line().astype("int32") if isinstance(stop, SymbolicSize) else np_.arange(stop, dtype="int32")
    return SymbolArray(line, (stop,), "int32")


def asarray(numbers: npt.NDArray[Any], /, *, device: Any = None) -> SymbolArray:
    """Return numbers that are a part of the graph, one by one, so there should be few."""
    each = [np_.full((1,), number, dtype=numbers.dtype.name) for number in numbers.ravel().tolist()]
    line = each[0] if len(each) == 1 else np_.concatenate(each, axis=0)
    return SymbolArray(np_.reshape(line, numbers.shape), numbers.shape, numbers.dtype)


def astype(x: SymbolArray, dtype: Any, /) -> SymbolArray:
    """Return it in another dtype. Through integers there is no gradient, which MXNet would pass on."""
    wanted: Any = np.dtype(dtype)
    if wanted == x.dtype:
        return x
    symbol = stopped(x.symbol) if wanted.kind in "iu" and x.dtype.kind == "f" else x.symbol
    return x.like(symbol.astype(wanted.name), wanted)


def stopped(symbol: Symbol) -> Symbol:
    """Return the same numbers without a gradient."""
    return mx.sym.BlockGrad(symbol.as_nd_ndarray()).as_np_ndarray()


def broadcast_to(x: SymbolArray, shape: Sequence[int | SymbolicSize], /) -> SymbolArray:
    if x.sizes == tuple(shape):
        return x
    return SymbolArray(np_.add(x.symbol, zeros(shape)), shape, x.dtype)


def concat(arrays: Sequence[SymbolArray], /, *, axis: int) -> SymbolArray:
    sizes, axis = list(arrays[0].sizes), axis % len(arrays[0].sizes)
    for other in arrays[1:]:
        sizes[axis] = sizes[axis] + other.sizes[axis]
    return SymbolArray(np_.concatenate([x.symbol for x in arrays], axis=axis), sizes, arrays[0].dtype)


def cumulative_sum(x: SymbolArray, /, *, axis: int) -> SymbolArray:
    return x.like(np_.cumsum(x.symbol, axis=axis % len(x.sizes)))


def expand_dims(x: SymbolArray, /, *, axis: int) -> SymbolArray:
    return x.with_axis(axis % (len(x.sizes) + 1))


def full_like(x: SymbolArray, number: Any, /) -> SymbolArray:
    if isinstance(number, SymbolicSize):
        return x.like(np_.zeros_like(x.symbol)) + number
    return x.like(np_.full_like(x.symbol, number))


def matmul(x: SymbolArray, y: SymbolArray, /) -> SymbolArray:
    lead = broadcast(x.sizes[:-2], y.sizes[:-2]) if len(x.sizes) > 2 or len(y.sizes) > 2 else ()
    return SymbolArray(np_.matmul(x.symbol, y.symbol), (*lead, x.sizes[-2], y.sizes[-1]), x.dtype)


def matrix_transpose(x: SymbolArray, /) -> SymbolArray:
    return SymbolArray(np_.swapaxes(x.symbol, -2, -1), (*x.sizes[:-2], x.sizes[-1], x.sizes[-2]), x.dtype)


def permute_dims(x: SymbolArray, /, axes: tuple[int, ...]) -> SymbolArray:
    return SymbolArray(np_.transpose(x.symbol, axes), [x.sizes[axis] for axis in axes], x.dtype)


def reshape(x: SymbolArray, /, shape: Sequence[int | SymbolicSize]) -> SymbolArray:
    """Return it in another shape.

    MXNet keeps axes from the first on (-2), or from the last, and finds one size by itself (-1). Where that is not
    enough, zeros of the shape are made, and their shape taken.
    """
    shape = (math.prod(x.sizes),) if tuple(shape) == (-1,) else tuple(shape)
    unknown = [i for i, size in enumerate(shape) if not isinstance(size, int) or size < 0]
    if shape == x.sizes:
        return x
    if len(unknown) <= 1:
        return SymbolArray(
            np_.reshape(x.symbol, _coded(shape)), [None if size == -1 else size for size in shape], x.dtype
        )
    for step in (1, -1):
        kept = _kept(x.sizes[::step], shape[::step])
        codes = ((-2,) * kept + _coded(shape[::step][kept:]))[::step]
        if codes.count(-1) <= 1:
            return SymbolArray(mx.sym.npx.reshape(x.symbol, codes, reverse=step < 0), shape, x.dtype)
    return SymbolArray(_reshaped(x.symbol, zeros(shape)), shape, x.dtype)


def _coded(shape: Sequence[int | SymbolicSize]) -> tuple[int, ...]:
    return tuple(size if isinstance(size, int) else -1 for size in shape)


def _kept(sizes: Sequence[Any], wanted: Sequence[Any]) -> int:
    """Return how many sizes are the same, from the first on."""
    return len([*takewhile(lambda pair: pair[0] == pair[1], zip(sizes, wanted, strict=False))])


def _reshaped(symbol: Symbol, like: Symbol) -> Symbol:
    return mx.sym.reshape_like(symbol.as_nd_ndarray(), like.as_nd_ndarray()).as_np_ndarray()


def stack(arrays: Sequence[SymbolArray], /, *, axis: int) -> SymbolArray:
    sizes, place = arrays[0].sizes, axis % (len(arrays[0].sizes) + 1)
    symbol = np_.stack([x.symbol for x in arrays], axis=place)
    return SymbolArray(symbol, (*sizes[:place], len(arrays), *sizes[place:]), arrays[0].dtype)


def take(x: SymbolArray, indices: SymbolArray, /, *, axis: int) -> SymbolArray:
    sizes, axis = list(x.sizes), axis % len(x.sizes)
    sizes[axis : axis + 1] = indices.sizes
    taken = np_.take(x.symbol, indices.symbol, axis=axis, mode="clip")
    return SymbolArray(stopped(taken) if isinstance(x, Table) else taken, sizes, x.dtype)


def where(condition: SymbolArray, x: SymbolArray, y: SymbolArray, /) -> SymbolArray:
    sizes = broadcast(condition.sizes, x.sizes, y.sizes)
    return SymbolArray(np_.where(condition.symbol, x.symbol, y.symbol), sizes, x.dtype)
