"""A mistake: a name, and the candidates that have it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import singledispatch
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from posenc_core.analysis.precision import ROUNDED
from posenc_core.encodings import Encoding, Rotary
from posenc_core.scaling import AttentionFactor

from ..candidates import Candidate, Float64s, Outcome, Tables

BASES = (10000, 500000, 1e6, 5e6, 1e7, 100, 1000, 50000, 100000, 150000, 160000)  # those of models, the usual one first
ROUNDED_ARRAYS = (  # mistakes of arrays in half precision
    *(f"{dtype} {what}" for dtype in ("bfloat16", "float16") for what in ("tokens", "results")),
    *(f"{dtype} tokens, {dtype} results" for dtype in ("bfloat16", "float16")),
)

IMPOSSIBLE = (Exception,)  # what a mistake raises that an encoding or a result cannot have

Made = TypeVar("Made")
Change: TypeAlias = Callable[[Candidate], Iterable[Candidate]]


class Mistake(NamedTuple):
    """A known mistake.

    Attributes:
        name: its name, such as `"layout swapped"`.
        description: what the function does, in words.
        change: from the right candidate to the wrong ones; if there are several, each column may match another one.
        is_state: whether an earlier call is to blame.
        is_of_the_end: whether only positions past some end are wrong.
        needs_all_rows: whether a row depends on others, so that a call cannot be compared at a few rows.
        is_measured: whether it has numbers that the results gave.
        refine: from the errors of each candidate in each column of a result that matches, the mistakes that may say
            more; None if there are none.
    """

    name: str
    description: str
    change: Change
    is_state: bool = False
    is_of_the_end: bool = False
    needs_all_rows: bool = False
    is_measured: bool = False
    refine: Callable[[list[Float64s]], Iterable[Mistake]] | None = None

    def candidates(self, right: Candidate) -> Iterator[Candidate]:
        """Yield the wrong candidates; none if the encoding cannot be wrong in this way."""
        yield from possible(self.change, right)


def possible(make: Callable[..., Iterable[Made]], *arguments: Any) -> Iterator[Made]:
    """Yield what a function makes, up to what an encoding cannot have: a search never raises."""
    try:
        yield from make(*arguments)
    except IMPOSSIBLE:
        return


@singledispatch
def own_mistakes(encoding: Encoding) -> Iterator[Mistake]:
    """Yield the mistakes that only an encoding of this class can have: those of the function registered for it."""
    return iter(())


def combine(one: Mistake, other: Mistake) -> Mistake:
    """Return two mistakes made at once."""

    def change(candidate: Candidate) -> Iterator[Candidate]:
        for first in one.change(candidate):
            yield from other.change(first)

    name, description = f"{one.name}, {other.name}", f"{one.description}, and {other.description}"
    return Mistake(
        name,
        description,
        change,
        is_of_the_end=one.is_of_the_end or other.is_of_the_end,
        needs_all_rows=one.needs_all_rows or other.needs_all_rows,
    )


def with_fields(**fields: Any) -> Change:
    """Return a change of fields of the encoding."""
    return lambda candidate: [candidate.with_fields(**fields)]


def with_tables(change: Callable[..., Tables], *, of_positions: bool = False) -> Change:
    """Return a change of the tables, by a function of them, or of their positions and them."""
    return lambda candidate: [candidate.with_change(change, of_positions=of_positions)]


def with_positions(change: Callable[..., Any]) -> Change:
    """Return a change of the positions; the new ones are broadcast to the shape of the others."""
    return lambda candidate: at_positions(candidate, change(candidate.positions))


def at_positions(candidate: Candidate, positions: Any) -> list[Candidate]:
    """Return the candidate at other positions, which are broadcast to its shape."""
    return [replace(candidate, positions=np.broadcast_to(positions, candidate.positions.shape))]


def with_outcome(outcome: Outcome) -> Change:
    """Return a change of the results."""
    return lambda candidate: [replace(candidate, outcomes=(*candidate.outcomes, outcome))]


def reverse_heads(*tables: Any) -> Tables:
    """Return tables or biases `(..., heads, length, columns)` with the heads in reverse order."""
    return tuple(table[..., ::-1, :, :] for table in tables)


def base_mistakes(encoding: Any, usual: float) -> Iterator[Mistake]:
    """Yield the mistakes of other bases than that of the encoding; `usual` is that of its class."""
    for base in BASES:
        if base != encoding.base:
            name = "base ignored" if base == usual else "wrong base"
            yield Mistake(name, f"the base is {base:.10g}", with_fields(base=base))


def with_frequencies(name: str, description: str, encoding: Rotary, frequencies: Any) -> Mistake:
    """Return the mistake of these frequencies, with the attention factor of the encoding."""
    factor = encoding.attention_factor
    scaling = None if factor == 1 else AttentionFactor(attention_factor=factor)
    fields: dict[str, Any] = {"frequencies": tuple(map(float, frequencies)), "base": Rotary.base, "scaling": scaling}
    return Mistake(name, description, with_fields(**fields))


def at_frequencies(frequencies: Float64s, axes: tuple[int, ...] | None = None) -> Change:
    """Return a change of cosine and sine to those of these frequencies, as large as before.

    Args:
        frequencies: radians per position, one for each pair.
        axes: the axis of positions that each pair follows; None if there is one axis.
    """

    def change(positions: Any, *tables: Float64s) -> Tables:
        own = positions[..., None] if axes is None else np.moveaxis(positions[list(axes)], 0, -1)
        return np.hypot(*tables) * np.cos(own * frequencies), np.hypot(*tables) * np.sin(own * frequencies)

    return with_tables(change, of_positions=True)


def has_base(encoding: Encoding) -> bool:
    """Return whether the frequencies of each axis are powers of one base, to which a scaling may be added."""
    return getattr(encoding, "own", encoding) is None


def of_rotary(mistake: Mistake) -> Mistake:
    """Return a mistake of the rotary encoding in a remapped one; those that change positions have no candidates."""

    def change(candidate: Candidate) -> Iterator[Candidate]:
        for one in mistake.change(replace(candidate, encoding=candidate.encoding.rotary)):
            if one.positions is candidate.positions:
                yield replace(one, encoding=replace(candidate.encoding, rotary=one.encoding))

    return mistake._replace(change=change)


def rounded_tables(dtype: str) -> Change:
    """Return a change of tables that are rounded to a dtype, once, or after they are rounded to float32."""
    change = round_tables(dtype)
    return lambda candidate: [candidate.with_change(change), candidate.unrounded.with_change(change)]


def round_tables(dtype: str) -> Callable[..., Tables]:
    """Return a function that rounds tables to a dtype."""
    return lambda *tables: tuple(ROUNDED[dtype](table).astype(np.float64) for table in tables)
