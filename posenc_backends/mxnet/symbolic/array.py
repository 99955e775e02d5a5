"""Symbols with a known number of axes: arrays as the core needs them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import mxnet as mx
import numpy as np
from mxnet.symbol import Symbol

from .sizes import SymbolicSize

_ARITHMETIC = (operator.add, operator.sub, operator.mul, operator.truediv)
_COMPARISONS = (operator.lt, operator.le, operator.gt, operator.ge)


def _binary(function: Callable[[Any, Any], Symbol], dtype: str | None = None, is_reflected: bool = False) -> Any:
    """Return the method of `SymbolArray` for an operator; the other operand is an array, a number or a size."""

    def operate(self: SymbolArray, other: Any) -> SymbolArray:
        x, y, sizes = self.symbol, getattr(other, "symbol", other), self.sizes
        if isinstance(other, SymbolArray):
            sizes = broadcast(sizes, other.sizes)
        elif isinstance(other, SymbolicSize):
            y = other.count().astype(self.dtype.name)
        return SymbolArray(function(y, x) if is_reflected else function(x, y), sizes, dtype or self.dtype)

    return operate


class SymbolArray:
    """A symbol with a dtype and a number of axes.

    Args:
        symbol: the symbol.
        sizes: of its axes; None where only the running graph knows.
        dtype: that of its numbers.
    """

    def __init__(self, symbol: Symbol, sizes: Sequence[int | SymbolicSize | None], dtype: Any = "float32") -> None:
        self.symbol, self.dtype, rank = symbol, np.dtype(dtype), len(sizes)
        self.sizes: tuple[Any, ...] = tuple(
            SymbolicSize.of(symbol, i, rank) if size is None else size for i, size in enumerate(sizes)
        )

    @property
    def shape(self) -> tuple[Any, ...]:
        """The sizes that are known; None for the others."""
        return tuple(size if isinstance(size, int) else None for size in self.sizes)

    def like(self, symbol: Symbol, dtype: Any = None) -> SymbolArray:
        """Return another symbol of these sizes."""
        return SymbolArray(symbol, self.sizes, self.dtype if dtype is None else dtype)

    def __getitem__(self, key: Any) -> SymbolArray:
        keys, result, axis = key if isinstance(key, tuple) else (key,), self, 0
        given = [each for each in keys if each is not None and each is not Ellipsis]
        for each in keys:
            if each is Ellipsis:
                axis += len(self.sizes) - len(given)
            elif each is None:
                result = result.with_axis(axis)
                axis += 1
            elif isinstance(each, slice):
                result = result._sliced(axis, each)
                axis += 1
            else:
                result = result._sliced(axis, slice(each, each + 1))._without_axis(axis)
        return result

    def with_axis(self, axis: int) -> SymbolArray:
        """Return it with a new axis of size 1 at this place."""
        sizes = (*self.sizes[:axis], 1, *self.sizes[axis:])
        return SymbolArray(mx.sym.np.expand_dims(self.symbol, axis), sizes, self.dtype)

    def _without_axis(self, axis: int) -> SymbolArray:
        sizes = (*self.sizes[:axis], *self.sizes[axis + 1 :])
        return SymbolArray(mx.sym.np.squeeze(self.symbol, axis), sizes, self.dtype)

    def _sliced(self, axis: int, part: slice) -> SymbolArray:
        if part == slice(None):
            return self
        size = self.sizes[axis]
        if isinstance(size, int):
            begin, end, step = part.indices(size)
            left: int | SymbolicSize | None = len(range(begin, end, step))
        else:
            begin, end, step = part.start or 0, part.stop, part.step or 1
            left = size - begin if end is None and begin >= 0 and step == 1 else None
        if step == 1:
            nd = mx.sym.slice_axis(self.symbol.as_nd_ndarray(), axis=axis, begin=begin, end=end)
            return self._resized(nd.as_np_ndarray(), axis, left)
        return self._resized(self.symbol[(*(slice(None),) * axis, slice(begin, end, step))], axis, left)

    def _resized(self, symbol: Symbol, axis: int, size: int | SymbolicSize | None) -> SymbolArray:
        return SymbolArray(symbol, (*self.sizes[:axis], size, *self.sizes[axis + 1 :]), self.dtype)

    __add__, __sub__, __mul__, __truediv__ = map(_binary, _ARITHMETIC)
    __mod__, __pow__ = _binary(operator.mod), _binary(operator.pow)
    __radd__, __rsub__, __rmul__, __rtruediv__ = map(partial(_binary, is_reflected=True), _ARITHMETIC)
    __lt__, __le__, __gt__, __ge__ = map(partial(_binary, dtype="bool"), _COMPARISONS)
    __and__ = __mul__  # MXNet has no `&` for bools

    def __neg__(self) -> Any:
        return self * -1  # MXNet's own makes float64 of integers


class Table(SymbolArray):
    """A table that is not learned: no gradient reaches it, even where an imported graph takes it for a parameter."""


def broadcast(*shapes: Sequence[int | SymbolicSize | None]) -> tuple[int | SymbolicSize | None, ...]:
    """Return the sizes of what arrays of these sizes make together; None where only the running graph knows."""
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
    return tuple(map(_wider, zip(*padded, strict=True)))


def _wider(sizes: Sequence[int | SymbolicSize | None]) -> int | SymbolicSize | None:
    others = {size for size in sizes if size != 1} or {1}
    numbers = {size for size in others if isinstance(size, int)} or others
    return numbers.pop() if len(numbers) == 1 else None
