"""Sizes of axes that only a running graph knows: sums and products of those of its inputs."""

from __future__ import annotations

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
        """Its size, int32, shape `()`."""
        sizes = mx.sym.shape_array(self.symbol.as_nd_ndarray())
        size = mx.sym.slice_axis(sizes, axis=0, begin=self.number, end=self.number + 1)
        return mx.sym.np.reshape(size.as_np_ndarray(), ()).astype("int32")

    def line(self) -> Symbol:
        """The numbers 0, 1, … up to its size, float32."""
        symbol, other = self.symbol.as_nd_ndarray(), 0 if self.number else self.rank - 1
        if self.rank > 1:
            symbol = mx.sym.slice_axis(symbol, axis=other, begin=0, end=1)  # of which a copy is cheap
        return mx.sym.npx.arange_like(symbol.as_np_ndarray().astype("float32"), axis=self.number)


Term: TypeAlias = tuple[tuple[Axis, ...], int]


@dataclass(frozen=True)
class SymbolicSize:
    """A sum of products of axes' sizes, each a number of times: `terms` has the numbers."""

    terms: frozenset[Term]

    @staticmethod
    def of(symbol: Symbol, number: int, rank: int) -> SymbolicSize:
        """The size of one axis."""
        return _size(Axis(symbol, number, rank))

    def __add__(self, other: int | SymbolicSize) -> SymbolicSize:
        return _sum([*self.terms, *_terms(other)])

    def __sub__(self, other: int | SymbolicSize) -> SymbolicSize:
        return self + other * -1

    def __mul__(self, other: int | SymbolicSize) -> SymbolicSize:
        pairs = product(self.terms, _terms(other))
        return _sum([(tuple(sorted((*axes, *others), key=id)), times * more) for (axes, times), (others, more) in pairs])

    __radd__, __rmul__ = __add__, __mul__

    def count(self) -> Symbol:
        """The number, int32, shape `()`."""
        products = [
            reduce(lambda a, b: a * b, (axis.count() for axis in axes), _full((), times)) for axes, times in self.terms
        ]
        return reduce(lambda a, b: a + b, products)

    @property
    def only(self) -> Axis | None:
        """The axis, where it is the size of one."""
        axes, times = next(iter(self.terms), ((), 0))
        return axes[0] if len(self.terms) == len(axes) == times == 1 else None

    def line(self) -> Symbol:
        """The numbers 0, 1, … up to it, float32."""
        if self.only:
            return self.only.line()
        parts = [zeros([*map(_size, axes), times]) for axes, times in self._added]
        line = mx.sym.np.concatenate([mx.sym.npx.reshape(part, (-1,)) for part in parts], axis=0)
        left_out = -dict(self.terms).get((), 0)
        if left_out > 0:
            line = mx.sym.slice_axis(line.as_nd_ndarray(), axis=0, begin=left_out, end=None).as_np_ndarray()
        return mx.sym.npx.arange_like(line, axis=0)

    @property
    def _added(self) -> list[Term]:
        """What is added up; of what is taken away, there can only be a number."""
        if any(times < 0 and axes for axes, times in self.terms):
            raise NotImplementedError("A graph has no length that is a difference of two axes' sizes.")
        return [(axes, times) for axes, times in self.terms if times > 0]


def sized(symbol: Symbol, *last: int) -> Symbol:
    """Itself, with last axes of these sizes (-2: any), or else its graph does not run; the others (-4) stay as they are."""
    return mx.sym.npx.reshape(symbol, (-4, *last), reverse=True)


def zeros(shape: Any) -> Symbol:
    """Zeros, float32, of a shape that may have sizes in it."""
    ones = [_stood(size, number, len(shape)) for number, size in enumerate(shape)]
    return reduce(lambda a, b: a + b, ones)


def _stood(size: int | SymbolicSize, number: int, rank: int) -> Symbol:
    """A line of zeros along one of several axes."""
    shape = [1] * rank
    if not isinstance(size, SymbolicSize):
        shape[number] = size
        return mx.sym.np.zeros(tuple(shape))
    shape[number] = -1
    return mx.sym.npx.reshape(mx.sym.np.zeros_like(size.line()), tuple(shape))


def _size(axis: Axis) -> SymbolicSize:
    return SymbolicSize(frozenset({((axis,), 1)}))


def _terms(given: int | SymbolicSize) -> Iterable[Term]:
    return given.terms if isinstance(given, SymbolicSize) else [((), given)]


def _sum(terms: Iterable[Term]) -> SymbolicSize:
    total: Counter[tuple[Axis, ...]] = Counter()
    for axes, times in terms:
        total[axes] += times
    return SymbolicSize(frozenset((axes, times) for axes, times in total.items() if times))


def _full(shape: tuple[int, ...], number: int) -> Symbol:
    return mx.sym.np.full(shape, number, dtype="int32")
