"""Turning, compiled: each number is read once and written once, whatever the strides.

All that is compiled stands in this file, because numba takes what it has on disk for good until the file changes. Pairs are
turned several at a time by vectors of LLVM, after all of them have been read: the result may lie where the tokens do. A
product and a sum are rounded apart, as the operators of a framework round them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from .plan import ALIGNED, LANES

BFLOAT16, FLOAT16 = types.uint16, types.int16  # which numba lacks
UPPER = 0xFFFF0000


class Step:
    """What a step is compiled to."""

    def __init__(self, builder: Any, kind: Any, lanes: int, past_caches: bool) -> None:
        self.build, self.kind, self.lanes, self.past_caches = builder, kind, lanes, past_caches

    def read_pairs(self, x: Any, first: Any, second: Any, split: str) -> list[Any]:
        if split == "half":
            return [self.widened(self.read(x, place, self.lanes)) for place in (first, second)]
        both = self.read(x, first, 2 * self.lanes)
        if self.kind == BFLOAT16:  # the first in the lower half of 32 bits, the second in the upper
            bits = self.build.bitcast(both, ir.VectorType(ir.IntType(32), self.lanes))
            halves = (self.build.shl(bits, _all(bits, 16)), self.build.and_(bits, _all(bits, UPPER)))
            return [self.build.bitcast(half, _like(bits, ir.FloatType())) for half in halves]
        wide = self.widened(both)
        return [self._picked(wide, wide, range(start, 2 * self.lanes, 2)) for start in (0, 1)]

    def write_pairs(self, pairs: list[Any], out: Any, first: Any, second: Any, join: str) -> None:
        if join == "half":
            for numbers, place in zip(pairs, (first, second), strict=True):
                self.write(self.narrowed(numbers), out, place)
        elif self.kind == BFLOAT16:
            low, high = map(self.rounded_bits, pairs)
            both = self.build.or_(self.build.lshr(low, _all(low, 16)), self.build.and_(high, _all(high, UPPER)))
            self.write(self.build.bitcast(both, ir.VectorType(ir.IntType(16), 2 * self.lanes)), out, first)
        else:
            order = [lane + which * self.lanes for lane in range(self.lanes) for which in (0, 1)]
            self.write(self.narrowed(self._picked(pairs[0], pairs[1], order)), out, first)

    def read(self, pointer: Any, place: Any, lanes: int) -> Any:
        vector = ir.VectorType(pointer.type.pointee, lanes)
        there = self.build.bitcast(self.build.gep(pointer, [place]), vector.as_pointer())
        return self.build.load(there, align=_bytes_of(vector.element))

    def write(self, numbers: Any, pointer: Any, place: Any) -> None:
        size = _bytes_of(numbers.type.element)
        there = self.build.bitcast(self.build.gep(pointer, [place]), numbers.type.as_pointer())
        align = min(ALIGNED, size * numbers.type.count) if self.past_caches else size
        stored = self.build.store(numbers, there, align=align)
        if self.past_caches:
            stored.set_metadata("nontemporal", self.build.module.add_metadata([ir.IntType(32)(1)]))

    def widened(self, numbers: Any) -> Any:
        """In float32, where they are of half precision."""
        if self.kind == BFLOAT16:
            bits = self.build.zext(numbers, _like(numbers, ir.IntType(32)))
            return self.build.bitcast(self.build.shl(bits, _all(bits, 16)), _like(bits, ir.FloatType()))
        if self.kind == FLOAT16:
            halves = self.build.bitcast(numbers, _like(numbers, ir.HalfType()))
            return self.build.fpext(halves, _like(numbers, ir.FloatType()))
        return numbers

    def narrowed(self, numbers: Any) -> Any:
        """Rounded once to the nearest, of two as near the even one."""
        if self.kind == BFLOAT16:
            bits = self.rounded_bits(numbers)
            return self.build.trunc(self.build.lshr(bits, _all(bits, 16)), _like(numbers, ir.IntType(16)))
        if self.kind == FLOAT16:
            halves = self.build.fptrunc(numbers, _like(numbers, ir.HalfType()))
            return self.build.bitcast(halves, _like(numbers, ir.IntType(16)))
        return numbers

    def rounded_bits(self, numbers: Any) -> Any:
        """Bits of float32 whose upper half is the number rounded to bfloat16; a NaN stays one."""
        bits = self.build.bitcast(numbers, _like(numbers, ir.IntType(32)))
        last = self.build.and_(self.build.lshr(bits, _all(bits, 16)), _all(bits, 1))
        rounded = self.build.add(bits, self.build.add(last, _all(bits, 0x7FFF)))
        return self.build.select(self.build.fcmp_ordered("ord", numbers, numbers), rounded, _all(bits, 0x7FC00000))

    def _picked(self, one: Any, other: Any, order: Any) -> Any:
        mask = ir.Constant(ir.VectorType(ir.IntType(32), len(order)), list(order))
        return self.build.shuffle_vector(one, other, mask)


def _like(numbers: Any, kind: Any) -> Any:
    return ir.VectorType(kind, numbers.type.count)


def _all(like: Any, number: int) -> Any:
    return ir.Constant(like.type, [number] * like.type.count)


def _bytes_of(kind: Any) -> int:
    return kind.width // 8 if isinstance(kind, ir.IntType) else {"float": 4, "double": 8}[str(kind)]


def _turning(lanes: int, split: str, join: str, past_caches: bool = False) -> Any:
    """What turns as many pairs: x, out, cos, sin, then the places of the first and second in x and out, and in the tables."""

    def turn(_: Any, x: Any, out: Any, cos: Any, sin: Any, x0: Any, x1: Any, o0: Any, o1: Any, c: Any, s: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
            step = Step(builder, x.dtype, lanes, past_caches)
            first, second = step.read_pairs(given[0], given[4], given[5], split)
            cosine, sine = step.read(given[2], given[8], lanes), step.read(given[3], given[9], lanes)
            there = builder.fsub(builder.fmul(first, cosine), builder.fmul(second, sine))
            across = builder.fadd(builder.fmul(second, cosine), builder.fmul(first, sine))
            step.write_pairs([there, across], given[1], given[6], given[7], join)
            return context.get_dummy_value()

        return types.void(x, out, cos, sin, x0, x1, o0, o1, c, s), generate

    return intrinsic(turn)


@intrinsic
def _at(_: Any, address: Any, kind: Any) -> Any:
    """The address as a pointer to numbers of a kind."""
    pointer = types.CPointer(kind)
    return pointer(address, kind), lambda c, builder, _, given: builder.inttoptr(given[0], c.get_value_type(pointer))


@intrinsic
def _fence(_: Any) -> Any:
    """Wait until what was written past the caches is there for other threads, too."""
    return types.void(), lambda c, builder, *_: (builder.fence("seq_cst"), c.get_dummy_value())[1]


# A place is four numbers of elements from where x, the result, cosines and sines begin; a stride, too. numba infers types.


@njit(nogil=True)
def _four(numbers, line):  # type: ignore[no-untyped-def]
    return numbers[line, 0], numbers[line, 1], numbers[line, 2], numbers[line, 3]


@njit(nogil=True)
def _moved(place, strides, times):  # type: ignore[no-untyped-def]
    """As many strides further."""
    x, out, cos, sin = strides
    return place[0] + x * times, place[1] + out * times, place[2] + cos * times, place[3] + sin * times


_one = _turning(1, "half", "half")


def _rows(vector: Any, x_step: int, out_step: int) -> Any:
    """What turns as many rows by vectors, as far as these go into them."""

    @njit(nogil=True)
    def turn_rows(memory, count, pairs, first, second, strides):  # type: ignore[no-untyped-def]
        x, out, cos, sin = memory
        (x0, o0, c, s), (x1, o1, _, _) = first, second
        for _ in range(count):
            for i in range(0, pairs - pairs % LANES, LANES):
                xi, oi = x_step * i, out_step * i
                vector(x, out, cos, sin, x0 + xi, x1 + xi, o0 + oi, o1 + oi, c + i, s + i)
            x0, x1, c = x0 + strides[0], x1 + strides[0], c + strides[2]
            o0, o1, s = o0 + strides[1], o1 + strides[1], s + strides[3]

    return turn_rows


@njit(nogil=True)
def _one_by_one(memory, count, start, pairs, first, second, strides, steps):  # type: ignore[no-untyped-def]
    """The same of the pairs from `start` on, whether or not channels are neighbours."""
    x, out, cos, sin = memory
    for _ in range(count if start < pairs else 0):
        (x0, o0, c, s), (x1, o1, _, _) = _moved(first, steps, start), _moved(second, steps, start)
        for _ in range(start, pairs):
            _one(x, out, cos, sin, x0, x1, o0, o1, c, s)
            x0, x1, c = x0 + steps[0], x1 + steps[0], c + steps[2]
            o0, o1, s = o0 + steps[1], o1 + steps[1], s + steps[3]
        first, second = _moved(first, strides, 1), _moved(second, strides, 1)


_apart = _rows(_turning(LANES, "half", "half"), 1, 1)
_apart_past_caches = _rows(_turning(LANES, "half", "half", past_caches=True), 1, 1)
_beside = _rows(_turning(LANES, "interleaved", "interleaved"), 2, 2)
_beside_past_caches = _rows(_turning(LANES, "interleaved", "interleaved", past_caches=True), 2, 2)
_to_half = _rows(_turning(LANES, "interleaved", "half"), 2, 1)
_from_half = _rows(_turning(LANES, "half", "interleaved"), 1, 2)


@njit(nogil=True)
def _turn_some(memory, sizes, row, place, count, strides):  # type: ignore[no-untyped-def]
    """All channels of as many tokens: blocks of pairs that turn, then two stretches that stand still."""
    way, pairs = sizes[5], sizes[6]
    first, second, steps = _moved(place, _four(row, 0), 1), _moved(place, _four(row, 1), 1), _four(row, 2)
    whole = pairs - pairs % LANES if way else 0
    for _ in range(sizes[7]):
        if way == 1:
            _apart(memory, count, pairs, first, second, strides)
        elif way == 2:
            _apart_past_caches(memory, count, pairs, first, second, strides)
        elif way == 3:
            _beside(memory, count, pairs, first, second, strides)
        elif way == 4:
            _beside_past_caches(memory, count, pairs, first, second, strides)
        elif way == 5:
            _to_half(memory, count, pairs, first, second, strides)
        elif way == 6:
            _from_half(memory, count, pairs, first, second, strides)
        _one_by_one(memory, count, whole, pairs, first, second, strides, steps)
        first, second = _moved(first, _four(row, 3), 1), _moved(second, _four(row, 3), 1)
    for token in range(count if sizes[8] < sizes[9] or sizes[10] < sizes[11] else 0):
        x, o = place[0] + token * strides[0], place[1] + token * strides[1]
        for stretch in range(8, 12, 2):
            for i in range(sizes[stretch], sizes[stretch + 1]):
                memory[1][o + i * row[4, 1]] = memory[0][x + i * row[4, 0]]


def _kept(function: Callable[..., None]) -> Any:
    """Compiled, and kept on disk where there is a folder for it; elsewhere each process compiles it anew."""
    try:
        return njit(cache=True, nogil=True)(function)
    except RuntimeError:
        return njit(nogil=True)(function)


@_kept
def turn(x, out, cos, sin, kind, wide, sizes, loops, row, first, last):  # type: ignore[no-untyped-def]
    """Turn what lies at these addresses, block by block of tokens, those from `first` to `last`; `plans` says how."""
    memory = _at(x, kind), _at(out, kind), _at(cos, wide), _at(sin, wide)
    others, blocks, block, tokens, heads = sizes[0], sizes[1], sizes[2], sizes[3], sizes[4]
    by_token, by_head = _four(loops, 2), _four(loops, 3)
    for unit in range(first, last):
        rest = unit // others
        start = rest % blocks * block
        place = _moved(_moved((0, 0, 0, 0), _four(loops, 0), rest // blocks), _four(loops, 1), unit % others)
        place = _moved(place, by_token, start)
        count = min(block, tokens - start)
        times, step, row_count, stride = heads, by_head, count, by_token
        if sizes[12]:
            times, step, row_count, stride = count, by_token, heads, by_head
        for _ in range(times):
            _turn_some(memory, sizes, row, place, row_count, stride)
            place = _moved(place, step, 1)
    _fence()
