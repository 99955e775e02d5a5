"""Mistakes in factors of queries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

import numpy as np

from posenc_core.encodings import LearnedQueryScale, QueryEncoding, QueryScale
from posenc_core.tables.query_factors import Growth

from .base import Mistake, own_mistakes, reverse_heads, round_tables, with_fields, with_tables


def query_mistakes(encoding: QueryEncoding) -> Iterator[Mistake]:
    """Yield the mistakes in factors of this encoding."""
    yield from own_mistakes(encoding)
    yield Mistake("factor missing", "queries are not multiplied", with_tables(lambda factors: (np.ones_like(factors),)))
    yield Mistake("factor squared", "the factor is multiplied twice", with_tables(lambda factors: (factors**2,)))
    for dtype in ("bfloat16", "float16"):
        yield Mistake(f"{dtype} tables", f"factors are rounded to {dtype}", with_tables(round_tables(dtype)))


@own_mistakes.register
def _scale_mistakes(encoding: QueryScale) -> Iterator[Mistake]:
    number = 1 - encoding.start
    yield Mistake("start swapped", f"the token at position 0 has the number {number}", with_fields(start=number))
    for growth in get_args(Growth):
        if growth != encoding.growth:
            yield Mistake("growth of another formula", f"the growth is {growth!r}", with_fields(growth=growth))


@own_mistakes.register
def _learned_scale_mistakes(encoding: LearnedQueryScale) -> Iterator[Mistake]:
    yield Mistake("heads reversed", "the heads are in reverse order", with_tables(reverse_heads))
