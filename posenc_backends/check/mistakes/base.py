"""A mistake: a name, and the candidates that have it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from posenc_core.analysis.precision import ROUNDED

from ..candidates import Candidate, Float64s, Tables

Change: TypeAlias = Callable[[Candidate], Iterable[Candidate]]


class Mistake(NamedTuple):
    """A known mistake.

    Attributes:
        name: its name, such as `"layout swapped"`.
        description: what the function does, in words.
        change: from the right candidate to the wrong ones; if there are several, each column may match another one.
        is_state: whether an earlier call is to blame.
        is_of_the_end: whether only positions past some end are wrong.
        refine: from the errors of each candidate in each column of a result that matches, the mistakes that may say
            more; None if there are none.
    """

    name: str
    description: str
    change: Change
    is_state: bool = False
    is_of_the_end: bool = False
    refine: Callable[[list[Float64s]], Iterable[Mistake]] | None = None

    def candidates(self, right: Candidate) -> Iterator[Candidate]:
        """Yield the wrong candidates; none if the encoding cannot be wrong in this way."""
        try:
            yield from self.change(right)
        except (TypeError, ValueError):
            return


def combine(one: Mistake, other: Mistake) -> Mistake:
    """Return two mistakes made at once."""

    def change(candidate: Candidate) -> Iterator[Candidate]:
        for first in one.change(candidate):
            yield from other.change(first)

    name, description = f"{one.name}, {other.name}", f"{one.description}, and {other.description}"
    return Mistake(name, description, change, is_of_the_end=one.is_of_the_end or other.is_of_the_end)


def with_fields(**fields: Any) -> Change:
    """Return a change of fields of the encoding."""
    return lambda candidate: [candidate.with_fields(**fields)]


def with_tables(change: Callable[..., Tables]) -> Change:
    """Return a change of the tables."""
    return lambda candidate: [candidate.with_change(change)]


def of_rotary(mistake: Mistake) -> Mistake:
    """Return a mistake of the rotary encoding in a remapped one; those that change positions have no candidates."""

    def change(candidate: Candidate) -> Iterator[Candidate]:
        encoding: Any = candidate.encoding
        for one in mistake.change(replace(candidate, encoding=encoding.rotary)):
            if one.positions is candidate.positions:
                yield replace(one, encoding=replace(encoding, rotary=one.encoding))

    return mistake._replace(change=change)


def round_tables(dtype: str) -> Callable[..., Tables]:
    """Return a function that rounds tables to a dtype."""
    return lambda *tables: tuple(ROUNDED[dtype](table).astype(np.float64) for table in tables)
