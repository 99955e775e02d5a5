"""Launches of the kernel: which tile a program has, which arguments the kernel, and launching again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from itertools import pairwise
from math import gcd, prod
from typing import Any, NamedTuple

import torch
from torch import Tensor
from triton.compiler import CompiledKernel

from posenc_core.rotation import Pairing

from .spec import RotationSpec, Rows
from .triton_kernel import IS_INTERPRETED, rotate_kernel

THREADS = 128  # of a program
BYTES = 16  # that a thread reads or writes at once
READ_AHEAD = 64  # bytes of tokens that a thread reads before it computes
MOST_REPEATS = 4  # tiles of a program
MOST_OF_AXES = 4  # pairs of a thread, if positions have several axes
MOST = 2**31 - 2**12  # heads, or their parts in all tokens: indices have 32 bits, with those of the last tile
REGISTERS = {} if torch.version.hip else {"maxnreg": 64}  # with which ptxas lets all loads begin before it computes
OPTIONS = {"enable_fp_fusion": False, "num_warps": THREADS // (64 if torch.version.hip else 32), **REGISTERS}


class Strided(NamedTuple):
    """Tokens as the kernel sees them.

    Attributes:
        batch, heads, tokens: sizes; the heads are all axes that have no part in finding a row.
        strides: of the batch, the heads, the tokens and the channels, for each of the tensors; 0 along sizes of 1.
    """

    batch: int
    heads: int
    tokens: int
    strides: tuple[tuple[int, int, int, int], ...]


def strided(shared: bool, seq_axis: int, *tensors: Tensor) -> Strided | None:
    """Return tensors of one shape as the kernel sees them, or None if axes cannot be merged as it needs.

    Args:
        shared: whether all batch rows have the same rows of the tables: they are heads then.
        seq_axis: the axis of the tokens.
        tensors: of one shape, such as the tokens and the result.
    """
    sizes, rank = tensors[0].shape, tensors[0].ndim
    tokens_axis = seq_axis % rank
    batch_axis = None if shared or rank < 3 else 0 if tokens_axis else 1
    batch = 1 if batch_axis is None else sizes[batch_axis]
    others = [axis for axis in range(rank - 1) if axis not in (tokens_axis, batch_axis) and sizes[axis] != 1]
    merged = []
    for tensor in tensors:
        steps = tensor.stride()
        if any(steps[one] != steps[other] * sizes[other] for one, other in pairwise(others)):
            return None
        head = steps[others[-1]] if others else 0
        of_batch, of_token = steps[batch_axis] if batch > 1 else 0, steps[tokens_axis] if sizes[tokens_axis] > 1 else 0
        merged.append((of_batch, head, of_token, steps[-1]))
    return Strided(batch, prod(sizes[axis] for axis in others), sizes[tokens_axis], tuple(merged))


class Tile(NamedTuple):
    """How many numbers of each axis a program has.

    Attributes:
        rows: of a tile, a power of two. A row is a part of a head of a token, or the whole head.
        heads: of a token in a tile; with several, rows of a tile are all of a token's or of all tokens.
        repeats: how many tiles of further heads a program rotates by the same rows of the tables.
        columns: pairs of a row, a power of two.
    """

    rows: int
    heads: int
    repeats: int
    columns: int


def tile_of(size: int, pairing: Pairing, pairs: int, unit: int, tokens: int, heads: int, axes: int = 1) -> Tile:
    """Return a tile in which a row is what a thread reads and writes in one access: no thread is without pairs.

    Args:
        size: of a number, in bytes.
        pairing: which channels are pairs; where both channels of a pair lie side by side, an access has half as many.
        pairs: the number of pairs.
        unit: a power of two that divides all strides.
        tokens, heads: how many there are at most.
        axes: of the positions; for several, rows of the tables take most registers.
    """
    are_apart = pairing.split == pairing.join == "half"
    at_once = gcd(BYTES // size, unit) if are_apart else max(1, gcd(BYTES // size, unit) // 2)
    columns = gcd(at_once if axes == 1 else min(at_once, MOST_OF_AXES), pairs // pairing.blocks)
    most_heads, places = _power_of_two(heads), THREADS * columns // pairs  # for heads of tokens in a tile
    if tokens >= places:
        return Tile(THREADS, 1, min(max(1, READ_AHEAD // (2 * size * columns)), MOST_REPEATS, most_heads), columns)
    return Tile(THREADS, min(1 << (places // max(1, tokens)).bit_length() - 1, most_heads), 1, columns)


def _unit(steps: Sequence[int]) -> int:
    """Return the largest power of two up to 16 that divides all of them, which may be symbols of compiled code."""
    return next(unit for unit in (16, 8, 4, 2, 1) if all(step % unit == 0 for step in steps))


def _power_of_two(least: int) -> int:
    return 1 << max(0, least - 1).bit_length()


class Plan:
    """A launch, which may be repeated with other tensors of the same shapes, strides, dtypes, devices and alignments.

    Attributes:
        kernel, options: what is launched, and how Triton compiles it.
        grid: the number of programs.
        numbers: the arguments of the kernel behind those that a call brings.
        last_start: the last row of the tables that the first token may have.
        axes: the axis of the positions of each pair, on the device, if there are several.
        stays: whether the channels of a pair stay where they are, so that tokens can be rotated in place.
    """

    grid: tuple[int, int, int]
    numbers: tuple[Any, ...]
    last_start: int
    axes: Tensor | None
    stays: bool
    kernel: Any
    options: dict[str, Any]

    def __init__(
        self, programs: int, numbers: tuple[Any, ...], last_start: int, axes: Tensor | None, stays: bool
    ) -> None:
        self.grid, self.numbers, self.last_start, self.axes = (programs, 1, 1), numbers, last_start, axes
        self.stays, self.kernel, self.options = stays, rotate_kernel, OPTIONS
        self._repeat: Any = None

    def launch(self, *given: Any) -> None:
        """Launch by Triton's own call, which looks at all arguments, and compiles the kernel for them if need be."""
        kernel = self.kernel[self.grid](*given, *self.numbers, **self.options)
        if isinstance(kernel, CompiledKernel):
            self._repeat = kernel[self.grid]

    def launch_on(self, x: Tensor, *given: Any) -> None:
        """Launch on the device of a tensor, unless there is nothing to do."""
        if self.grid[0]:
            with torch.cuda.device(x.device) if x.is_cuda else nullcontext():
                self.launch(*given)

    def repeat(self, *given: Any) -> None:
        """Launch what was compiled at the first launch: all pointers have to be aligned as they were then."""
        if self._repeat is None:
            self.launch(*given)
        else:
            self._repeat(*given, *self.numbers)


def plan_of(
    tokens: Sequence[tuple[Tensor, Tensor]],
    tables: tuple[Tensor, Tensor],
    rows: Rows,
    spec: RotationSpec,
    is_in_place: bool = False,
    tile_of: Callable[..., Tile] = tile_of,
    merges_batch: bool = True,
) -> Plan | None:
    """Return how one launch rotates queries, keys or both; None if their axes do not lie as the kernel needs.

    Args:
        tokens: one or two pairs of tokens and their result, which may be the same where the layout stays.
        tables: cosines and sines, `(rows, pairs)` or `(batch or 1, rows, pairs)`; None if their strides differ.
        rows: which of their rows are those of a token.
        spec: which channels are pairs, and where the tokens are.
        is_in_place: whether all tokens are their own results.
        tile_of: chooses the tile of a program.
        merges_batch: whether the kernel may see heads of several batch rows as heads of one.
    """
    cos, pairing = tables[0], spec.pairing
    if _table_strides(cos) != _table_strides(tables[1]):
        return None
    shared = merges_batch and (cos.ndim == 2 or len(cos) == 1) and rows.strides[1] == 0
    for merged in (True, False) if shared else (False,):
        seen = [found for pair in tokens if (found := strided(merged, spec.seq_axis, *pair)) is not None]
        if len(seen) == len(tokens) and seen[0].batch == seen[-1].batch:
            break
    else:
        return None
    (x, _), first, second = tokens[0], seen[0], seen[-1]
    heads, width, pairs = max(first.heads, second.heads), x.shape[-1], cos.shape[-1]
    steps = [stride for each in (first, second) for strides in each.strides for stride in strides[:3]]
    channels = [strides[3] for each in (first, second) for strides in each.strides]
    *table_steps, table_column = _table_strides(cos)
    unit, table_unit = _unit(steps), _unit(table_steps)
    axes = 0 if rows.axes is None or rows.given is None else rows.given.shape[0]
    tile = tile_of(x.element_size(), pairing, pairs, unit, first.tokens, heads, max(axes, 1))
    parts = -(-pairs // tile.columns)
    of_tokens = first.tokens * tile.heads * parts  # rows
    if max(heads, of_tokens) > MOST:
        return None
    head_tiles = sum(-(-each.heads // (tile.heads * tile.repeats)) for each in seen)
    programs = first.batch * -(-of_tokens // tile.rows) * head_tiles
    rest = _power_of_two(-(-(width - 2 * pairs) // parts)) if width > 2 * pairs and not is_in_place else 0
    numbers = (
        first.heads, second.heads, first.tokens, cos.shape[-2], rows.num_bounds,
        *[step // unit for step in steps], *[step // table_unit for step in table_steps], *rows.strides,
        *channels, table_column,
        rows.find, axes, spec.back, len(tokens) == 2, first.batch > 1,
        steps[1] > steps[2],
        all(each.heads % (tile.heads * tile.repeats) == 0 for each in seen),
        width, pairs, pairing.blocks, pairing.placement, pairing.split, pairing.join,
        *tile, rest, unit, table_unit, IS_INTERPRETED,
    )  # fmt: skip
    last = cos.shape[-2] - first.tokens if rows.find == "rows" and cos.ndim == 2 else 0
    return Plan(programs, numbers, min(last, MOST), rows.axes, pairing.split == pairing.join)


def launch(
    tokens: Sequence[tuple[Tensor, Tensor]],
    tables: tuple[Tensor, Tensor],
    rows: Rows,
    spec: RotationSpec,
    weights: Sequence[Any] = (),
    plan_of: Callable[..., Plan | None] = plan_of,
) -> Plan | None:
    """Launch a kernel for queries, keys or both; return its plan, or None, with nothing done, as `plan_of`.

    Args:
        tokens, tables, rows, spec: as `plan_of` takes them.
        weights: what the kernel takes behind the start.
        plan_of: chooses the kernel, and how it is launched.
    """
    in_place = all(x.data_ptr() == out.data_ptr() and x.stride() == out.stride() for x, out in tokens)
    plan = plan_of(tokens, tables, rows, spec, in_place)
    if plan is not None:
        plan.launch_on(tokens[0][0], *tokens[0], *tokens[-1], *tables, rows.given, rows.axes, rows.start, *weights)
    return plan


def _table_strides(table: Tensor) -> tuple[int, int, int]:
    """Return the strides of the batch, the rows and the columns; 0 for those of one batch row or one row."""
    batch = table.stride(0) if table.ndim == 3 and len(table) > 1 else 0
    return batch, table.stride(-2) if table.shape[-2] > 1 else 0, table.stride(-1) if table.shape[-1] > 1 else 1
