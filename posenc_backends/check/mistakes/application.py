"""Mistakes in how tables are applied: to other channels, twice, or to a part of the batch or of the heads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from posenc_core.analysis.precision import ROUNDED
from posenc_core.rotation import channel_pairs

from ..candidates import Apply, Candidate, Float64s, Outcome, apply_tables
from .base import Change, Mistake, combine, with_outcome

NUDGE = 2.0**-22  # twice the error of a rotation in float32


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
        yield Mistake(name, f"only the first row of the batch is rotated, others are {others}", with_outcome(outcome))
    yield Mistake(
        "only the first head", "other heads are unchanged", with_outcome(partial(_one_of, axis=1, is_kept=True))
    )
    for words, row, only_odd in (("the last token of an odd length", -1, True), ("the first token", 0, False)):
        change = partial(_all_but_one_token, row=row, only_odd=only_odd)
        yield Mistake("one token not rotated", f"{words} is unchanged", change)
    description = "both products with the sine are added, so that lengths of pairs change"
    yield Mistake("minus sign missing", description, _applied(partial(_products, minus=1)))
    for words, later in (("first", 1), ("second", 0)):
        description = f"the {words} channel of a pair is overwritten before the other is computed from it"
        yield Mistake("overwritten before it is read", description, _applied(partial(_apply_in_place, later=later)))
    description = "each head is rotated by its number, as if the axis of heads were that of positions"
    yield Mistake("heads taken for positions", description, _applied(_apply_by_head))
    description = "heads and positions are mixed up by a reshape that should be a transpose"
    yield Mistake("axes mixed up by a reshape", description, _applied(_apply_reshaped), needs_all_rows=True)
    for dtype in ("bfloat16", "float16"):
        description = f"tokens are rounded to {dtype} before they are rotated"
        tokens = Mistake(f"{dtype} tokens", description, _applied(partial(_apply_rounded, dtype=dtype)))
        results = Mistake(f"{dtype} results", f"results are rounded to {dtype}", partial(_round_results, dtype=dtype))
        yield from (tokens, results, combine(tokens, results))


def mistakes_of_views() -> Iterator[Mistake]:
    """Yield the mistake of a function that reads a view as if it were contiguous."""
    description = "the tokens are read in the order of memory, as if the view had no strides of its own"
    yield Mistake("strides ignored", description, _in_memory_order)


def _in_memory_order(candidate: Candidate) -> list[Candidate]:
    return [] if candidate.apply is not None else [replace(candidate, apply=_apply_in_memory_order)]


def _apply_in_memory_order(x: Float64s, cos: Float64s, sin: Float64s, encoding: Any) -> Float64s:
    return apply_tables(np.ascontiguousarray(x.swapaxes(1, 2)).reshape(x.shape), cos, sin, encoding)


def _for_one_token(candidate: Candidate, outcome: Outcome) -> Iterable[Candidate]:
    return with_outcome(outcome)(candidate) if candidate.positions.shape[-1] == 1 else []


def _one_of(x: Float64s, rotated: Float64s, *, axis: int, is_kept: bool) -> Float64s:
    """Return the rotation of index 0 on this axis; elsewhere the input, or 0."""
    result = x.copy() if is_kept else np.zeros_like(x)
    first = (slice(None),) * axis + (slice(1),)
    result[first] = rotated[first]
    return result


def _all_but_one_token(candidate: Candidate, row: int, *, only_odd: bool) -> Iterable[Candidate]:
    if only_odd and candidate.positions.shape[-1] % 2 == 0:
        return []
    return with_outcome(partial(_all_but, row=row))(candidate)


def _all_but(x: Float64s, rotated: Float64s, *, row: int) -> Float64s:
    result = rotated.copy()
    result[..., row, :] = x[..., row, :]
    return result


def _applied(apply: Apply) -> Change:
    return lambda candidate: [replace(candidate, apply=apply)] if candidate.apply is None else []


def _products(x: Float64s, cos: Float64s, sin: Float64s, encoding: Any, minus: int) -> Float64s:
    """Return the rotation, with this factor of the second product of the first channels."""
    pairs, pairing, result = cos.shape[-1], encoding.pairing, x.copy()
    first, second = channel_pairs(encoding.head_dim, pairs, pairing, pairing.split)
    own, other = channel_pairs(encoding.head_dim, pairs, pairing, pairing.join)
    result[..., own] = x[..., first] * cos + minus * x[..., second] * sin
    result[..., other] = x[..., second] * cos + x[..., first] * sin
    return result


def _apply_in_place(x: Float64s, cos: Float64s, sin: Float64s, encoding: Any, *, later: int) -> Float64s:
    """Return the rotation whose later channel is computed from the earlier one after that was rotated."""
    result = _products(x, cos, sin, encoding, -1)
    first, second = channel_pairs(encoding.head_dim, cos.shape[-1], encoding.pairing, encoding.pairing.split)
    if later:
        result[..., second] = x[..., second] * cos + result[..., first] * sin
    else:
        result[..., first] = x[..., first] * cos - result[..., second] * sin
    return result


def _apply_by_head(x: Float64s, cos: Float64s, sin: Float64s, encoding: Any) -> Float64s:
    cosines, sines = (table[:, None] for table in encoding.cos_sin(np.arange(x.shape[1])))
    return apply_tables(x, cosines, sines, encoding)


def _apply_reshaped(x: Float64s, cos: Float64s, sin: Float64s, encoding: Any) -> Float64s:
    batch, heads, length, width = x.shape
    read = x.reshape(batch, length, heads, width).swapaxes(1, 2)
    return apply_tables(read, cos, sin, encoding).swapaxes(1, 2).reshape(x.shape)


def _apply_rounded(x: Float64s, cos: Float64s, sin: Float64s, encoding: Any, *, dtype: str) -> Float64s:
    return apply_tables(ROUNDED[dtype](x).astype(np.float64), cos, sin, encoding)


def _round_results(candidate: Candidate, dtype: str) -> list[Candidate]:
    """Return candidates that are rounded up and down where a number of float32 is near the middle of two."""
    nudges = (1.0, 1 + NUDGE, 1 - NUDGE)
    return [one for nudge in nudges for one in with_outcome(partial(_rounded, dtype=dtype, nudge=nudge))(candidate)]


def _rounded(x: Float64s, rotated: Float64s, *, dtype: str, nudge: float) -> Float64s:
    return ROUNDED[dtype](rotated * nudge).astype(np.float64)


def _twice(candidate: Candidate) -> list[Candidate]:
    """Return the rotation by twice the angle, or if tables are applied in another way, that applied twice."""
    if candidate.apply is None:
        return [candidate.with_change(lambda cos, sin: (cos * cos - sin * sin, 2 * sin * cos))]
    return [replace(candidate, apply=partial(_apply_twice, apply=candidate.apply))]


def _apply_twice(x: Float64s, cos: Float64s, sin: Float64s, encoding: Any, *, apply: Apply) -> Float64s:
    return apply(apply(x, cos, sin, encoding), cos, sin, encoding)


def _mix_layouts(candidate: Candidate, columns: str) -> list[Candidate]:
    """Return the rotation of adjacent pairs with columns (c0, c1, …, c0, c1, …), or of halves with (c0, c0, c1, …)."""
    if candidate.apply is not None:
        return []
    layout = "interleaved" if columns == "half" else "half"
    mixed = candidate if candidate.encoding.layout == layout else candidate.with_fields(layout=layout)
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
