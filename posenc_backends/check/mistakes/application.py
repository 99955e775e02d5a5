"""Mistakes in how tables are applied: to other channels, twice, or to a part of the batch or of the heads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from posenc_core.rotation import channel_pairs

from ..candidates import Apply, Candidate, Float64s, Outcome, Tables, apply_tables
from .base import Mistake


def application_mistakes(layout: str) -> Iterator[Mistake]:
    """Yield the mistakes in the application of right tables, of an encoding of this layout."""
    for columns in ("half", "interleaved"):
        description = f"columns of cosine and sine are those of layout {columns!r}, but pairs are of the other layout"
        name = "table and rotation of different layouts"
        name = f"{name}, layout swapped" if columns == layout else name
        yield Mistake(name, description, partial(_mix_layouts, columns=columns))
    yield Mistake("rotated twice", "the result is rotated a second time", _twice)
    description = "with one token, only the first row of the batch is rotated"
    for others, kept in (("unchanged", True), ("0", False)):
        outcome = partial(_one_of, axis=0, is_kept=kept)
        name = "only the first row of the batch"
        yield Mistake(name, f"{description}, others are {others}", partial(_for_one_token, outcome=outcome))
        yield Mistake(name, f"only the first row of the batch is rotated, others are {others}", _with(outcome))
    yield Mistake("only the first head", "other heads are unchanged", _with(partial(_one_of, axis=1, is_kept=True)))


def mistakes_of_views() -> Iterator[Mistake]:
    """Yield the mistake of a function that reads a view as if it were contiguous."""
    description = "the tokens are read in the order of memory, as if the view had no strides of its own"
    yield Mistake("strides ignored", description, _in_memory_order)


def _in_memory_order(candidate: Candidate) -> list[Candidate]:
    return [] if candidate.apply is not None else [replace(candidate, apply=_apply_in_memory_order)]


def _apply_in_memory_order(x: Float64s, cos: Float64s, sin: Float64s, encoding: Any) -> Float64s:
    read = np.ascontiguousarray(x.swapaxes(1, 2)).reshape(x.shape)
    return apply_tables(read, cos, sin, encoding)


def _with(outcome: Outcome) -> Callable[[Candidate], list[Candidate]]:
    return lambda candidate: [replace(candidate, outcomes=(*candidate.outcomes, outcome))]


def _for_one_token(candidate: Candidate, outcome: Outcome) -> list[Candidate]:
    return _with(outcome)(candidate) if candidate.positions.shape[-1] == 1 else []


def _one_of(x: Float64s, rotated: Float64s, *, axis: int, is_kept: bool) -> Float64s:
    """Return the rotation of index 0 on this axis; elsewhere the input, or 0."""
    result = x.copy() if is_kept else np.zeros_like(x)
    first = (slice(None),) * axis + (slice(1),)
    result[first] = rotated[first]
    return result


def _twice(candidate: Candidate) -> list[Candidate]:
    """Return the rotation by twice the angle, or if tables are applied in another way, that applied twice."""
    if candidate.apply is None:
        return [candidate.with_change(_double)]
    return [replace(candidate, apply=partial(_apply_twice, apply=candidate.apply))]


def _apply_twice(x: Float64s, cos: Float64s, sin: Float64s, encoding: Any, *, apply: Apply) -> Float64s:
    return apply(apply(x, cos, sin, encoding), cos, sin, encoding)


def _double(cos: Any, sin: Any) -> Tables:
    return cos * cos - sin * sin, 2 * sin * cos


def _mix_layouts(candidate: Candidate, columns: str) -> list[Candidate]:
    """Return the rotation of adjacent pairs with columns (c0, c1, …, c0, c1, …), or of halves with (c0, c0, c1, …)."""
    if candidate.apply is not None:
        return []
    layout = "interleaved" if columns == "half" else "half"
    mixed = candidate if candidate.encoding.layout == layout else candidate.with_fields(layout=layout)  # type: ignore[attr-defined]
    return [replace(mixed, apply=partial(_apply_mixed, columns=columns))]


def _apply_mixed(x: Float64s, cos: Float64s, sin: Float64s, encoding: Any, *, columns: str) -> Float64s:
    pairs = cos.shape[-1]
    spread = [
        np.concatenate([table, table], axis=-1) if columns == "half" else np.repeat(table, 2, axis=-1)
        for table in (cos, sin)
    ]
    pairing, result = encoding.pairing, x.copy()
    first, second = channel_pairs(encoding.head_dim, pairs, pairing, pairing.split)
    interleaved = pairing.split == "interleaved"
    columns_of = (slice(0, None, 2), slice(1, None, 2)) if interleaved else (slice(pairs), slice(pairs, None))
    (cos_first, cos_second), (sin_first, sin_second) = ([table[..., part] for part in columns_of] for table in spread)
    result[..., first] = x[..., first] * cos_first - x[..., second] * sin_first
    result[..., second] = x[..., second] * cos_second + x[..., first] * sin_second
    return result
