"""Kernels of QK-norm and RoPE in one pass: RMS norm of each head and rotation, in either order, and their gradient."""

from __future__ import annotations

from functools import partial
from typing import Any

import triton
import triton.language as tl

from .spec import RotationSpec, Rows
from .triton_kernel import (
    INTEGERS,
    _are_heads,
    _find_tokens,
    _load_pairs,
    _load_tables,
    _rest_channels,
    _rounded,
    _store_pairs,
    _tile,
    _turn,
    _wide,
)
from .triton_launch import OPTIONS, THREADS, Plan, Tile, plan_of, tile_of

HEADS_AT_ONCE = 4  # of a token in a program, for which it reads rows of tables once
PARTS = 1024  # programs of a backward pass, each with a sum of its own: as many on all devices, for the same bits
PARTS_OF_TOKENS = 256  # the same where a program has all heads of a token, and a sum for each of them
MOST_THREADS = 1024  # of a program; more heads are left to operators


@triton.jit
def _load_head(x, channel, here, WIDTH: tl.constexpr, PAIRS: tl.constexpr, BLOCKS: tl.constexpr,
               PLACEMENT: tl.constexpr, LAYOUT: tl.constexpr, COLUMNS: tl.constexpr, REST: tl.constexpr):  # fmt: skip
    """Return heads at `x`: the first and the second channels of pairs, and the channels of no pair, if any."""
    first, second = _load_pairs(x, channel, here, 0, WIDTH, PAIRS, BLOCKS, PLACEMENT, LAYOUT, COLUMNS)
    rest = first
    if REST > 0:
        channels, is_still = _rest_channels(here, 0, WIDTH, PAIRS, PLACEMENT, LAYOUT, REST)
        rest = tl.load(x + channels * channel, mask=is_still)
    return first, second, rest


@triton.jit
def _store_head(out, channel, here, head, dtype: tl.constexpr, WIDTH: tl.constexpr, PAIRS: tl.constexpr,
                BLOCKS: tl.constexpr, PLACEMENT: tl.constexpr, LAYOUT: tl.constexpr, COLUMNS: tl.constexpr,
                REST: tl.constexpr, BY_BITS: tl.constexpr):  # fmt: skip
    """Round a head to `dtype`, and write it to rows that begin at `out`."""
    first, second = _rounded(head[0], dtype, BY_BITS), _rounded(head[1], dtype, BY_BITS)
    _store_pairs(out, channel, here, 0, first, second, WIDTH, PAIRS, BLOCKS, PLACEMENT, LAYOUT, COLUMNS)
    if REST > 0:
        channels, is_still = _rest_channels(here, 0, WIDTH, PAIRS, PLACEMENT, LAYOUT, REST)
        tl.store(out + channels * channel, _rounded(head[2], dtype, BY_BITS), mask=is_still)


@triton.jit
def _widen(head, ADDEND: tl.constexpr):
    """Return a head in the dtype in which it is rotated, plus a number."""
    if ADDEND == 0:
        return _wide(head[0]), _wide(head[1]), _wide(head[2])
    else:
        return _wide(head[0]) + ADDEND, _wide(head[1]) + ADDEND, _wide(head[2]) + ADDEND


@triton.jit
def _multiply(head, factors):
    return head[0] * factors[0], head[1] * factors[1], head[2] * factors[2]


@triton.jit
def _scale(head, factor):
    return head[0] * factor, head[1] * factor, head[2] * factor


@triton.jit
def _turn_head(head, cosine, sine, BACK: tl.constexpr):
    first, second = _turn(head[0], head[1], cosine, sine, BACK)
    return first, second, head[2]


@triton.jit
def _mean(head, here, heads, WIDTH: tl.constexpr, PAIRS: tl.constexpr, COLUMNS: tl.constexpr, REST: tl.constexpr,
          TOGETHER: tl.constexpr):  # fmt: skip
    """Return the mean of the channels of each row, `(rows, 1)`; `TOGETHER` that of all heads of a token, its rows."""
    both = head[0] + head[1]
    if COLUMNS != PAIRS:
        both = tl.where((tl.arange(0, COLUMNS) < PAIRS)[None, :], both, 0.0)
    total = tl.sum(both, axis=1)
    if REST > 0:
        total += tl.sum(tl.where((tl.arange(0, REST) < WIDTH - 2 * PAIRS)[None, :], head[2], 0.0), axis=1)
    if TOGETHER:
        return tl.sum(tl.where(here, total[:, None], 0.0)) / tl.cast(tl.cast(heads, tl.int64) * WIDTH, total.dtype)
    else:
        return (total / WIDTH)[:, None]


@triton.jit
def _weight_of(weight, token, head_index, here, WIDTH: tl.constexpr, PAIRS: tl.constexpr, BLOCKS: tl.constexpr,
               PLACEMENT: tl.constexpr, LAYOUT: tl.constexpr, COLUMNS: tl.constexpr, REST: tl.constexpr,
               TOGETHER: tl.constexpr):  # fmt: skip
    """Return the weights of each row, as tokens lie in threads: `TOGETHER` each head has its own."""
    at = weight + (head_index.to(tl.int64) * WIDTH if TOGETHER else token * 0)[:, None]
    return _load_head(at, 1, here, WIDTH, PAIRS, BLOCKS, PLACEMENT, LAYOUT, COLUMNS, REST)


@triton.jit(do_not_specialize=INTEGERS)
def normalize_rotate_kernel(
    q, q_out, k, k_out, cos, sin, given, axes, start, q_weight, k_weight,
    q_heads, k_heads, tokens, length, num_bounds,
    q_batch, q_head, q_token, q_out_batch, q_out_head, q_out_token,
    k_batch, k_head, k_token, k_out_batch, k_out_head, k_out_token,
    table_batch, table_row, given_axis, given_batch, given_token,
    q_channel, q_out_channel, k_channel, k_out_channel, table_column,
    FIND: tl.constexpr, AXES: tl.constexpr, BACK: tl.constexpr, BOTH: tl.constexpr, HAS_BATCH: tl.constexpr,
    BY_HEAD: tl.constexpr, EVEN: tl.constexpr, WIDTH: tl.constexpr, PAIRS: tl.constexpr, BLOCKS: tl.constexpr,
    PLACEMENT: tl.constexpr, SPLIT: tl.constexpr, JOIN: tl.constexpr, ROWS: tl.constexpr, HEADS: tl.constexpr,
    REPEATS: tl.constexpr, COLUMNS: tl.constexpr, REST: tl.constexpr, UNIT: tl.constexpr, TABLE_UNIT: tl.constexpr,
    BY_BITS: tl.constexpr,
    NORM_FIRST: tl.constexpr, EPSILON: tl.constexpr, OFFSET: tl.constexpr, TOGETHER: tl.constexpr,
):  # fmt: skip
    """Normalize and rotate some heads of some tokens: programs, tiles, strides and rows are those of `rotate_kernel`.

    A head stays in the registers of the threads that have its row, and is rounded to the dtype of the tokens once.
    """
    batch, token, is_token, is_k, head_index, heads, _, x, out, x_head, out_head, x_channel, out_channel = _find_tokens(
        q, q_out, k, k_out, q_heads, k_heads, tokens,
        q_batch, q_head, q_token, q_out_batch, q_out_head, q_out_token,
        k_batch, k_head, k_token, k_out_batch, k_out_head, k_out_token,
        q_channel, q_out_channel, k_channel, k_out_channel, BOTH, HAS_BATCH, BY_HEAD, PAIRS, ROWS, HEADS,
        REPEATS, COLUMNS, UNIT,
    )  # fmt: skip
    loaded = ()
    for i in tl.static_range(REPEATS):
        here = is_token & _are_heads(head_index + i * HEADS, heads, EVEN)
        at = x + tl.cast(x_head, tl.int64) * (i * HEADS * UNIT)
        head = _load_head(at, x_channel, here, WIDTH, PAIRS, BLOCKS, PLACEMENT, SPLIT, COLUMNS, REST)
        loaded += (head,)  # type: ignore[assignment]
    dtype: tl.constexpr = q.dtype.element_ty
    cosine, sine = _load_tables(
        cos, sin, token, 0, batch, start, length, given, axes, given_axis, given_batch, given_token, num_bounds,
        table_batch, table_row, table_column, dtype, FIND, AXES, PAIRS, COLUMNS, TABLE_UNIT,
    )  # fmt: skip
    weight_layout: tl.constexpr = SPLIT if NORM_FIRST else JOIN
    if q_weight is not None:
        at, has_weight = tl.where(is_k, k_weight, q_weight) if BOTH else q_weight, is_token
        if TOGETHER:
            has_weight = is_token & (head_index < heads)[:, None]
        weight = _weight_of(
            at, token, head_index, has_weight, WIDTH, PAIRS, BLOCKS, PLACEMENT, weight_layout, COLUMNS, REST,
            TOGETHER,
        )  # fmt: skip
    for i in tl.static_range(REPEATS):
        here = is_token & _are_heads(head_index + i * HEADS, heads, EVEN)
        head = _widen(loaded[i], 0)
        if not NORM_FIRST:
            head = _turn_head(head, cosine, sine, BACK)
        mean = _mean(_multiply(head, head), here, heads, WIDTH, PAIRS, COLUMNS, REST, TOGETHER)
        head = _scale(head, tl.rsqrt(mean + EPSILON))
        if q_weight is not None:
            head = _multiply(head, _widen(weight, OFFSET))
        if NORM_FIRST:
            head = _turn_head(head, cosine, sine, BACK)
        to = out + tl.cast(out_head, tl.int64) * (i * HEADS * UNIT)
        _store_head(to, out_channel, here, head, dtype, WIDTH, PAIRS, BLOCKS, PLACEMENT, JOIN, COLUMNS, REST, BY_BITS)


@triton.jit
def _gradients(x, gradient, weight, cosine, sine, here, heads, BACK: tl.constexpr, WIDTH: tl.constexpr,
               PAIRS: tl.constexpr, COLUMNS: tl.constexpr, REST: tl.constexpr, NORM_FIRST: tl.constexpr,
               EPSILON: tl.constexpr, OFFSET: tl.constexpr, TOGETHER: tl.constexpr):  # fmt: skip
    """Return the gradient of heads, and what each of them adds to that of the weight, of which there may be none."""
    x, change = _widen(x, 0), _widen(gradient, 0)
    if NORM_FIRST:
        change = _turn_head(change, cosine, sine, not BACK)
    else:
        x = _turn_head(x, cosine, sine, BACK)
    factor = tl.rsqrt(_mean(_multiply(x, x), here, heads, WIDTH, PAIRS, COLUMNS, REST, TOGETHER) + EPSILON)
    x = _scale(x, factor)
    of_weight = _multiply(change, x)
    if weight is not None:
        change = _multiply(change, _widen(weight, OFFSET))
    along = _scale(x, _mean(_multiply(change, x), here, heads, WIDTH, PAIRS, COLUMNS, REST, TOGETHER))
    change = _scale((change[0] - along[0], change[1] - along[1], change[2] - along[2]), factor)
    if not NORM_FIRST:
        change = _turn_head(change, cosine, sine, not BACK)
    return change, of_weight


GRADIENT_INTEGERS = [
    "start", "tiles", "heads", "_heads", "tokens", "length", "num_bounds",
    *(f"{x}_{axis}" for x in ("x", "to", "of", "") for axis in ("batch", "head", "token")),
    "table_batch", "table_row", "given_axis", "given_batch", "given_token",
]  # fmt: skip


@triton.jit(do_not_specialize=GRADIENT_INTEGERS)
def gradient_kernel(
    x, x_gradient, gradient, partial, cos, sin, given, axes, start, weight, tiles,
    heads, _heads, tokens, length, num_bounds,
    x_batch, x_head, x_token, to_batch, to_head, to_token,
    of_batch, of_head, of_token, _batch, _head, _token,
    table_batch, table_row, given_axis, given_batch, given_token,
    x_channel, to_channel, of_channel, _channel, table_column,
    FIND: tl.constexpr, AXES: tl.constexpr, BACK: tl.constexpr, BOTH: tl.constexpr, HAS_BATCH: tl.constexpr,
    BY_HEAD: tl.constexpr, EVEN: tl.constexpr, WIDTH: tl.constexpr, PAIRS: tl.constexpr, BLOCKS: tl.constexpr,
    PLACEMENT: tl.constexpr, SPLIT: tl.constexpr, JOIN: tl.constexpr, ROWS: tl.constexpr, HEADS: tl.constexpr,
    REPEATS: tl.constexpr, COLUMNS: tl.constexpr, REST: tl.constexpr, UNIT: tl.constexpr, TABLE_UNIT: tl.constexpr,
    BY_BITS: tl.constexpr,
    NORM_FIRST: tl.constexpr, EPSILON: tl.constexpr, OFFSET: tl.constexpr, TOGETHER: tl.constexpr,
):  # fmt: skip
    """Write the gradient of tokens, and each program's part of that of the weight, the sum over the heads that it has.

    Arguments are those of a launch whose queries are the tokens and whose keys are the gradient of the results.
    """
    dtype: tl.constexpr = x.dtype.element_ty
    wide: tl.constexpr = tl.float64 if dtype == tl.float64 else tl.float32
    weight_layout: tl.constexpr = SPLIT if NORM_FIRST else JOIN
    first = tl.zeros((ROWS, COLUMNS), wide)
    rest = tl.zeros((ROWS, REST if REST > 0 else 1), wide)
    sums = (first, first, rest)
    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
        batch, _, token, is_token, head_index, _ = _tile(
            tile, heads, heads, tokens, False, HAS_BATCH, BY_HEAD, PAIRS, ROWS, HEADS, REPEATS, COLUMNS
        )
        head = head_index.to(tl.int64)
        at_x = x + ((batch * x_batch + token * x_token + head * x_head) * UNIT)[:, None]
        at_gradient = gradient + ((batch * of_batch + token * of_token + head * of_head) * UNIT)[:, None]
        at_result = x_gradient + ((batch * to_batch + token * to_token + head * to_head) * UNIT)[:, None]
        cosine, sine = _load_tables(
            cos, sin, token, 0, batch, start, length, given, axes, given_axis, given_batch, given_token, num_bounds,
            table_batch, table_row, table_column, dtype, FIND, AXES, PAIRS, COLUMNS, TABLE_UNIT,
        )  # fmt: skip
        for i in tl.static_range(REPEATS):
            here = is_token & _are_heads(head_index + i * HEADS, heads, EVEN)
            step = tl.cast(i * HEADS * UNIT, tl.int64)
            one = _load_head(
                at_x + x_head * step, x_channel, here, WIDTH, PAIRS, BLOCKS, PLACEMENT, SPLIT, COLUMNS, REST
            )
            change = _load_head(
                at_gradient + of_head * step, of_channel, here, WIDTH, PAIRS, BLOCKS, PLACEMENT, JOIN, COLUMNS, REST
            )
            factors = None
            if weight is not None:
                factors = _weight_of(
                    weight, token, head_index, here if TOGETHER else is_token, WIDTH, PAIRS, BLOCKS, PLACEMENT,
                    weight_layout, COLUMNS, REST, TOGETHER,
                )  # fmt: skip
            change, of_weight = _gradients(
                one, change, factors, cosine, sine, here, heads, BACK, WIDTH, PAIRS, COLUMNS, REST, NORM_FIRST, EPSILON,
                OFFSET, TOGETHER,
            )  # fmt: skip
            if partial is not None:
                sums = (
                    sums[0] + tl.where(here, of_weight[0], 0.0), sums[1] + tl.where(here, of_weight[1], 0.0),
                    sums[2] + tl.where(here, of_weight[2], 0.0) if REST > 0 else rest,
                )  # fmt: skip
            _store_head(
                at_result + to_head * step, to_channel, here, change, dtype, WIDTH, PAIRS, BLOCKS, PLACEMENT, SPLIT,
                COLUMNS, REST, BY_BITS,
            )  # fmt: skip
    if partial is not None:
        if TOGETHER:  # the rows of all tiles are the heads
            row = tl.arange(0, HEADS)
            to = partial + ((tl.program_id(0).to(tl.int64) * heads + row) * WIDTH)[:, None]
            here = (row < heads)[:, None]
        else:
            to = partial + tl.program_id(0).to(tl.int64) * WIDTH + tl.zeros((1, 1), tl.int64)
            here = tl.full((1, 1), True, tl.int1)
            sums = (tl.sum(sums[0], 0)[None, :], tl.sum(sums[1], 0)[None, :], tl.sum(sums[2], 0)[None, :])
        _store_head(
            to, 1, here, sums, wide, WIDTH, PAIRS, BLOCKS, PLACEMENT, weight_layout, COLUMNS, REST, BY_BITS,
        )  # fmt: skip


def plan_of_forward(both: Any, tables: Any, rows: Rows, spec: RotationSpec, is_in_place: bool = False) -> Plan | None:
    """Return the plan of a launch, as `plan_of`, which a call gives both weights behind the start."""
    plan = _plan_of(both, tables, rows, spec, 8)
    if plan is not None:
        plan.kernel = normalize_rotate_kernel
    return plan


def plan_of_gradient(both: Any, tables: Any, rows: Rows, spec: RotationSpec, is_in_place: bool = False) -> Plan | None:
    """Return the plan of a launch that reads tokens and the gradient of results, both paired with that of the tokens.

    A call gives it in place of the results the gradient of the tokens and the sums of each program, and behind the
    start the weight.
    """
    plan = _plan_of(both, tables, rows, spec, 4)
    if plan is not None:
        tiles = plan.grid[0] // 2  # those of the tokens; the gradient has as many
        plan.kernel, plan.numbers = gradient_kernel, (tiles, *plan.numbers)
        plan.grid = (min(tiles, PARTS if spec.norm.head_axis is None else PARTS_OF_TOKENS), 1, 1)
    return plan


def _plan_of(both: Any, tables: Any, rows: Rows, spec: RotationSpec, at_once: int) -> Plan | None:
    """Return the plan of a launch in which a thread has so many pairs in a tile."""
    norm, (heads, pairs) = spec.norm, (max(x.shape[spec.norm.head_axis or 0] for x, _ in both), tables[0].shape[-1])
    constants = norm.order == "norm_first", norm.epsilon, norm.offset, norm.head_axis is not None
    if norm.head_axis is None:
        plan = plan_of(both, tables, rows, spec, tile_of=partial(_tile_of_heads, at_once))
    else:
        most = 1 << (heads - 1).bit_length()
        tile = Tile(most, most, 1, 1 << (pairs - 1).bit_length())
        threads = max(THREADS, tile.rows * tile.columns // at_once)
        if threads > MOST_THREADS:
            return None
        plan = plan_of(both, tables, rows, spec, tile_of=lambda *sizes: tile, merges_batch=False)
        if plan is not None:
            plan.options = OPTIONS | {"num_warps": OPTIONS["num_warps"] * threads // THREADS}
    if plan is not None:
        plan.numbers = *plan.numbers, *constants
    return plan


def _tile_of_heads(at_once: int, *sizes: Any) -> Tile:
    """Return a tile of few heads of each token, whose rows of tables are read together.

    Args:
        at_once: how many pairs a thread has in a tile; it has eight in all its tiles.
        sizes: the arguments of `tile_of`.
    """
    _, _, pairs, _, num_tokens, num_heads, *_ = sizes
    columns, most = 1 << (pairs - 1).bit_length(), 1 << (num_heads - 1).bit_length()
    rows = max(1, min(at_once, tile_of(*sizes).columns) * THREADS // columns)
    tokens = min(1 << (num_tokens - 1).bit_length(), rows // min(HEADS_AT_ONCE, most, rows))
    heads = min(rows // tokens, most)
    repeats = min(8 * THREADS // (tokens * heads * columns), most // heads) if tokens > 1 else 1
    return Tile(tokens * heads, heads, max(1, repeats), columns)
