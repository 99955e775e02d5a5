"""Plans: in what order the kernel walks through arrays of these shapes and strides."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from posenc_core.rotation import Pairing

Sizes: TypeAlias = tuple[int, ...]
Lying: TypeAlias = tuple[Sizes, Sizes]
Integers: TypeAlias = npt.NDArray[np.int64]
BYTES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}
TABLE_BYTES = (
    1 << 21
)  # of a block of rows of the tables, where heads turn one after the other: it stays in the last cache
ROW_BYTES = 1 << 15  # of a block where all heads of a token turn before the next token does: it stays in the first
LARGE = 1 << 24  # bytes, which no cache holds: the result is written past them
ALIGNED = 16  # bytes, of which places are multiples that can be written past the caches
LANES = 16  # pairs that the kernel turns at a time
WAYS = {("half", "half"): 1, ("interleaved", "interleaved"): 3, ("interleaved", "half"): 5, ("half", "interleaved"): 6}
PAST_CACHES = {1: 2, 3: 4}  # the ways that write whole lines


class Plan(NamedTuple):
    """What the kernel is told, in the order of its arguments.

    Attributes:
        sizes: of the loops about a block, of a block, of the loops in it, then the way, pairs and blocks of a row, where its
            two stretches begin and end that stand still, and whether tokens are the outer loop of a block.
        loops: strides of the four loops: tables of their own, other heads, tokens, heads; for x, the result, cos and sin.
        row: where first and second channels begin, their steps, strides from block to block, and those of channels.
        units: how many blocks there are.
        large: `sizes` where no cache holds the result, and it begins where it may.
        bytes: the size of x.
    """

    sizes: Integers
    loops: Integers
    row: Integers
    units: int
    large: Integers
    bytes: int


class Layouts(NamedTuple):
    """How arrays lie: the dtype and shape of x, and strides, in elements; of tables as they are broadcast to x."""

    kind: str
    shape: Sizes
    x: Sizes
    out: Sizes
    cos: Sizes
    sin: Sizes
    pairs: int

    @property
    def strides(self) -> tuple[Sizes, Sizes, Sizes, Sizes]:
        return self.x, self.out, self.cos, self.sin


@lru_cache(maxsize=256)  # of all that it depends on; a decoder asks for the same plan at every step
def plan_of(kind: str, x: Lying, out: Sizes, cos: Lying, sin: Lying, pairing: Pairing) -> Plan | None:
    """How the kernel turns such arrays; None if there are more loops than it has.

    Args:
        kind: the dtype of x.
        x, cos, sin: their shapes and strides, in elements; tables broadcast to x, but for the last axis.
        out: strides of the result.
    """
    pairs = cos[0][-1]
    layouts = Layouts(kind, x[0], x[1], out, _broadcast(cos, x[0]), _broadcast(sin, x[0]), pairs)
    turned, still = _loops(layouts)
    tokens = (turned or still or [_NO_LOOP]).pop()
    if len(turned) + len(still) > 3:
        return None
    tables, others, heads = [*[_NO_LOOP] * 3, *turned, *still][-3:]
    by_token = heads[0] > 1 and tokens[1] >= heads[1]
    if others[0] == 1 and not by_token:  # threads share heads
        others, heads = heads, others
    block = max(1, (ROW_BYTES if by_token else TABLE_BYTES) // (8 * max(pairs, 1)))
    blocks = -(-tokens[0] // block)
    loops, row = np.array([loop[1:] for loop in (tables, others, tokens, heads)]), _row(layouts, pairing)
    way = WAYS[pairing.split, pairing.join] if (row[4] == 1).all() else 0
    sizes = np.array([
        others[0], blocks, block, tokens[0], heads[0], way, pairs // pairing.blocks, pairing.blocks,
        *_standing(layouts, pairing), by_token,
    ])  # fmt: skip
    large, size = sizes.copy(), BYTES[kind] * math.prod(x[0])
    if size >= LARGE and _is_aligned(loops, row, layouts, pairing):
        large[5] = PAST_CACHES.get(way, way)
    return Plan(sizes, loops, row, tables[0] * others[0] * blocks, large, size)


def _broadcast(table: Lying, shape: Sizes) -> Sizes:
    """Strides of a table as it is broadcast: none along axes that it has not, or of which it has but one."""
    sizes, strides = table
    own = [stride if size > 1 else 0 for size, stride in zip(sizes[:-1], strides[:-1], strict=True)]
    return (*[0] * (len(shape) - len(sizes)), *own, strides[-1] if sizes[-1] > 1 else 1)


_NO_LOOP = (1, 0, 0, 0, 0)


def _loops(layouts: Layouts) -> tuple[list[Sizes], list[Sizes]]:
    """Size and strides of what must be looped over, tables turning or standing still; what can be one loop is one."""
    loops: list[Sizes] = []
    strides = (each[:-1] for each in layouts.strides)
    for loop in zip(layouts.shape[:-1], *strides, strict=True):
        if loop[0] == 1:
            continue
        if loops and all(before == after * loop[0] for before, after in zip(loops[-1][1:], loop[1:], strict=True)):
            loops[-1] = (loops[-1][0] * loop[0], *loop[1:])
        else:
            loops.append(loop)
    return [loop for loop in loops if any(loop[3:])], [loop for loop in loops if not any(loop[3:])]


def _row(layouts: Layouts, pairing: Pairing) -> Integers:
    """Where the pairs of a row lie in each array: begin of the first and the second, step, block, and channel."""
    x, out, cos, sin = (strides[-1] for strides in layouts.strides)
    size = layouts.pairs // pairing.blocks
    ends = zip((pairing.split, pairing.join), (x, out), strict=True)
    sides = [[stride * place for place in _places(layouts, pairing, layout)] for layout, stride in ends]
    return np.array([*sides, *([0, 0, each, size * each, each] for each in (cos, sin))]).T.copy()


def _places(layouts: Layouts, pairing: Pairing, layout: str) -> Sizes:
    width, size = layouts.shape[-1], layouts.pairs // pairing.blocks
    start = width - 2 * layouts.pairs if pairing.placement == "trail" else 0
    if layout == "interleaved":
        return start, start + 1, 2, 2 * size, 1
    return start, start + (width // 2 if pairing.placement == "spread" else size), 1, 2 * size, 1


def _standing(layouts: Layouts, pairing: Pairing) -> Sizes:
    """The channels that stand still, from where to where, and again."""
    width, pairs = layouts.shape[-1], layouts.pairs
    if pairing.placement == "spread" and pairing.split == "half":
        return pairs, width // 2, width // 2 + pairs, width
    start = width - 2 * pairs if pairing.placement == "trail" else 0
    return 0, start, start + 2 * pairs, width


def _is_aligned(loops: Integers, row: Integers, layouts: Layouts, pairing: Pairing) -> bool:
    """Whether each vector that is written begins where it may be written past the caches, if the result does."""
    size, together = BYTES[layouts.kind], 2 if pairing.join == "interleaved" else 1
    places = [*loops[:, 1], *row[:4:3, 1], *(row[1:2, 1] if together == 1 else ())]
    return all(int(place) * size % min(ALIGNED, together * LANES * size) == 0 for place in places)
