"""Symbols whose number of axes is known, and their sizes as far as they are: arrays as the core asks for them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import mxnet as mx
import numpy as np
from mxnet.symbol import Symbol

from .sizes import Size


class SymbolArray:
    """A symbol with a dtype and a number of axes.

    Args:
        symbol: the symbol.
        sizes: of its axes; None: only the running graph knows.
        dtype: that of its numbers.
    """

    def __init__(self, symbol: Symbol, sizes: Sequence[int | Size | None], dtype: Any = "float32") -> None:
        self.symbol, self.dtype, rank = symbol, np.dtype(dtype), len(sizes)
        self.sizes = tuple(Size.of(symbol, i, rank) if size is None else size for i, size in enumerate(sizes))

    @property
    def shape(self) -> tuple[Any, ...]:
        """The sizes that are known, and None for others."""
        return tuple(size if isinstance(size, int) else None for size in self.sizes)

    def like(self, symbol: Symbol, dtype: Any = None) -> SymbolArray:
        """Another symbol of these sizes."""
        return SymbolArray(symbol, self.sizes, self.dtype if dtype is None else dtype)

    def __getitem__(self, key: Any) -> SymbolArray:
        keys, result, axis = key if isinstance(key, tuple) else (key,), self, 0
        given = [each for each in keys if each is not None and each is not Ellipsis]
        for each in keys:
            if each is Ellipsis:
                axis += len(self.sizes) - len(given)
            elif each is None:
                result = result._with_axis(axis)
                axis += 1
            elif isinstance(each, slice):
                result = result._sliced(axis, each)
                axis += 1
            else:
                result = result._sliced(axis, slice(each, each + 1))._without_axis(axis)
        return result

    def _with_axis(self, axis: int) -> SymbolArray:
        return SymbolArray(
            mx.sym.np.expand_dims(self.symbol, axis), (*self.sizes[:axis], 1, *self.sizes[axis:]), self.dtype
        )

    def _without_axis(self, axis: int) -> SymbolArray:
        sizes = (*self.sizes[:axis], *self.sizes[axis + 1 :])
        return SymbolArray(mx.sym.np.squeeze(self.symbol, axis), sizes, self.dtype)

    def _sliced(self, axis: int, part: slice) -> SymbolArray:
        if part == slice(None):
            return self
        size = self.sizes[axis]
        if isinstance(size, int):
            begin, end, step = part.indices(size)
            left: int | Size | None = len(range(begin, end, step))
        else:
            begin, end, step = part.start or 0, part.stop, part.step or 1
            left = size - begin if end is None and begin >= 0 and step == 1 else None
        if step == 1:
            nd = mx.sym.slice_axis(self.symbol.as_nd_ndarray(), axis=axis, begin=begin, end=end)
            return self._resized(nd.as_np_ndarray(), axis, left)
        return self._resized(self.symbol[(*(slice(None),) * axis, slice(begin, end, step))], axis, left)

    def _resized(self, symbol: Symbol, axis: int, size: int | Size | None) -> SymbolArray:
        return SymbolArray(symbol, (*self.sizes[:axis], size, *self.sizes[axis + 1 :]), self.dtype)

    def __add__(self, other: Any) -> SymbolArray:
        return self._paired(operator.add, other)

    def __radd__(self, other: Any) -> SymbolArray:
        return self._paired(lambda x, y: operator.add(y, x), other)

    def __sub__(self, other: Any) -> SymbolArray:
        return self._paired(operator.sub, other)

    def __rsub__(self, other: Any) -> SymbolArray:
        return self._paired(lambda x, y: operator.sub(y, x), other)

    def __mul__(self, other: Any) -> SymbolArray:
        return self._paired(operator.mul, other)

    def __rmul__(self, other: Any) -> SymbolArray:
        return self._paired(lambda x, y: operator.mul(y, x), other)

    def __truediv__(self, other: Any) -> SymbolArray:
        return self._paired(operator.truediv, other)

    def __rtruediv__(self, other: Any) -> SymbolArray:
        return self._paired(lambda x, y: operator.truediv(y, x), other)

    def __lt__(self, other: Any) -> SymbolArray:
        return self._paired(operator.lt, other, "bool")

    def __le__(self, other: Any) -> SymbolArray:
        return self._paired(operator.le, other, "bool")

    def __gt__(self, other: Any) -> SymbolArray:
        return self._paired(operator.gt, other, "bool")

    def __ge__(self, other: Any) -> SymbolArray:
        return self._paired(operator.ge, other, "bool")

    def __neg__(self) -> SymbolArray:
        return self * -1  # MXNet's own makes float64 of integers

    def __and__(self, other: Any) -> SymbolArray:
        return self * other  # MXNet has no `&` for bools

    def _paired(self, function: Callable[[Any, Any], Symbol], other: Any, dtype: str | None = None) -> SymbolArray:
        sizes = broadcast(self.sizes, other.sizes) if isinstance(other, SymbolArray) else self.sizes
        number = other.count().astype(self.dtype.name) if isinstance(other, Size) else getattr(other, "symbol", other)
        return SymbolArray(function(self.symbol, number), sizes, dtype or self.dtype)


class Table(SymbolArray):
    """A table that is not learned: no gradient reaches it, even where an imported graph takes it for a parameter."""


def broadcast(*shapes: Sequence[int | Size | None]) -> tuple[int | Size | None, ...]:
    """The sizes of what arrays of these sizes make together; None where that is to be seen."""
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
    return tuple(map(_wider, zip(*padded, strict=True)))


def _wider(sizes: Sequence[int | Size | None]) -> int | Size | None:
    others = {size for size in sizes if size != 1} or {1}
    numbers = {size for size in others if isinstance(size, int)} or others
    return numbers.pop() if len(numbers) == 1 else None
