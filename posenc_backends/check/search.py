"""The order in which mistakes are tried on a test call."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from .calls import TestCall
from .mistakes import Mistake, combine, mistakes_of_encoding, mistakes_of_rounding, mistakes_of_state

# Not tried together with others.
RARE = ("wrong base", "wrong scaling", "positions reversed", "positions made whole", "not rotated")


class SearchOptions(NamedTuple):
    """How far to search.

    Attributes:
        with_rounding: whether to try low-precision arithmetic in all its variants.
        with_pairs: whether to try pairs of mistakes of which neither is known.
    """

    with_rounding: bool
    with_pairs: bool


def mistakes_to_try(
    call: TestCall, earlier: list[TestCall], known: list[Mistake], options: SearchOptions
) -> Iterator[Mistake]:
    """Yield the mistakes that may explain a call, the simplest first, those that explained an earlier call before all.

    Pairs of mistakes follow, if one of the two is known or the options ask for it.
    """
    yield from known
    single = list(mistakes_of_encoding(call.expected.encoding))
    rounding = list(mistakes_of_rounding(call.expected.encoding)) if options.with_rounding else []
    state = list(mistakes_of_state(call, earlier))
    yield from (*single, *rounding, *state)
    for one in known:
        yield from (combine(one, other) for other in (*single, *rounding, *state) if other != one)
    usual = [mistake for mistake in single if mistake.name not in RARE] if options.with_pairs else []
    for number, one in enumerate(usual):
        yield from (combine(one, other) for other in usual[number + 1 :])
