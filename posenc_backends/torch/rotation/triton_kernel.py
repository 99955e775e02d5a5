"""The kernel for GPUs, in Triton: queries and keys in one launch, at any strides, rows of tables by their positions."""

from __future__ import annotations

from contextlib import nullcontext
from itertools import pairwise
from math import prod
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from .spec import RotationSpec, Rows

PAIRS_OF_A_PROGRAM = 2048  # 16 for each thread of four warps
HEADS_OF_A_PROGRAM = 4  # which share the rows that it has read, where a sequence is long enough for all programs


@triton.jit
def _wide(x):
    """Widen half precision; bfloat16 by its bits, as Triton's interpreter widens no subnormal number right."""
    if x.dtype == tl.bfloat16:
        return (x.to(tl.uint16, bitcast=True).to(tl.uint32) << 16).to(tl.float32, bitcast=True)
    elif x.dtype == tl.float64:
        return x
    else:
        return x.to(tl.float32)


@triton.jit
def _rounded(x, dtype: tl.constexpr, BY_BITS: tl.constexpr):
    """Round to the nearest number of `dtype`, half to even; by bits in Triton's interpreter, which cuts bits off."""
    if dtype == tl.bfloat16 and BY_BITS:
        bits = x.to(tl.uint32, bitcast=True)
        nearest = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
        return tl.where(x == x, nearest, 0x7FC0).to(tl.uint16).to(tl.bfloat16, bitcast=True)
    else:
        return x.to(dtype)


@triton.jit
def _rotate_tile(
    x, out, x_batch, x_head, x_token, x_channel, out_batch, out_head, out_token, out_channel,
    batch, head, token, heads, tokens, cos, sin,
    WIDTH: tl.constexpr, PAIRS: tl.constexpr, BLOCKS: tl.constexpr, PLACEMENT: tl.constexpr,
    SPLIT: tl.constexpr, JOIN: tl.constexpr, TOKENS: tl.constexpr, HEADS: tl.constexpr, COLUMNS: tl.constexpr,
    REST: tl.constexpr, BY_BITS: tl.constexpr,
):  # fmt: skip
    """Rotate some heads of some tokens by their cosines and sines, `(TOKENS, 1, COLUMNS)`."""
    here = (token < tokens)[:, None, None] & (head < heads)[None, :, None]
    x += batch * x_batch + token[:, None, None] * x_token + head[None, :, None] * x_head
    out += batch * out_batch + token[:, None, None] * out_token + head[None, :, None] * out_head
    begin: tl.constexpr = WIDTH - 2 * PAIRS if PLACEMENT == "trail" else 0

    pair = tl.arange(0, COLUMNS)[None, None, :].to(tl.int64)
    size: tl.constexpr = PAIRS // BLOCKS  # of a block, in pairs
    apart: tl.constexpr = WIDTH // 2 if PLACEMENT == "spread" else size
    first_channel = begin + pair + pair // size * size
    second_channel = first_channel + apart
    both_channels = begin + tl.arange(0, 2 * COLUMNS)[None, None, :].to(tl.int64)
    is_pair, are_both = here & (pair < PAIRS), here & (both_channels < begin + 2 * PAIRS)

    if SPLIT == "interleaved":
        both = tl.load(x + both_channels * x_channel, mask=are_both)
        first, second = tl.split(tl.reshape(both, (TOKENS, HEADS, COLUMNS, 2)))
    else:
        first = tl.load(x + first_channel * x_channel, mask=is_pair)
        second = tl.load(x + second_channel * x_channel, mask=is_pair)
    first, second = _wide(first), _wide(second)
    dtype: tl.constexpr = out.dtype.scalar.element_ty
    to_first = _rounded(first * cos - second * sin, dtype, BY_BITS)
    to_second = _rounded(second * cos + first * sin, dtype, BY_BITS)
    if JOIN == "interleaved":
        both = tl.reshape(tl.join(to_first, to_second), (TOKENS, HEADS, 2 * COLUMNS))
        tl.store(out + both_channels * out_channel, both, mask=are_both)
    else:
        tl.store(out + first_channel * out_channel, to_first, mask=is_pair)
        tl.store(out + second_channel * out_channel, to_second, mask=is_pair)

    if REST > 0:  # channels of no pair
        still = tl.arange(0, REST)[None, None, :].to(tl.int64)
        is_still = here & (still < WIDTH - 2 * PAIRS)
        if PLACEMENT == "lead" or (PLACEMENT == "spread" and SPLIT == "interleaved"):
            still += 2 * PAIRS
        elif PLACEMENT == "spread":
            still += tl.where(still < WIDTH // 2 - PAIRS, PAIRS, 2 * PAIRS)
        tl.store(out + still * out_channel, tl.load(x + still * x_channel, mask=is_still), mask=is_still)


@triton.jit
def _packed_positions(token, is_token, bounds, bound, num_bounds):
    """Return the distance of each token from the last bound that is not behind it; 0 behind the last of all."""
    low, high = tl.zeros_like(token), tl.zeros_like(token) + num_bounds
    span = num_bounds
    while span > 0:  # the last bound at or before a token lies in [low, high), if there is one
        middle = (low + high) // 2
        begin = tl.load(bounds + middle * bound, mask=is_token & (middle < num_bounds), other=0).to(tl.int64)
        searching = low < high
        behind = searching & (begin <= token)
        high = tl.where(searching & (begin > token), middle, high)
        low = tl.where(behind, middle + 1, low)
        span = span // 2
    begin = tl.load(bounds + (low - 1) * bound, mask=is_token & (low > 0), other=0).to(tl.int64)
    position = tl.where(low > 0, token - begin, -1)
    return tl.where(low == num_bounds, 0, position)


@triton.jit(do_not_specialize=["q_heads", "k_heads", "tokens", "length", "num_bounds"])
def rotate_kernel(
    q, q_out, k, k_out, cos, sin, given, axes, q_heads, k_heads, tokens, length, num_bounds,
    q_batch, q_head, q_token, q_channel, q_out_batch, q_out_head, q_out_token, q_out_channel,
    k_batch, k_head, k_token, k_channel, k_out_batch, k_out_head, k_out_token, k_out_channel,
    cos_batch, cos_row, cos_column, sin_batch, sin_row, sin_column, given_axis, given_batch, given_token,
    FIND: tl.constexpr, HAS_AXES: tl.constexpr, BACK: tl.constexpr, BOTH: tl.constexpr,
    WIDTH: tl.constexpr, PAIRS: tl.constexpr, BLOCKS: tl.constexpr, PLACEMENT: tl.constexpr,
    SPLIT: tl.constexpr, JOIN: tl.constexpr, TOKENS: tl.constexpr, HEADS: tl.constexpr, COLUMNS: tl.constexpr,
    REST: tl.constexpr, BY_BITS: tl.constexpr,
):  # fmt: skip
    """Rotate some heads of some tokens of one batch row: of `q`, or in the last programs of these tokens of `k`.

    All indices have 64 bits before they are multiplied by strides, since tensors have more than 2**31 elements.
    """
    q_tiles = tl.cdiv(q_heads, HEADS)
    head_tiles = q_tiles + tl.cdiv(k_heads, HEADS) if BOTH else q_tiles
    program = tl.program_id(0).to(tl.int64)
    head_tile, token_tile = program % head_tiles, program // head_tiles
    token_tiles = tl.cdiv(tokens, TOKENS)
    batch = token_tile // token_tiles
    token = token_tile % token_tiles * TOKENS + tl.arange(0, TOKENS).to(tl.int64)
    is_token = token < tokens

    column = tl.arange(0, COLUMNS).to(tl.int64)
    if FIND == "rows":
        row = token[:, None]
    elif FIND == "starts":
        row = (tl.load(given + batch * given_batch).to(tl.int64) + token)[:, None]
    elif FIND == "packed":
        row = _packed_positions(token, is_token, given, given_token, num_bounds)[:, None]
    elif HAS_AXES:
        axis = tl.load(axes + column, mask=column < PAIRS, other=0).to(tl.int64)
        places = axis[None, :] * given_axis + batch * given_batch + token[:, None] * given_token
        row = tl.load(given + places, mask=is_token[:, None], other=0).to(tl.int64)
    else:
        row = tl.load(given + batch * given_batch + token * given_token, mask=is_token, other=0).to(tl.int64)[:, None]
    known = is_token[:, None] & (column < PAIRS)[None, :] & (row >= 0) & (row < length)
    cosine = tl.load(
        cos + batch * cos_batch + row * cos_row + column[None, :] * cos_column, mask=known, other=float("nan")
    )
    sine = tl.load(
        sin + batch * sin_batch + row * sin_row + column[None, :] * sin_column, mask=known, other=float("nan")
    )
    wide: tl.constexpr = tl.float64 if q.dtype.element_ty == tl.float64 else tl.float32
    cosine, sine = cosine.to(wide)[:, None, :], sine.to(wide)[:, None, :]
    if BACK:
        sine = -sine

    head = head_tile * HEADS + tl.arange(0, HEADS).to(tl.int64)
    if head_tile < q_tiles:
        _rotate_tile(
            q, q_out, q_batch, q_head, q_token, q_channel, q_out_batch, q_out_head, q_out_token, q_out_channel,
            batch, head, token, q_heads, tokens, cosine, sine,
            WIDTH, PAIRS, BLOCKS, PLACEMENT, SPLIT, JOIN, TOKENS, HEADS, COLUMNS, REST, BY_BITS,
        )  # fmt: skip
    if BOTH:
        if head_tile >= q_tiles:
            _rotate_tile(
                k, k_out, k_batch, k_head, k_token, k_channel, k_out_batch, k_out_head, k_out_token, k_out_channel,
                batch, head - q_tiles.to(tl.int64) * HEADS, token, k_heads, tokens, cosine, sine,
                WIDTH, PAIRS, BLOCKS, PLACEMENT, SPLIT, JOIN, TOKENS, HEADS, COLUMNS, REST, BY_BITS,
            )  # fmt: skip


IS_INTERPRETED = not isinstance(rotate_kernel, triton.JITFunction)  # TRITON_INTERPRET=1 when it was imported


class Strided(NamedTuple):
    """Tokens as the kernel sees them.

    Attributes:
        batch, heads, tokens: sizes; the heads are all axes that have no part in finding a row.
        strides: of the batch, the heads, the tokens and the channels, for each of the tensors.
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
    others = [axis for axis in range(rank - 1) if axis not in (tokens_axis, batch_axis) and sizes[axis] != 1]
    merged = []
    for tensor in tensors:
        steps = tensor.stride()
        if any(steps[one] != steps[other] * sizes[other] for one, other in pairwise(others)):
            return None
        head = steps[others[-1]] if others else 0
        merged.append((0 if batch_axis is None else steps[batch_axis], head, steps[tokens_axis], steps[-1]))
    heads = prod(sizes[axis] for axis in others)
    return Strided(1 if batch_axis is None else sizes[batch_axis], heads, sizes[tokens_axis], tuple(merged))


def launch(tokens: list[tuple[Tensor, Tensor]], tables: tuple[Tensor, Tensor], rows: Rows, spec: RotationSpec) -> bool:
    """Rotate queries, keys or both in one launch; return False, and do nothing, if their axes do not lie as needed.

    Args:
        tokens: one or two pairs of tokens and their result, which may be the same where the layout stays.
        tables: cosines and sines, `(rows, pairs)` or `(batch or 1, rows, pairs)`.
        rows: which of their rows are those of a token.
        spec: which channels are pairs, and where the tokens are.
    """
    if not any(x.numel() for x, _ in tokens):
        return True
    (cos, sin), pairing = tables, spec.pairing
    shared = (cos.ndim == 2 or len(cos) == 1) and rows.strides[1] == 0
    for merged in (True, False) if shared else (False,):
        seen = [found for pair in tokens if (found := strided(merged, spec.seq_axis, *pair)) is not None]
        if len(seen) == len(tokens) and seen[0].batch == seen[-1].batch:
            break
    else:
        return False
    (x, out), first, (y, y_out), second = tokens[0], seen[0], tokens[-1], seen[-1]
    programs, sizes = _programs(seen, x.shape[-1], cos.shape[-1])
    if all(_is_one(*pair) for pair in tokens):
        sizes["REST"] = 0
    with torch.cuda.device(x.device) if x.is_cuda else nullcontext():
        rotate_kernel[(programs,)](
            x, out, y, y_out, cos, sin, rows.given, rows.axes,
            first.heads, second.heads, first.tokens, cos.shape[-2], rows.num_bounds,
            *first.strides[0], *first.strides[1], *second.strides[0], *second.strides[1],
            *_table_strides(cos), *_table_strides(sin), *rows.strides,
            FIND=rows.find, HAS_AXES=rows.axes is not None, BACK=spec.back, BOTH=len(tokens) == 2,
            WIDTH=x.shape[-1], PAIRS=cos.shape[-1], BLOCKS=pairing.blocks, PLACEMENT=pairing.placement,
            SPLIT=pairing.split, JOIN=pairing.join, BY_BITS=IS_INTERPRETED, **sizes,
            enable_fp_fusion=False,
        )  # fmt: skip
    return True


def _is_one(x: Tensor, out: Tensor) -> bool:
    return x.data_ptr() == out.data_ptr() and x.stride() == out.stride()


def _table_strides(table: Tensor) -> tuple[int, int, int]:
    """Return the strides of the batch, the rows and the columns."""
    batch = table.stride(0) if table.ndim == 3 and len(table) > 1 else 0
    return batch, table.stride(-2), table.stride(-1)


def _programs(seen: list[Strided], width: int, pairs: int) -> tuple[int, dict[str, int]]:
    """Return how many programs there are, and how many numbers of each axis one of them has."""
    columns = triton.next_power_of_2(pairs)
    most, heads = max(1, PAIRS_OF_A_PROGRAM // columns), triton.next_power_of_2(max(each.heads for each in seen))
    tokens = min(triton.next_power_of_2(seen[0].tokens), max(1, most // min(heads, HEADS_OF_A_PROGRAM)))
    heads = min(heads, max(1, most // tokens))
    tiles = sum(triton.cdiv(each.heads, heads) for each in seen)
    rest = triton.next_power_of_2(width - 2 * pairs) if width > 2 * pairs else 0
    programs = seen[0].batch * triton.cdiv(seen[0].tokens, tokens) * tiles
    return programs, {"TOKENS": tokens, "HEADS": heads, "COLUMNS": columns, "REST": rest}
