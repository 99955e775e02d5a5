"""Sizes of axes that only a running graph knows: sums and products of those of its inputs."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from itertools import product
from typing import Any, TypeAlias

import mxnet as mx
from mxnet.symbol import Symbol


@dataclass(frozen=True, eq=False)
class Axis:
    """One axis of a symbol.

    Attributes:
        symbol: the symbol.
        number: which of its axes, from the first.
        rank: how many axes it has.
    """

    symbol: Symbol
    number: int
    rank: int

    def count(self) -> Symbol:
        """Return its size, int32, shape `()`."""
        sizes = mx.sym.shape_array(self.symbol.as_nd_ndarray())
        size = mx.sym.slice_axis(sizes, axis=0, begin=self.number, end=self.number + 1)
        return mx.sym.np.reshape(size.as_np_ndarray(), ()).astype("int32")

    def line(self) -> Symbol:
        """Return the numbers 0, 1, … below its size, float32."""
        symbol, other = self.symbol.as_nd_ndarray(), 0 if self.number else self.rank - 1
        if self.rank > 1:
            symbol = mx.sym.slice_axis(symbol, axis=other, begin=0, end=1)  # of which a copy is cheap
        return mx.sym.npx.arange_like(symbol.as_np_ndarray().astype("float32"), axis=self.number)


@dataclass(frozen=True, eq=False)
class Share:
    """A part of one axis; the graph raises where the size is not a multiple of `parts`."""

    whole: SymbolicSize
    parts: int

    def count(self) -> Symbol:
        """Return its size, int32, shape `()`."""
        return mx.sym.np.floor(self.whole.count() / self.parts).astype("int32")

    def line(self) -> Symbol:
        """Return the numbers 0, 1, … below its size, float32."""
        return mx.sym.npx.arange_like(mx.sym.npx.reshape(self.whole.line(), (self.parts, -1)), axis=1)


Term: TypeAlias = tuple[tuple[Axis | Share, ...], int]


@dataclass(frozen=True)
class SymbolicSize:
    """A polynomial in the sizes of axes: a sum of products of them, each a number of times."""

    terms: frozenset[Term]

    @staticmethod
    def of(symbol: Symbol, number: int, rank: int) -> SymbolicSize:
        """Return the size of one axis."""
        return _size(Axis(symbol, number, rank))

    def __add__(self, other: int | SymbolicSize) -> SymbolicSize:
        return _sum([*self.terms, *_terms(other)])

    def __sub__(self, other: int | SymbolicSize) -> SymbolicSize:
        return self + other * -1

    def __mul__(self, other: int | SymbolicSize) -> SymbolicSize:
        pairs = product(self.terms, _terms(other))
        return _sum(
            [(tuple(sorted((*axes, *others), key=id)), times * more) for (axes, times), (others, more) in pairs]
        )

    def __floordiv__(self, parts: int) -> SymbolicSize:
        return _size(Share(self, parts))

    __radd__, __rmul__ = __add__, __mul__

    def count(self) -> Symbol:
        """Return the size, int32, shape `()`."""
        counts = [
            [mx.sym.np.full((), times, dtype="int32"), *[axis.count() for axis in axes]] for axes, times in self.terms
        ]
        return reduce(operator.add, [reduce(operator.mul, factors) for factors in counts])

    def line(self) -> Symbol:
        """Return the numbers 0, 1, … below the size, float32."""
        axes, times = next(iter(self.terms), ((), 0))
        if len(self.terms) == len(axes) == times == 1:
            return axes[0].line()
        if any(times < 0 and axes for axes, times in self.terms):
            raise NotImplementedError("A graph has no length that is a difference of two axes' sizes.")
        parts = [zeros([*map(_size, axes), times]) for axes, times in self.terms if times > 0]
        line = mx.sym.np.concatenate([mx.sym.npx.reshape(part, (-1,)) for part in parts], axis=0)
        left_out = -dict(self.terms).get((), 0)
        if left_out > 0:
            line = mx.sym.slice_axis(line.as_nd_ndarray(), axis=0, begin=left_out, end=None).as_np_ndarray()
        return mx.sym.npx.arange_like(line, axis=0)


def zeros(shape: Any) -> Symbol:
    """Return zeros, float32, of a shape that may have symbolic sizes."""
    return reduce(operator.add, [_zeros_along(axis, size, len(shape)) for axis, size in enumerate(shape)])


def _zeros_along(axis: int, size: int | SymbolicSize, rank: int) -> Symbol:
    """Return zeros whose axes have size 1, but for one."""
    before, after = (1,) * axis, (1,) * (rank - axis - 1)
    if not isinstance(size, SymbolicSize):
        return mx.sym.np.zeros((*before, size, *after))
    return mx.sym.npx.reshape(mx.sym.np.zeros_like(size.line()), (*before, -1, *after))


def _size(axis: Axis | Share) -> SymbolicSize:
    return SymbolicSize(frozenset({((axis,), 1)}))


def _terms(given: int | SymbolicSize) -> Iterable[Term]:
    return given.terms if isinstance(given, SymbolicSize) else [((), given)]


def _sum(terms: Iterable[Term]) -> SymbolicSize:
    total: Counter[tuple[Axis | Share, ...]] = Counter()
    for axes, times in terms:
        total[axes] += times
    return SymbolicSize(frozenset((axes, times) for axes, times in total.items() if times))
