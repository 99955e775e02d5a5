"""The order in which mistakes are tried on a test call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from posenc_core.encodings import Encoding, QueryEncoding

from .mistakes import mistakes_of_encoding
from .mistakes.application import mistakes_of_views
from .mistakes.base import ROUNDED_ARRAYS, Mistake, combine, possible
from .mistakes.norm import norm_mistakes
from .mistakes.positions import mistakes_at_the_end, mistakes_of_growing, mistakes_of_state
from .mistakes.rounding import POSITIONS_IN_FLOAT32, mistakes_of_rounding
from .sample_calls import TestCall

# Tried together with others last.
RARE = (
    "wrong base",
    "wrong scaling",
    "wrong unit of angles",
    "wrong exponent",
    "wrong rotary_dim",
    "frequencies reversed",
    "positions reversed",
    "positions made whole",
    "axes arranged in another order",
    "axes mixed up by a reshape",
    "heads taken for positions",
    "minus sign missing",
    "overwritten before it is read",
    "one token not rotated",
    *ROUNDED_ARRAYS,
)


class SearchOptions(NamedTuple):
    """How far to search.

    Attributes:
        with_rounding: whether to try low-precision arithmetic in all its variants.
        with_pairs: whether to try pairs of mistakes of which neither is known.
        measured: the mistakes of other factors, slopes and buckets, which the results give.
        refined: the mistakes of other frequencies, which were measured before and are measured again.
    """

    with_rounding: bool
    with_pairs: bool
    measured: tuple[Mistake, ...] = ()
    refined: Iterable[Mistake] = ()


def mistakes_to_try(
    call: TestCall, earlier: list[TestCall], right: list[TestCall], known: list[Mistake], options: SearchOptions
) -> Iterator[Mistake]:
    """Yield the mistakes that may explain a call, the simplest first, those that explained an earlier call before all.

    Pairs of mistakes follow, if one of the two is known or the options ask for it.

    Args:
        call: the call to explain.
        earlier: the calls before it.
        right: those of them whose results were right, or are explained.
        known: the mistakes that explain earlier calls.
        options: how far to search.
    """
    yield from known
    yield from options.refined
    yield from (combine(POSITIONS_IN_FLOAT32, one) for one in known if POSITIONS_IN_FLOAT32.name not in one.name)
    of_the_end = list(possible(mistakes_at_the_end, call, right))
    encoding = call.expected.encoding
    single = [
        *possible(norm_mistakes, call.expected),
        *possible(mistakes_of_encoding, encoding),
        *options.measured,
    ]
    if not isinstance(encoding, QueryEncoding):  # whose first factors may be 1, so that a missing one shows far away
        yield from of_the_end
    rounding = list(possible(mistakes_of_rounding, encoding)) if options.with_rounding else []
    state = [
        *possible(mistakes_of_state, call, earlier),
        *possible(mistakes_of_growing, call, earlier),
        *(mistakes_of_views() if call.is_strided else ()),
    ]
    yield from (*single, *rounding, *state)
    if isinstance(encoding, QueryEncoding):
        yield from of_the_end
    for one in known:
        for other in of_the_end:
            yield from (combine(one, other), combine(other, one))
        yield from (combine(one, other) for other in (*single, *state, *rounding) if other != one)
    if options.with_pairs:
        yield from _pairs(call.expected.encoding, single)


def _pairs(encoding: Encoding, single: list[Mistake]) -> Iterator[Mistake]:
    """Yield pairs of mistakes of which neither is known, the cheapest first."""
    several = [mistake for mistake in single if mistake.name not in ("not rotated", "not added")]
    usual = [mistake for mistake in several if mistake.name not in RARE]
    rare = [mistake for mistake in several if mistake.name in RARE]
    for number, one in enumerate(usual):
        yield from (combine(one, other) for other in usual[number + 1 :])
    yield from (combine(one, other) for one in rare for other in usual)
    rounding = list(mistakes_of_rounding(encoding, with_powers=False))
    yield from (combine(one, other) for one in several for other in rounding)
