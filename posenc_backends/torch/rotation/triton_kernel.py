"""The kernel for GPUs, in Triton: queries and keys in one launch, at any strides, rows of tables by their positions."""

from __future__ import annotations

import triton
import triton.language as tl


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
def _load_pairs(x, channel, here, begin, WIDTH: tl.constexpr, PAIRS: tl.constexpr, BLOCKS: tl.constexpr,
                PLACEMENT: tl.constexpr, LAYOUT: tl.constexpr, COLUMNS: tl.constexpr):  # fmt: skip
    """Return the first and the second channels of `COLUMNS` pairs from `begin` on, of the head at `x` in each row."""
    if LAYOUT == "interleaved":
        channels, is_channel = _channels_of_both(here, begin, WIDTH, PAIRS, PLACEMENT, COLUMNS)
        both = tl.load(x + channels * channel, mask=is_channel)
        first, second = tl.split(tl.reshape(both, (both.shape[0], COLUMNS, 2)))
    else:
        channels, is_pair = _first_channels(here, begin, WIDTH, PAIRS, BLOCKS, PLACEMENT, COLUMNS)
        apart: tl.constexpr = WIDTH // 2 if PLACEMENT == "spread" else PAIRS // BLOCKS
        first = tl.load(x + channels * channel, mask=is_pair)
        second = tl.load(x + (channels + apart) * channel, mask=is_pair)
    return first, second


@triton.jit
def _store_pairs(out, channel, here, begin, first, second, WIDTH: tl.constexpr, PAIRS: tl.constexpr,
                 BLOCKS: tl.constexpr, PLACEMENT: tl.constexpr, LAYOUT: tl.constexpr,
                 COLUMNS: tl.constexpr):  # fmt: skip
    """Write the first and the second channels of pairs from `begin` on, of the head at `out` in each row."""
    if LAYOUT == "interleaved":
        channels, is_channel = _channels_of_both(here, begin, WIDTH, PAIRS, PLACEMENT, COLUMNS)
        both = tl.reshape(tl.join(first, second), (first.shape[0], 2 * COLUMNS))
        tl.store(out + channels * channel, both, mask=is_channel)
    else:
        channels, is_pair = _first_channels(here, begin, WIDTH, PAIRS, BLOCKS, PLACEMENT, COLUMNS)
        apart: tl.constexpr = WIDTH // 2 if PLACEMENT == "spread" else PAIRS // BLOCKS
        tl.store(out + channels * channel, first, mask=is_pair)
        tl.store(out + (channels + apart) * channel, second, mask=is_pair)


@triton.jit
def _channels_of_both(here, begin, WIDTH: tl.constexpr, PAIRS: tl.constexpr, PLACEMENT: tl.constexpr,
                      COLUMNS: tl.constexpr):  # fmt: skip
    """Return the channels of interleaved pairs, side by side, and where there are any."""
    first: tl.constexpr = WIDTH - 2 * PAIRS if PLACEMENT == "trail" else 0
    number = 2 * begin + tl.arange(0, 2 * COLUMNS)[None, :].to(tl.int64)
    return first + number, here if PAIRS % COLUMNS == 0 else here & (number < 2 * PAIRS)


@triton.jit
def _first_channels(here, begin, WIDTH: tl.constexpr, PAIRS: tl.constexpr, BLOCKS: tl.constexpr,
                    PLACEMENT: tl.constexpr, COLUMNS: tl.constexpr):  # fmt: skip
    """Return the first channels of pairs whose channels lie apart, and where there are any."""
    first: tl.constexpr = WIDTH - 2 * PAIRS if PLACEMENT == "trail" else 0
    pair = begin + tl.arange(0, COLUMNS)[None, :].to(tl.int64)
    is_pair = here if PAIRS % COLUMNS == 0 else here & (pair < PAIRS)
    if BLOCKS > 1:
        size: tl.constexpr = PAIRS // BLOCKS  # of a block, in pairs
        pair += pair // size * size
    return first + pair, is_pair


@triton.jit
def _rest_channels(here, part, WIDTH: tl.constexpr, PAIRS: tl.constexpr, PLACEMENT: tl.constexpr, LAYOUT: tl.constexpr,
                   REST: tl.constexpr):  # fmt: skip
    """Return the channels of no pair that a part of a head has, and where there are any."""
    channel = part * REST + tl.arange(0, REST)[None, :].to(tl.int64)
    is_still = here & (channel < WIDTH - 2 * PAIRS)
    if PLACEMENT == "lead" or (PLACEMENT == "spread" and LAYOUT == "interleaved"):
        channel += 2 * PAIRS
    elif PLACEMENT == "spread":
        channel += tl.where(channel < WIDTH // 2 - PAIRS, PAIRS, 2 * PAIRS)
    return channel, is_still


@triton.jit
def _packed_positions(token, bounds, bound, num_bounds):
    """Return the distance of each token from the last bound that is not behind it; 0 behind the last of all."""
    low, high = tl.zeros_like(token), tl.zeros_like(token) + num_bounds
    span = num_bounds
    while span > 0:  # the last bound at or before a token lies in [low, high), if there is one
        middle = (low + high) // 2
        begin = tl.load(bounds + middle * bound, mask=middle < num_bounds, other=0).to(tl.int64)
        searching = low < high
        behind = searching & (begin <= token)
        high = tl.where(searching & (begin > token), middle, high)
        low = tl.where(behind, middle + 1, low)
        span = span // 2
    begin = tl.load(bounds + (low - 1) * bound, mask=low > 0, other=0).to(tl.int64)
    position = tl.where(low > 0, token - begin, -1)
    return tl.where(low == num_bounds, 0, position)


@triton.jit
def _load_tables(cos, sin, token, begin, batch, start, length, given, axes, given_axis, given_batch, given_token,
                 num_bounds, table_batch, table_row, table_column, dtype: tl.constexpr, FIND: tl.constexpr,
                 AXES: tl.constexpr, PAIRS: tl.constexpr, COLUMNS: tl.constexpr, TABLE_UNIT: tl.constexpr):  # fmt: skip
    """Return the cosines and sines that rotate tokens, as wide as these are rotated; NaN where the tables have none.

    With several axes the rows of all are read, 16 bytes at a time: each pair by itself would take longer.
    """
    column = begin + tl.arange(0, COLUMNS)[None, :].to(tl.int64) + token[:, None] * 0  # as tokens lie in threads
    is_pair = tl.full(column.shape, True, tl.int1) if PAIRS % COLUMNS == 0 else column < PAIRS
    if FIND == "rows":
        place = start + token
    elif FIND == "starts":
        place = tl.load(given + batch * given_batch).to(tl.int64) + token
    elif FIND == "packed":
        place = _packed_positions(token, given, given_token, num_bounds)
    else:
        place = tl.load(given + batch * given_batch + token * given_token).to(tl.int64)
    cosine, sine = _load_rows(cos, sin, is_pair, place, column, length, batch * table_batch, table_row, table_column,
                              dtype, FIND == "rows", TABLE_UNIT)  # fmt: skip
    if AXES > 1:
        axis = tl.load(axes + column, mask=is_pair, other=0).to(tl.int8)
        for i in tl.static_range(1, AXES):
            at = given + tl.cast(given_axis, tl.int64) * i + batch * given_batch + token * given_token
            place = tl.load(at).to(tl.int64)
            of_cos, of_sin = _load_rows(cos, sin, is_pair, place, column, length, batch * table_batch, table_row,
                                        table_column, dtype, False, TABLE_UNIT)  # fmt: skip
            cosine, sine = tl.where(axis == i, of_cos, cosine), tl.where(axis == i, of_sin, sine)
    return cosine, sine


@triton.jit
def _load_rows(cos, sin, is_pair, place, column, length, batch, table_row, table_column, dtype: tl.constexpr,
               ARE_THERE: tl.constexpr, TABLE_UNIT: tl.constexpr):  # fmt: skip
    """Return rows of both tables, as wide as tokens are rotated; NaN where they have none."""
    place = place[:, None]
    at = (batch + place * table_row) * TABLE_UNIT + column * table_column
    is_row = is_pair if ARE_THERE else is_pair & (place >= 0) & (place < length)
    wide: tl.constexpr = tl.float64 if dtype == tl.float64 else tl.float32
    cosine = tl.load(cos + at, mask=is_row, other=float("nan"))
    sine = tl.load(sin + at, mask=is_row, other=float("nan"))
    return _wide(cosine).to(wide), _wide(sine).to(wide)


INTEGERS = [
    "start", "q_heads", "k_heads", "tokens", "length", "num_bounds",
    *(f"{x}_{axis}" for x in ("q", "q_out", "k", "k_out") for axis in ("batch", "head", "token")),
    "table_batch", "table_row", "given_axis", "given_batch", "given_token",
]  # fmt: skip


@triton.jit
def _tiles(count, SIZE: tl.constexpr):
    """Return how many tiles of a size there are; to divide unsigned numbers takes half as many instructions."""
    return tl.cdiv(tl.cast(count, tl.uint32), SIZE)


@triton.jit
def _tile(program, q_heads, k_heads, tokens, BOTH: tl.constexpr, HAS_BATCH: tl.constexpr, BY_HEAD: tl.constexpr,
          PAIRS: tl.constexpr, ROWS: tl.constexpr, HEADS: tl.constexpr, REPEATS: tl.constexpr,
          COLUMNS: tl.constexpr):  # fmt: skip
    """Return a program's batch row, whether its heads are of `k`, and of each row a token, if there is one, head, part.

    Programs behind each other have memory side by side: further heads of the same tokens, or `BY_HEAD` further tokens.
    Rows behind the last token have its number, so that they read memory that is there.
    """
    parts: tl.constexpr = (PAIRS + COLUMNS - 1) // COLUMNS
    q_tiles, k_tiles = _tiles(q_heads, HEADS * REPEATS), _tiles(k_heads, HEADS * REPEATS) if BOTH else 0
    token_tiles, head_tiles = _tiles(tl.cast(tokens, tl.uint32) * (HEADS * parts), ROWS), q_tiles + k_tiles
    inner, outer = token_tiles if BY_HEAD else head_tiles, head_tiles if BY_HEAD else token_tiles
    program = tl.cast(program, tl.uint32)
    inner_tile, outer_tile = program % inner, program // inner
    batch = tl.full((), 0, tl.int64)
    if HAS_BATCH:
        batch, outer_tile = (outer_tile // outer).to(tl.int64), outer_tile % outer
    head_tile, token_tile = outer_tile if BY_HEAD else inner_tile, inner_tile if BY_HEAD else outer_tile
    is_k = head_tile >= q_tiles
    if BOTH:
        head_tile = tl.where(is_k, head_tile - q_tiles, head_tile)
    row = token_tile * ROWS + tl.arange(0, ROWS).to(tl.uint32)
    token_index, head_index = row // (HEADS * parts), head_tile * (HEADS * REPEATS) + row // parts % HEADS
    token, part = tl.minimum(token_index.to(tl.int32), tokens - 1).to(tl.int64), (row % parts).to(tl.int64)[:, None]
    return batch, is_k, token, (token_index < tokens)[:, None], head_index.to(tl.int32), part


@triton.jit
def _are_heads(head_index, heads, EVEN: tl.constexpr):
    """Return where there are heads of these indices, `(rows, 1)`."""
    return (tl.full(head_index.shape, True, tl.int1) if EVEN else head_index < heads)[:, None]


@triton.jit
def _turn(first, second, cosine, sine, BACK: tl.constexpr):
    """Return both channels of pairs rotated, or `BACK`."""
    if BACK:
        return first * cosine + second * sine, second * cosine - first * sine
    else:
        return first * cosine - second * sine, second * cosine + first * sine


@triton.jit
def _find_tokens(
    q, q_out, k, k_out, q_heads, k_heads, tokens,
    q_batch, q_head, q_token, q_out_batch, q_out_head, q_out_token,
    k_batch, k_head, k_token, k_out_batch, k_out_head, k_out_token,
    q_channel, q_out_channel, k_channel, k_out_channel,
    BOTH: tl.constexpr, HAS_BATCH: tl.constexpr, BY_HEAD: tl.constexpr, PAIRS: tl.constexpr, ROWS: tl.constexpr,
    HEADS: tl.constexpr, REPEATS: tl.constexpr, COLUMNS: tl.constexpr, UNIT: tl.constexpr,
):  # fmt: skip
    """Return which tokens and heads of `q` or `k` this program has, and where their rows and their results begin."""
    batch, is_k, token, is_token, head_index, part = _tile(
        tl.program_id(0), q_heads, k_heads, tokens, BOTH, HAS_BATCH, BY_HEAD, PAIRS, ROWS, HEADS, REPEATS, COLUMNS
    )
    x, out, heads, x_batch, x_head, x_token = q, q_out, q_heads, q_batch, q_head, q_token
    out_batch, out_head, out_token, x_channel, out_channel = (
        q_out_batch,
        q_out_head,
        q_out_token,
        q_channel,
        q_out_channel,
    )
    if BOTH:
        x, out, heads = tl.where(is_k, k, x), tl.where(is_k, k_out, out), tl.where(is_k, k_heads, heads)
        x_batch, x_head, x_token = (
            tl.where(is_k, k_batch, x_batch), tl.where(is_k, k_head, x_head), tl.where(is_k, k_token, x_token)
        )  # fmt: skip
        out_batch, out_head, out_token = (
            tl.where(is_k, k_out_batch, out_batch), tl.where(is_k, k_out_head, out_head),
            tl.where(is_k, k_out_token, out_token),
        )  # fmt: skip
        x_channel, out_channel = tl.where(is_k, k_channel, x_channel), tl.where(is_k, k_out_channel, out_channel)
    head = head_index.to(tl.int64)
    x += ((batch * x_batch + token * x_token + head * x_head) * UNIT)[:, None]
    out += ((batch * out_batch + token * out_token + head * out_head) * UNIT)[:, None]
    return batch, token, is_token, is_k, head_index, heads, part, x, out, x_head, out_head, x_channel, out_channel


@triton.jit(do_not_specialize=INTEGERS)
def rotate_kernel(
    q, q_out, k, k_out, cos, sin, given, axes, start, q_heads, k_heads, tokens, length, num_bounds,
    q_batch, q_head, q_token, q_out_batch, q_out_head, q_out_token,
    k_batch, k_head, k_token, k_out_batch, k_out_head, k_out_token,
    table_batch, table_row, given_axis, given_batch, given_token,
    q_channel, q_out_channel, k_channel, k_out_channel, table_column,
    FIND: tl.constexpr, AXES: tl.constexpr, BACK: tl.constexpr, BOTH: tl.constexpr, HAS_BATCH: tl.constexpr,
    BY_HEAD: tl.constexpr, EVEN: tl.constexpr, WIDTH: tl.constexpr, PAIRS: tl.constexpr, BLOCKS: tl.constexpr,
    PLACEMENT: tl.constexpr, SPLIT: tl.constexpr, JOIN: tl.constexpr, ROWS: tl.constexpr, HEADS: tl.constexpr,
    REPEATS: tl.constexpr, COLUMNS: tl.constexpr, REST: tl.constexpr, UNIT: tl.constexpr, TABLE_UNIT: tl.constexpr,
    BY_BITS: tl.constexpr,
):  # fmt: skip
    """Rotate some heads of some tokens of one batch row: of `q`, or in the last programs of these tokens of `k`.

    A row of a tile is a part of a head of a token: what a thread accesses at once, so that no thread is idle, whatever
    the width. A program rotates `REPEATS` tiles of further heads by the same rows of the
    tables. It reads all tokens before these, so that the device waits for memory once, and no tile changes its layout
    between threads, which would go through shared memory. Strides are counted in units, powers of two that divide
    all of them, so that wide accesses are known to be aligned. All indices have 64 bits before they are multiplied by
    strides, since tensors have more than 2**31 elements.
    """
    batch, token, is_token, _, head_index, heads, part, x, out, x_head, out_head, x_channel, out_channel = _find_tokens(
        q, q_out, k, k_out, q_heads, k_heads, tokens,
        q_batch, q_head, q_token, q_out_batch, q_out_head, q_out_token,
        k_batch, k_head, k_token, k_out_batch, k_out_head, k_out_token,
        q_channel, q_out_channel, k_channel, k_out_channel, BOTH, HAS_BATCH, BY_HEAD, PAIRS, ROWS, HEADS,
        REPEATS, COLUMNS, UNIT,
    )  # fmt: skip
    begin = part * COLUMNS
    pairs = ()
    for i in tl.static_range(REPEATS):
        here = _are_heads(head_index + i * HEADS, heads, EVEN)
        at = x + tl.cast(x_head, tl.int64) * (i * HEADS * UNIT)
        both = _load_pairs(at, x_channel, here, begin, WIDTH, PAIRS, BLOCKS, PLACEMENT, SPLIT, COLUMNS)
        pairs += (both,)  # type: ignore[assignment]
    dtype: tl.constexpr = q.dtype.element_ty
    cosine, sine = _load_tables(
        cos, sin, token, begin, batch, start, length, given, axes, given_axis, given_batch, given_token, num_bounds,
        table_batch, table_row, table_column, dtype, FIND, AXES, PAIRS, COLUMNS, TABLE_UNIT,
    )  # fmt: skip
    for i in tl.static_range(REPEATS):
        here = is_token & _are_heads(head_index + i * HEADS, heads, EVEN)
        at = x + tl.cast(x_head, tl.int64) * (i * HEADS * UNIT)
        to = out + tl.cast(out_head, tl.int64) * (i * HEADS * UNIT)
        first, second = _turn(_wide(pairs[i][0]), _wide(pairs[i][1]), cosine, sine, BACK)
        to_first, to_second = _rounded(first, dtype, BY_BITS), _rounded(second, dtype, BY_BITS)
        _store_pairs(to, out_channel, here, begin, to_first, to_second, WIDTH, PAIRS, BLOCKS, PLACEMENT, JOIN, COLUMNS)
        if REST > 0:
            channel, is_still = _rest_channels(here, part, WIDTH, PAIRS, PLACEMENT, SPLIT, REST)
            tl.store(to + channel * out_channel, tl.load(at + channel * x_channel, mask=is_still), mask=is_still)


IS_INTERPRETED = not isinstance(rotate_kernel, triton.JITFunction)  # TRITON_INTERPRET=1 when it was imported
