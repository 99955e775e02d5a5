"""Mistakes in the positions that tables are computed at, or looked up at in a cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from posenc_core.analysis.precision import ROUNDED
from posenc_core.encodings import RotaryEncoding

from ..candidates import Candidate, Float64s, Tables
from ..sample_calls import TestCall
from .base import Mistake, at_positions, with_positions

PAST_THE_END = "not rotated past the end of a table"
INTEGERS = {2**7: "8 bits", 2**15: "16 bits"}  # with a sign, by the first number that they lack
MAX_ENDS = 20  # positions in one call at which a table may end


def position_mistakes(num_axes: int = 1) -> Iterator[Mistake]:
    """Yield the mistakes in positions that a single call shows."""
    if num_axes > 1:
        yield Mistake("axes swapped", "the axes of positions are in reverse order", with_positions(lambda at: at[::-1]))
        for axis in range(num_axes):
            description = f"axis {axis} of positions is used for all"
            yield Mistake("one axis for all", description, with_positions(lambda at, axis=axis: at[axis : axis + 1]))
    for step in (1, -1):
        description = f"positions are {'larger' if step > 0 else 'smaller'} by 1"
        yield Mistake("positions off by one", description, with_positions(partial(np.add, step)))
    for first, name in ((0, "positions ignored"), (1, "positions ignored, positions off by one")):
        change = with_positions(lambda at, first=first: np.arange(at.shape[-1]) + first)
        yield Mistake(name, f"positions are counted from {first}", change)
    for index, words in ((0, "first"), (-1, "last")):
        change = partial(_consecutive, index=index)
        yield Mistake("positions taken as consecutive", f"only the {words} position is used", change)
    yield FIRST_ROW
    yield Mistake("positions reversed", "positions are counted from the end", with_positions(lambda at: at[..., ::-1]))
    yield Mistake("sign of positions ignored", "negative positions are treated as positive", _absolute)
    for words, to_integer in (("to the nearest integer", np.rint), ("down", np.floor)):
        change = partial(_make_whole, to_integer=to_integer)
        yield Mistake("positions made whole", f"positions are rounded {words}", change)


def mistakes_of_state(call: TestCall, earlier: list[TestCall]) -> Iterator[Mistake]:
    """Yield the mistakes that earlier calls may have left in a cache."""
    length, seen = call.positions.shape[-1], set()
    if call.num_queries:
        return
    for before in earlier:
        if before.positions.shape[-1] < length or before.num_queries or before.positions.ndim > call.positions.ndim:
            continue
        rows = before.positions[..., :length]
        if rows.tobytes() in seen or np.array_equal(rows, call.positions):
            continue
        seen.add(rows.tobytes())
        is_moved = before.positions.shape == call.positions.shape and before.name != "out of order"
        name = "offset ignored after the first call" if is_moved else "stale cache"
        description = f"the rows are those of an earlier call, of positions {rows.flat[0]} … {rows.flat[-1]}"
        yield Mistake(name, description, partial(at_positions, positions=rows), is_state=True)


def mistakes_at_the_end(call: TestCall, right: list[TestCall]) -> Iterator[Mistake]:
    """Yield the mistakes past the end of a table, wherever it may end; earlier positions are right in other calls."""
    highest = max((int(before.positions.max()) for before in right if not before.num_queries), default=None)
    if highest is None or call.num_queries or call.positions.max() <= highest:
        return
    lengths = list(_table_lengths(highest))
    inside = np.unique(call.positions[call.positions > highest])
    for end in (*inside[: 1 if len(inside) > MAX_ENDS else None], *(end for end in lengths if end in inside)):
        description = f"from position {end} on nothing rotates, as past the end of a table"
        yield Mistake(PAST_THE_END, description, partial(_identity_from, end=int(end)), is_of_the_end=True)
    for length in lengths:
        description = f"positions past {length - 1} are treated as {length - 1}, the end of a table"
        change = with_positions(partial(np.minimum, length - 1))
        yield Mistake("positions clamped", description, change, is_of_the_end=True)
        description = f"positions are counted again from 0 after {length - 1}"
        change = with_positions(lambda at, length=length: at % length)
        yield Mistake("positions wrapped", description, change, is_of_the_end=True)
        if length in INTEGERS:
            description = f"positions are integers of {INTEGERS[length]}: {length} becomes {-length}"
            change = with_positions(lambda at, length=length: (at + length) % (2 * length) - length)
            yield Mistake("positions wrapped", description, change, is_of_the_end=True)


def mistakes_of_growing(call: TestCall, earlier: list[TestCall]) -> Iterator[Mistake]:
    """Yield the mistake of rows that are added to a table and counted from 0, wherever earlier calls ended."""
    if call.num_queries:
        return
    for end in sorted({int(before.positions.max()) + 1 for before in earlier if not before.num_queries}):
        if end <= call.positions.max():
            description = f"the rows from {end} on, by which a table grew, are counted from 0"
            change = with_positions(lambda at, end=end: np.where(at >= end, at - end, at))
            yield Mistake("table grown wrongly", description, change, is_of_the_end=True)


def _table_lengths(highest: int) -> Iterator[int]:
    """Yield the usual lengths of tables above a position that is right."""
    usual = {2**power for power in range(5, 20)} | {1000 * count for count in (1, 2, 4, 5, 8, 10)}
    yield from sorted({length for length in usual | {highest + 1} if length > highest})


def _identity_from(candidate: Candidate, end: int) -> list[Candidate]:
    if not isinstance(candidate.encoding, RotaryEncoding):
        return []
    return [candidate.with_change(partial(_still_from, end=end), of_positions=True)]


def _still_from(positions: Any, cos: Float64s, sin: Float64s, *, end: int) -> Tables:
    """Return tables by which nothing rotates from a position on."""
    still = (positions >= end)[..., None]
    return np.where(still, 1, cos), np.where(still, 0, sin)


def round_positions(candidate: Candidate, dtype: str) -> list[Candidate]:
    """Return the candidate at positions that are rounded to this dtype, unless they are infinite there."""
    rounded = ROUNDED[dtype](candidate.positions).astype(np.float64)
    return at_positions(candidate, rounded) if np.isfinite(rounded).all() else []


def _consecutive(candidate: Candidate, index: int) -> list[Candidate]:
    counted = np.arange(candidate.positions.shape[-1])
    return at_positions(candidate, candidate.positions[..., [index]] + counted - counted[index])


def _first_row(candidate: Candidate) -> list[Candidate]:
    has_axes = candidate.encoding.num_axes > 1
    return at_positions(candidate, candidate.positions[..., :1, :]) if candidate.positions.ndim > 1 + has_axes else []


FIRST_ROW = Mistake("positions of the first row", "all rows have the positions of the first", _first_row)


def _absolute(candidate: Candidate) -> list[Candidate]:
    return at_positions(candidate, np.abs(candidate.positions)) if (candidate.positions < 0).any() else []


def _make_whole(candidate: Candidate, to_integer: Callable[..., Any]) -> list[Candidate]:
    return at_positions(candidate, to_integer(candidate.positions)) if candidate.positions.dtype.kind == "f" else []
