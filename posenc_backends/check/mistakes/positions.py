"""Mistakes in the positions that tables are computed at, or looked up at in a cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ..calls import TestCall
from ..candidates import Candidate
from .base import Mistake


def position_mistakes() -> Iterator[Mistake]:
    """Yield the mistakes in positions that a single call shows."""
    for step in (1, -1):
        description = f"positions are {'larger' if step > 0 else 'smaller'} by 1"
        yield Mistake("positions off by one", description, partial(_move, step=step))
    yield Mistake("positions ignored", "positions are counted from 0", partial(_count, first=0))
    yield Mistake("positions ignored", "positions are counted from 1", partial(_count, first=1))
    yield Mistake("positions taken as consecutive", "only the first position is used", _consecutive)
    yield Mistake("positions of the first row", "all rows have the positions of the first", _first_row)
    yield Mistake("positions reversed", "positions are counted from the end", _reverse)
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
        if before.positions.shape[-1] < length or before.num_queries or before.positions.ndim > 1:
            continue
        rows = before.positions[:length]
        if rows.tobytes() in seen or np.array_equal(rows, call.positions):
            continue
        seen.add(rows.tobytes())
        same_shape = before.positions.shape == call.positions.shape
        name = "offset ignored after the first call" if same_shape else "stale cache"
        description = f"the rows are those of an earlier call, of positions {rows[0]} … {rows[-1]}"
        yield Mistake(name, description, partial(at_positions, positions=rows), is_state=True)


def at_positions(candidate: Candidate, positions: Any) -> list[Candidate]:
    """Return the candidate at other positions, which are broadcast to its shape."""
    return [replace(candidate, positions=np.broadcast_to(positions, candidate.positions.shape))]


def _move(candidate: Candidate, step: int) -> list[Candidate]:
    return at_positions(candidate, candidate.positions + step)


def _count(candidate: Candidate, first: int) -> list[Candidate]:
    return at_positions(candidate, np.arange(candidate.positions.shape[-1]) + first)


def _consecutive(candidate: Candidate) -> list[Candidate]:
    return at_positions(candidate, candidate.positions[..., :1] + np.arange(candidate.positions.shape[-1]))


def _first_row(candidate: Candidate) -> list[Candidate]:
    return at_positions(candidate, candidate.positions[:1]) if candidate.positions.ndim > 1 else []


def _reverse(candidate: Candidate) -> list[Candidate]:
    return at_positions(candidate, candidate.positions[..., ::-1])


def _absolute(candidate: Candidate) -> list[Candidate]:
    return at_positions(candidate, np.abs(candidate.positions)) if (candidate.positions < 0).any() else []


def _make_whole(candidate: Candidate, to_integer: Callable[..., Any]) -> list[Candidate]:
    return at_positions(candidate, to_integer(candidate.positions)) if candidate.positions.dtype.kind == "f" else []
