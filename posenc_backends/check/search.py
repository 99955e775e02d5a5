"""The search for a cause: which hypotheses are tried on a call, and in which order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from .calls import Question
from .hypotheses import Hypothesis, both, of_arithmetic, of_state, plain

# Not looked for beside others.
RARE = ("wrong base", "wrong scaling", "positions reversed", "positions made whole", "not turned")


class Search(NamedTuple):
    """How far to look for the cause of a call.

    Attributes:
        is_wide: mistakes of narrow numbers are tried, too, in all the ways that they are made.
        is_deep: two mistakes at once are tried of which neither is known.
    """

    is_wide: bool
    is_deep: bool


def tried(question: Question, earlier: list[Question], known: list[Hypothesis], search: Search) -> Iterator[Hypothesis]:
    """All hypotheses of a call, the simplest first; those that explained another call come first of all.

    Two mistakes at once are tried where one of them is known, or the search is deep.
    """
    yield from known
    single = list(plain(question.sketch.encoding))
    narrow = list(of_arithmetic(question.sketch.encoding)) if search.is_wide else []
    state = list(of_state(question, earlier))
    yield from (*single, *narrow, *state)
    for each in known:
        yield from (both(each, other) for other in (*single, *narrow, *state) if other != each)
    usual = [each for each in single if each.mistake not in RARE] if search.is_deep else []
    for number, one in enumerate(usual):
        yield from (both(one, other) for other in usual[number + 1 :])
