"""Plans: the order in which the kernel walks through arrays of given shapes and strides."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from struct import Struct
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from posenc_core.rotation import Pairing, PairSlices, check_sizes, pair_slices

Sizes: TypeAlias = tuple[int, ...]
Strided: TypeAlias = tuple[Sizes, Sizes]  # shape and strides, in elements
Integers: TypeAlias = npt.NDArray[np.int64]
BYTES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}
TABLE_BYTES = 1 << 21  # of a block of table rows, if heads are the outer loop: it stays in the last-level cache
ROW_BYTES = 1 << 15  # of a block of table rows, if tokens are the outer loop: it stays in the first-level cache
DTYPES = ("float64", "float32", "bfloat16", "float16")  # by their numbers in rotate.c
LAYOUTS = {
    ("half", "half"): 1,
    ("interleaved", "interleaved"): 2,
    ("interleaved", "half"): 3,
    ("half", "interleaved"): 4,
}


class Plan(NamedTuple):
    """The kernel's arguments that depend on shapes and strides alone.

    Attributes:
        address: of the numbers.
        units: how many blocks of tokens there are, which threads may share.
        bytes: the size of x.
        numbers: the fields of `plan` in rotate.c, in its order.
    """

    address: int
    units: int
    bytes: int
    numbers: Integers


class Plans(NamedTuple):
    """The plans of one array, or of two that the same tables rotate.

    Attributes:
        each: the plans.
        addresses: of their numbers.
        largest: the size of the larger x, in bytes.
        packed: writes the addresses, those of each `x` and its result, and of both tables, as rotate.c reads them.
    """

    each: tuple[Plan, ...]
    addresses: tuple[int, ...]
    largest: int
    packed: Callable[..., bytes]


class Layouts(NamedTuple):
    """The dtype and shape of x, and the strides of all arrays, in elements; tables are broadcast to x."""

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


PACKED = Struct("q8x2q16x2q").pack, Struct("8q").pack  # for one array, and for two


@lru_cache(maxsize=256)  # a decoder asks for the same plans at every step
def plans_of(
    x: tuple[str | None, Strided],
    other: tuple[str | None, Strided] | None,
    out: Sizes | None,
    cos: Strided,
    sin: Strided,
    pairing: Pairing,
    rows: int | None = None,
) -> Plans | None:
    """Return how the kernel walks through one array, or two, and their tables; None as `plan_of`, or for other dtypes.

    Args:
        x, other: the dtype, which may be None, and the shape and strides, in elements.
        out, cos, sin, pairing, rows: as in `plan_of`.
    Raises:
        ValueError: if the tables do not fit.
    """
    given = (x,) if other is None else (x, other)
    each = [kind and plan_of(kind, lies, out, cos, sin, pairing, rows) for kind, lies in given]
    plans = tuple([plan for plan in each if isinstance(plan, Plan)])
    if len(plans) < len(given):
        return None
    largest = max(plan.bytes for plan in plans)
    return Plans(plans, tuple([plan.address for plan in plans]), largest, PACKED[len(plans) - 1])


@lru_cache(maxsize=256)
def plan_of(
    kind: str, x: Strided, out: Sizes | None, cos: Strided, sin: Strided, pairing: Pairing, rows: int | None = None
) -> Plan | None:
    """Return how the kernel walks through such arrays; None if they need more loops than it has, or have no pairs.

    Args:
        kind: the dtype of x.
        x, cos, sin: their shapes and strides, in elements; tables broadcast to x, but for the last axis.
        out: strides of the result; None where it is contiguous.
        pairing: which channels are pairs.
        rows: of tables, `(positions, pairs)`, so many consecutive rows rotate x; None for all.
    Raises:
        ValueError: if the tables do not fit x. An error is not remembered, and plans are of sizes that fit.
    """
    if rows is not None:
        cos, sin = (((rows, *sizes[1:]), strides) for sizes, strides in (cos, sin))
    check_sizes(tuple(x[0]), tuple(cos[0]), tuple(sin[0]), pairing)
    pairs = cos[0][-1]
    if pairs == 0:
        return None
    layouts = Layouts(
        kind, x[0], x[1], contiguous(x[0]) if out is None else out, _broadcast(cos, x[0]), _broadcast(sin, x[0]), pairs
    )
    with_tables, without = _loops(layouts)
    tokens = (with_tables or without or [_NO_LOOP]).pop()
    if len(with_tables) + len(without) > 3:
        return None
    tables, others, heads = [*[_NO_LOOP] * 3, *with_tables, *without][-3:]
    by_token = heads[0] > 1 and tokens[1] >= heads[1]
    if others[0] == 1 and not by_token:  # threads share heads
        others, heads = heads, others
    block = max(1, (ROW_BYTES if by_token else TABLE_BYTES) // (8 * pairs))
    blocks = -(-tokens[0] // block)
    pair_blocks, unrotated = pair_slices(layouts.shape[-1], pairs, pairing)
    row, size = _row(layouts, pair_blocks), BYTES[kind] * math.prod(x[0])
    layout = LAYOUTS[pairing.split, pairing.join] if (row[4] == 1).all() else 0
    units = tables[0] * others[0] * blocks
    numbers = np.array([
        *(DTYPES.index(kind), size if out is None else 0, units),
        *(others[0], blocks, block, tokens[0], heads[0], layout, pairs // pairing.blocks, pairing.blocks),
        *(end for channels in unrotated for end in (channels.start, channels.stop)), by_token,
        *tables[1:], *others[1:], *tokens[1:], *heads[1:], *row.reshape(-1),
    ], np.int64)  # fmt: skip
    return Plan(numbers.ctypes.data, units, size, numbers)


def contiguous(shape: Sizes) -> Sizes:
    """Return the strides of an array whose elements lie side by side, in elements.

    >>> contiguous((2, 3, 4))
    (12, 4, 1)
    """
    strides = [1]
    for size in reversed(shape[1:]):
        strides.append(strides[-1] * size)
    return tuple(reversed(strides[: len(shape)]))


def _broadcast(table: Strided, shape: Sizes) -> Sizes:
    """Return the strides of a table broadcast to a shape: 0 along axes that it lacks or that have size 1."""
    sizes, strides = table
    own = [stride if size > 1 else 0 for size, stride in zip(sizes[:-1], strides[:-1], strict=True)]
    return (*[0] * (len(shape) - len(sizes)), *own, strides[-1] if sizes[-1] > 1 else 1)


_NO_LOOP = (1, 0, 0, 0, 0)


def _loops(layouts: Layouts) -> tuple[list[Sizes], list[Sizes]]:
    """Return sizes and strides of the loops along which tables change, and of the others; merge adjacent loops."""
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


def _row(layouts: Layouts, blocks: list[PairSlices]) -> Integers:
    """Return the layout of a row: first and second channel of each array, and the steps of pair, block, channel."""
    x, out, cos, sin = (strides[-1] for strides in layouts.strides)
    block, *others = blocks
    width, size = others[0].first.start - block.first.start if others else 0, block.columns.stop - block.columns.start
    sides = [
        [stride * step for step in (first.start, second.start, first.step or 1, width, 1)]
        for stride, first, second in ((x, block.first, block.second), (out, block.to_first, block.to_second))
    ]
    return np.array([*sides, *([0, 0, each, size * each, each] for each in (cos, sin))]).T.copy()
