"""The compiled rotation: each number is read once and written once, whatever the strides.

All compiled code is in this file, because numba's cache on disk is valid until the file changes. Pairs are rotated
several at a time by LLVM vectors, after all of them have been read, so the result may be written over the tokens.
Products and sums are rounded separately, as a framework's operators round them.
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
    """The instructions of one step, for vectors of `lanes` numbers."""

    def __init__(self, builder: Any, kind: Any, lanes: int, nontemporal: bool) -> None:
        self.build, self.kind, self.lanes, self.nontemporal = builder, kind, lanes, nontemporal

    def read_pairs(self, x: Any, first: Any, second: Any, split: str) -> list[Any]:
        if split == "half":
            return [self.widen(self.read(x, place, self.lanes)) for place in (first, second)]
        both = self.read(x, first, 2 * self.lanes)
        if self.kind == BFLOAT16:  # the first in the lower half of 32 bits, the second in the upper
            bits = self.build.bitcast(both, ir.VectorType(ir.IntType(32), self.lanes))
            halves = (self.build.shl(bits, _all(bits, 16)), self.build.and_(bits, _all(bits, UPPER)))
            return [self.build.bitcast(half, _like(bits, ir.FloatType())) for half in halves]
        wide = self.widen(both)
        return [self._shuffle(wide, wide, range(start, 2 * self.lanes, 2)) for start in (0, 1)]

    def write_pairs(self, pairs: list[Any], out: Any, first: Any, second: Any, join: str) -> None:
        if join == "half":
            for numbers, place in zip(pairs, (first, second), strict=True):
                self.write(self.narrow(numbers), out, place)
        elif self.kind == BFLOAT16:
            low, high = map(self.rounded_bits, pairs)
            both = self.build.or_(self.build.lshr(low, _all(low, 16)), self.build.and_(high, _all(high, UPPER)))
            self.write(self.build.bitcast(both, ir.VectorType(ir.IntType(16), 2 * self.lanes)), out, first)
        else:
            order = [lane + which * self.lanes for lane in range(self.lanes) for which in (0, 1)]
            self.write(self.narrow(self._shuffle(pairs[0], pairs[1], order)), out, first)

    def read(self, pointer: Any, place: Any, lanes: int) -> Any:
        vector = ir.VectorType(pointer.type.pointee, lanes)
        there = self.build.bitcast(self.build.gep(pointer, [place]), vector.as_pointer())
        return self.build.load(there, align=_bytes_of(vector.element))

    def write(self, numbers: Any, pointer: Any, place: Any) -> None:
        size = _bytes_of(numbers.type.element)
        there = self.build.bitcast(self.build.gep(pointer, [place]), numbers.type.as_pointer())
        align = min(ALIGNED, size * numbers.type.count) if self.nontemporal else size
        stored = self.build.store(numbers, there, align=align)
        if self.nontemporal:
            stored.set_metadata("nontemporal", self.build.module.add_metadata([ir.IntType(32)(1)]))

    def widen(self, numbers: Any) -> Any:
        """Return half precision as float32, other numbers as they are."""
        if self.kind == BFLOAT16:
            bits = self.build.zext(numbers, _like(numbers, ir.IntType(32)))
            return self.build.bitcast(self.build.shl(bits, _all(bits, 16)), _like(bits, ir.FloatType()))
        if self.kind == FLOAT16:
            halves = self.build.bitcast(numbers, _like(numbers, ir.HalfType()))
            return self.build.fpext(halves, _like(numbers, ir.FloatType()))
        return numbers

    def narrow(self, numbers: Any) -> Any:
        """Round once to half precision, to nearest even; return other numbers as they are."""
        if self.kind == BFLOAT16:
            bits = self.rounded_bits(numbers)
            return self.build.trunc(self.build.lshr(bits, _all(bits, 16)), _like(numbers, ir.IntType(16)))
        if self.kind == FLOAT16:
            halves = self.build.fptrunc(numbers, _like(numbers, ir.HalfType()))
            return self.build.bitcast(halves, _like(numbers, ir.IntType(16)))
        return numbers

    def rounded_bits(self, numbers: Any) -> Any:
        """Return float32 bits whose upper half is the number rounded to bfloat16; NaN stays NaN."""
        bits = self.build.bitcast(numbers, _like(numbers, ir.IntType(32)))
        last = self.build.and_(self.build.lshr(bits, _all(bits, 16)), _all(bits, 1))
        rounded = self.build.add(bits, self.build.add(last, _all(bits, 0x7FFF)))
        return self.build.select(self.build.fcmp_ordered("ord", numbers, numbers), rounded, _all(bits, 0x7FC00000))

    def _shuffle(self, one: Any, other: Any, order: Any) -> Any:
        mask = ir.Constant(ir.VectorType(ir.IntType(32), len(order)), list(order))
        return self.build.shuffle_vector(one, other, mask)


def _like(numbers: Any, kind: Any) -> Any:
    return ir.VectorType(kind, numbers.type.count)


def _all(like: Any, number: int) -> Any:
    return ir.Constant(like.type, [number] * like.type.count)


def _bytes_of(kind: Any) -> int:
    return kind.width // 8 if isinstance(kind, ir.IntType) else {"float": 4, "double": 8}[str(kind)]


def _rotation(lanes: int, split: str, join: str, nontemporal: bool = False) -> Any:
    """Return an intrinsic that rotates `lanes` pairs.

    Its arguments: x, out, cos, sin, then where the first and second channels begin in x and in out, and the table
        columns.
    """

    def rotate(_: Any, x: Any, out: Any, cos: Any, sin: Any, x0: Any, x1: Any, o0: Any, o1: Any, c: Any, s: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
            step = Step(builder, x.dtype, lanes, nontemporal)
            first, second = step.read_pairs(given[0], given[4], given[5], split)
            cosine, sine = step.read(given[2], given[8], lanes), step.read(given[3], given[9], lanes)
            there = builder.fsub(builder.fmul(first, cosine), builder.fmul(second, sine))
            across = builder.fadd(builder.fmul(second, cosine), builder.fmul(first, sine))
            step.write_pairs([there, across], given[1], given[6], given[7], join)
            return context.get_dummy_value()

        return types.void(x, out, cos, sin, x0, x1, o0, o1, c, s), generate

    return intrinsic(rotate)


@intrinsic
def _at(_: Any, address: Any, kind: Any) -> Any:
    """Return the address as a pointer to numbers of a type."""
    pointer = types.CPointer(kind)
    return pointer(address, kind), lambda c, builder, _, given: builder.inttoptr(given[0], c.get_value_type(pointer))


@intrinsic
def _fence(_: Any) -> Any:
    """Make nontemporal stores visible to other threads."""
    return types.void(), lambda c, builder, *_: (builder.fence("seq_cst"), c.get_dummy_value())[1]


# A place is four offsets, in elements, into x, the result, cosines and sines; a stride is likewise. numba infers the
# types.


@njit(nogil=True)
def _four(numbers, line):  # type: ignore[no-untyped-def]
    return numbers[line, 0], numbers[line, 1], numbers[line, 2], numbers[line, 3]


@njit(nogil=True)
def _moved(place, strides, times):  # type: ignore[no-untyped-def]
    """Return the place that many strides further."""
    x, out, cos, sin = strides
    return place[0] + x * times, place[1] + out * times, place[2] + cos * times, place[3] + sin * times


_one = _rotation(1, "half", "half")


def _rows(vector: Any, x_step: int, out_step: int) -> Any:
    """Return a function that rotates rows by whole vectors; the remaining pairs are left to `_one_by_one`."""

    @njit(nogil=True)
    def rotate_rows(memory, count, pairs, first, second, strides):  # type: ignore[no-untyped-def]
        x, out, cos, sin = memory
        (x0, o0, c, s), (x1, o1, _, _) = first, second
        for _ in range(count):
            for i in range(0, pairs - pairs % LANES, LANES):
                xi, oi = x_step * i, out_step * i
                vector(x, out, cos, sin, x0 + xi, x1 + xi, o0 + oi, o1 + oi, c + i, s + i)
            x0, x1, c = x0 + strides[0], x1 + strides[0], c + strides[2]
            o0, o1, s = o0 + strides[1], o1 + strides[1], s + strides[3]

    return rotate_rows


@njit(nogil=True)
def _one_by_one(memory, count, start, pairs, first, second, strides, steps):  # type: ignore[no-untyped-def]
    """Rotate the pairs from `start` on, one at a time, whatever the strides of the channels."""
    x, out, cos, sin = memory
    for _ in range(count if start < pairs else 0):
        (x0, o0, c, s), (x1, o1, _, _) = _moved(first, steps, start), _moved(second, steps, start)
        for _ in range(start, pairs):
            _one(x, out, cos, sin, x0, x1, o0, o1, c, s)
            x0, x1, c = x0 + steps[0], x1 + steps[0], c + steps[2]
            o0, o1, s = o0 + steps[1], o1 + steps[1], s + steps[3]
        first, second = _moved(first, strides, 1), _moved(second, strides, 1)


_apart = _rows(_rotation(LANES, "half", "half"), 1, 1)
_apart_nontemporal = _rows(_rotation(LANES, "half", "half", nontemporal=True), 1, 1)
_beside = _rows(_rotation(LANES, "interleaved", "interleaved"), 2, 2)
_beside_nontemporal = _rows(_rotation(LANES, "interleaved", "interleaved", nontemporal=True), 2, 2)
_to_half = _rows(_rotation(LANES, "interleaved", "half"), 2, 1)
_from_half = _rows(_rotation(LANES, "half", "interleaved"), 1, 2)


@njit(nogil=True)
def _rotate_tokens(memory, sizes, row, place, count, strides):  # type: ignore[no-untyped-def] # noqa: C901 - for numba
    """Write all channels of `count` tokens: the blocks of pairs, then the two unrotated ranges."""
    way, pairs = sizes[5], sizes[6]
    first, second, steps = _moved(place, _four(row, 0), 1), _moved(place, _four(row, 1), 1), _four(row, 2)
    whole = pairs - pairs % LANES if way else 0
    for _ in range(sizes[7]):
        if way == 1:
            _apart(memory, count, pairs, first, second, strides)
        elif way == 2:
            _apart_nontemporal(memory, count, pairs, first, second, strides)
        elif way == 3:
            _beside(memory, count, pairs, first, second, strides)
        elif way == 4:
            _beside_nontemporal(memory, count, pairs, first, second, strides)
        elif way == 5:
            _to_half(memory, count, pairs, first, second, strides)
        elif way == 6:
            _from_half(memory, count, pairs, first, second, strides)
        _one_by_one(memory, count, whole, pairs, first, second, strides, steps)
        first, second = _moved(first, _four(row, 3), 1), _moved(second, _four(row, 3), 1)
    for token in range(count if sizes[8] < sizes[9] or sizes[10] < sizes[11] else 0):
        x, o = place[0] + token * strides[0], place[1] + token * strides[1]
        for begin in range(8, 12, 2):
            for i in range(sizes[begin], sizes[begin + 1]):
                memory[1][o + i * row[4, 1]] = memory[0][x + i * row[4, 0]]


def _cached(function: Callable[..., None]) -> Any:
    """Return the compiled function, cached on disk where a folder can be written."""
    try:
        return njit(cache=True, nogil=True)(function)
    except RuntimeError:
        return njit(nogil=True)(function)


@_cached
def rotate(x, out, cos, sin, kind, wide, sizes, loops, row, first, last):  # type: ignore[no-untyped-def]
    """Rotate what lies at these addresses: the units from `first` to `last` of a `Plan`."""
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
            _rotate_tokens(memory, sizes, row, place, row_count, stride)
            place = _moved(place, step, 1)
    _fence()
