"""Buckets: rows of a learned table that pairs of positions share, computed with integers alone, once, on the host."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from .._array_api.checks import check_integer, check_known, shown
from .._array_api.namespace import Array, difference, namespace_of, paired, take_nd
from .relative import Positions

MOST_BUCKETS = 2**12  # whose borders, by powers of integers, take some seconds
FARTHEST = 2**24  # distance: the index of all offsets has 128 MiB
MOST_TOKENS = 2**13  # of a window: the index of all pairs has 256 MiB
Integers = npt.NDArray[np.int32]


def t5_buckets(num_buckets: int, max_distance: int, *, sides: str = "both") -> Integers:
    """Return the bucket of each offset (key - query) from `-max_distance` to `max_distance`, where the last ones begin.

    The first half of the buckets of a side have one distance each, each later one has more than the one before.
    Frameworks that compute the borders by logarithms in float32 do not agree; integers are compared here.

    Args:
        num_buckets: number of buckets; where both sides have some, half of them are for keys after the query.
        max_distance: the distance from which on all share a bucket.
        sides: `"past"` has keys after a query in the bucket of distance 0.
    Returns:
        Array of shape `(2 * max_distance + 1,)`.
    Raises:
        TypeError, ValueError: as in `T5Bias`.
    Source: Raffel et al. 2020, section 2.1 (arXiv:1910.10683); `_relative_position_bucket` of their repository.

    >>> t5_buckets(8, 8)
    array([3, 3, 3, 3, 3, 2, 2, 1, 0, 5, 6, 6, 7, 7, 7, 7, 7], dtype=int32)
    """
    num_buckets, max_distance = check_buckets(num_buckets, max_distance, sides)
    return t5_buckets_checked(num_buckets, max_distance, sides)


def t5_buckets_checked(num_buckets: int, max_distance: int, sides: str) -> Integers:
    """Return `t5_buckets` of checked arguments."""
    per_side = num_buckets // 2 if sides == "both" else num_buckets
    away = np.searchsorted(_starts(per_side, max_distance), np.arange(1, max_distance + 1), side="right")
    after = away + per_side if sides == "both" else np.zeros_like(away)
    return np.concatenate([away[::-1], [0], after]).astype(np.int32)


def check_buckets(num_buckets: int, max_distance: int, sides: str) -> tuple[int, int]:
    """Return both as int; raise unless each bucket has distances of its own."""
    num_buckets = check_integer("num_buckets", num_buckets, minimum=2, maximum=MOST_BUCKETS)
    max_distance = check_integer("max_distance", max_distance, maximum=FARTHEST)
    check_known("sides", sides, ("both", "past"))
    if sides == "both" and num_buckets % 2:
        raise ValueError(
            f"`num_buckets` must be even where both sides have some, got {num_buckets}; add one, or "
            "choose `sides='past'`."
        )
    single = num_buckets // (4 if sides == "both" else 2)
    if max_distance <= single:
        raise ValueError(
            f"`max_distance` must be greater than {single}, up to which each distance has one of the "
            f"{num_buckets} buckets of its own, got {max_distance}."
        )
    return num_buckets, max_distance


def _starts(per_side: int, max_distance: int) -> list[int]:
    """Return the distances at which the buckets after the first begin."""
    single = per_side // 2
    shared = per_side - single
    starts = list(range(1, single + 1))
    for step in range(1, shared):
        starts.append(_first(step, shared, single, max_distance))
    return starts


def _first(step: int, shared: int, single: int, max_distance: int) -> int:
    """Return the least n with log(n / single) / log(max_distance / single) >= step / shared, by comparing powers."""
    wanted = max_distance**step * single ** (shared - step)
    below, first = 0, max_distance
    while first - below > 1:
        middle = (below + first) // 2
        below, first = (below, middle) if middle**shared >= wanted else (middle, first)
    return first


def log_buckets(num_buckets: int, max_distance: int) -> Integers:
    """Return DeBERTa's bucket of each distance from 0 to `max_distance`; all larger ones have the last.

    Distances up to half of `num_buckets` have one bucket each, later buckets have more than the one before. Integers
    are compared, as in `t5_buckets`.

    Args:
        num_buckets: number of buckets of a side, even.
        max_distance: the first distance of the last bucket.
    Returns:
        Array of shape `(max_distance + 1,)`, ascending from 0 to `num_buckets`.
    Raises:
        TypeError, ValueError: as in `DebertaBias`.
    Source: He et al. 2023, DeBERTa v3 (arXiv:2111.09543), and `make_log_bucket_position` of their repository.

    >>> log_buckets(4, 6)
    array([0, 1, 2, 3, 3, 3, 4], dtype=int32)
    """
    num_buckets, max_distance = check_log_buckets(num_buckets, max_distance)
    return log_buckets_checked(num_buckets, max_distance)


def log_buckets_checked(num_buckets: int, max_distance: int) -> Integers:
    """Return `log_buckets` of checked arguments."""
    half, last = num_buckets // 2, max_distance - 1
    # bucket half + t ends at the largest distance d with (d / half) ** (half - 1) <= (last / half) ** t
    ends = [*range(half)] + [_largest_root(last**t * half ** (half - 1 - t), half - 1) for t in range(half)]
    return np.searchsorted(ends, np.arange(max_distance + 1), side="left").astype(np.int32)


def check_log_buckets(num_buckets: int, max_distance: int) -> tuple[int, int]:
    """Return both as int; raise unless there are long distances to share buckets."""
    num_buckets = check_integer("num_buckets", num_buckets, minimum=4, maximum=MOST_BUCKETS)
    max_distance = check_integer("max_distance", max_distance, maximum=FARTHEST)
    if num_buckets % 2:
        raise ValueError(f"`num_buckets` must be even, got {num_buckets}; add one.")
    if max_distance < num_buckets:
        raise ValueError(
            f"`max_distance` must be at least `num_buckets` {num_buckets}, got {max_distance}; leave `num_buckets` out."
        )
    return num_buckets, max_distance


def _largest_root(power: int, exponent: int) -> int:
    """Return the largest integer whose power with this exponent is at most `power`."""
    low, high = 0, 1 << (power.bit_length() // exponent + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if middle**exponent <= power else (low, middle)
    return low


def window_index(height: int, width: int, *, prefix_tokens: int = 0) -> Integers:
    """Return the row of a table for each query and key of a window, whose cells are numbered row by row.

    Args:
        height, width: of the window, in tokens.
        prefix_tokens: 1 where a class token stands before them; it has three more rows: for its scores with the cells,
            for theirs with it, and for its score with itself.
    Returns:
        Array of shape `(tokens, tokens)`. The `(2 * height - 1) * (2 * width - 1)` rows are in the order of the cell
        of the query less that of the key, row by row from the most negative.
    Raises:
        TypeError, ValueError: as in `SwinBias`.
    Source: Liu et al. 2021, section 3.2 (arXiv:2103.14030); Bao et al. 2022 (arXiv:2106.08254) for the class token.

    >>> window_index(1, 3)
    array([[2, 1, 0],
           [3, 2, 1],
           [4, 3, 2]], dtype=int32)
    """
    height, width = check_integer("height", height), check_integer("width", width)
    prefix_tokens = check_integer("prefix_tokens", prefix_tokens, minimum=0, maximum=1)
    check_window("`height` × `width`", height, width)
    return window_index_checked(height, width, prefix_tokens)


def window_index_checked(height: int, width: int, prefix_tokens: int = 0) -> Integers:
    """Return `window_index` of a checked window."""
    rows, columns = np.indices((height, width)).reshape(2, -1)
    down, right = (cells[:, None] - cells for cells in (rows, columns))
    between = (down + height - 1) * (2 * width - 1) + right + width - 1
    index = np.pad(between, ((prefix_tokens, 0), (prefix_tokens, 0)))
    own = (2 * height - 1) * (2 * width - 1)
    index[:prefix_tokens], index[:, :prefix_tokens] = own, own + 1
    index[:prefix_tokens, :prefix_tokens] = own + 2
    return index.astype(np.int32)


def check_window_sizes(name: str, window: object) -> None:
    """Raise unless a window, the argument `name`, is a height and a width in tokens, and `check_window` takes it."""
    if not (isinstance(window, tuple) and len(window) == 2):
        raise ValueError(f"`{name}` must be a height and a width, got {shown(window)}.")
    for size in window:
        check_integer(name, size)
    check_window(f"`{name}`", *window)


def check_window(name: str, height: int, width: int) -> None:
    """Raise if a window, which is called `name`, has more tokens than an index of pairs can have."""
    if height * width > MOST_TOKENS:
        raise ValueError(f"{name} must have at most {MOST_TOKENS} tokens, got {shown((height, width))}.")


def index_by_offset(index: Array, query_positions: Array, key_positions: Array, *, reach: int) -> Array:
    """Return the entry of an index for the offset (key less query) of each query and key; its ends for larger offsets.

    Args:
        index: integers for the offsets from `-reach` to `reach`, shape `(2 * reach + 1,)`.
        query_positions: shape `(queries,)` or `(batch, queries)`.
        key_positions: shape `(keys,)` or `(batch, keys)`.
    Returns:
        Integers, shape `(queries, keys)`, or `(batch, queries, keys)`.

    >>> index_by_offset(np.array([7, 8, 9]), np.array([0, 5]), np.array([0, 1]), reach=1)
    array([[8, 9],
           [7, 7]])
    """
    return take_nd(index, offset_row(*paired(query_positions, key_positions), reach=reach), axis=0)


def offset_row(query: Array, key: Array, *, reach: int) -> Array:
    """Return the place of offsets (key less query) from `-reach` to `reach`, counted from 0; elementwise."""
    xp = namespace_of(query)
    return xp.astype(difference(key, query, limit=reach), xp.int32) + reach


def index_by_pair(index: Array, query_positions: Positions, key_positions: Positions, *, tokens: int) -> Array:
    """Return the entry of an index for each query and key, by their numbers; its border for other numbers.

    Args:
        index: integers for the tokens from -1 to `tokens`, queries × keys, flat, shape `((tokens + 2) ** 2,)`.
        query_positions: shape `(queries,)` or `(batch, queries)`, or a range of step 1 of those tokens.
        key_positions: shape `(keys,)` or `(batch, keys)`, or such a range where queries are one.
    Returns:
        Integers, shape `(queries, keys)`, or `(batch, queries, keys)`.

    >>> index_by_pair(np.array([9, 9, 9, 9, 0, 9, 9, 9, 9]), np.array([0, 1]), np.array([0]), tokens=1)
    array([[0],
           [9]])
    """
    if isinstance(query_positions, range) and isinstance(key_positions, range):
        square: Array = namespace_of(index).reshape(index, (tokens + 2, tokens + 2))
        queries, keys = (slice(at.start + 1, at.stop + 1) for at in (query_positions, key_positions))
        return square[queries, keys]
    both = paired(query_positions, key_positions)  # type: ignore[arg-type] # both are arrays
    return take_nd(index, pair_row(*both, tokens=tokens), axis=0)


def pair_row(query: Array, key: Array, *, tokens: int) -> Array:
    """Return the place of pairs of tokens in the flat index of `index_by_pair`; elementwise."""
    return bordered(query, tokens) * (tokens + 2) + bordered(key, tokens)


def bordered(positions: Array, tokens: int) -> Array:
    """Return token numbers counted from 1; 0 and `tokens + 1` for others."""
    xp = namespace_of(positions)
    last = xp.full_like(positions, tokens + 1)
    return xp.astype(xp.minimum(xp.maximum(positions + 1, xp.zeros_like(positions)), last), xp.int32)


def gather_by_head(table: Array, index: Array) -> Array:
    """Gather rows of a table that has a column for each head.

    `(rows, heads) x (..., queries, keys) -> (..., heads, queries, keys)`. The table is transposed, not the result, of
    which there is one copy.

    >>> gather_by_head(np.array([[0, 5], [1, 6]]), np.array([[1, 1, 0]]))
    array([[[1, 1, 0]],
    <BLANKLINE>
           [[6, 6, 5]]])
    """
    xp = namespace_of(table)
    by_head = take_nd(xp.matrix_transpose(table), index, axis=1)
    return xp.permute_dims(by_head, (1, 0, 2, 3)) if len(getattr(by_head, "shape", ())) == 4 else by_head


def gather_by_pair(
    table: Array, index: Array, query_positions: Positions, key_positions: Positions, *, tokens: int
) -> Array:
    """Gather rows of a table, of a column for each head, by an index of pairs of tokens; NaN for other numbers.

    Arguments as in `index_by_pair` and `gather_by_head`; in ranges, all numbers are those of tokens.
    """
    rows = index_by_pair(index, query_positions, key_positions, tokens=tokens)
    if not isinstance(query_positions, range):
        xp = namespace_of(table)
        outside = xp.full_like(xp.sum(table, axis=0, keepdims=True), math.nan)
        table = xp.concat([table, outside], axis=0)
    return gather_by_head(table, rows)
