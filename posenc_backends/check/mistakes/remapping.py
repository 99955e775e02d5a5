"""Mistakes in remapped positions: sizes of windows, groups and chunks, and those of the rotation itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from posenc_core.encodings import DualChunk, ReRoPE
from posenc_core.encodings.remapping import RemappedRotary
from posenc_core.positions.sequences import LIMIT

from ..candidates import Candidate
from .base import ROUNDED_ARRAYS, Mistake, of_rotary, own_mistakes, with_fields, with_positions, with_tables
from .bias import mistakes_of_two_positions
from .positions import round_positions
from .rotary import rotary_mistakes

NOT_IN_PRODUCTS = (  # mistakes of arrays that rotate in place or by axis, which take long to try on products
    "axes mixed up by a reshape",
    "heads taken for positions",
    "one token not rotated",
    "overwritten before it is read",
    *ROUNDED_ARRAYS,
)


def remapping_mistakes(encoding: RemappedRotary) -> Iterator[Mistake]:
    """Yield the mistakes in products of queries and keys with this encoding."""
    yield Mistake("remapping ignored", "every distance is kept", _keep_distances)
    for name, size in encoding.remapping.items():
        for other in (size + 1, size - 1):
            yield Mistake(f"{name} off by one", f"`{name}` is {other}", with_fields(**{name: other}))
    yield from own_mistakes(encoding)
    for step in (1, -1):
        description = f"all positions are {'larger' if step > 0 else 'smaller'} by 1"
        yield Mistake("positions off by one", description, with_positions(partial(np.add, step)))
    for dtype in ("bfloat16", "float16"):
        description = f"positions are rounded to {dtype} before they are remapped"
        yield _with_either_mask(Mistake(f"{dtype} positions", description, partial(round_positions, dtype=dtype)))
    yield from map(_with_either_mask, mistakes_of_two_positions())
    yield from (of_rotary(one) for one in rotary_mistakes(encoding.rotary) if one.name not in NOT_IN_PRODUCTS)
    scale = encoding.head_dim**-0.25
    description = "products are divided by the square root of the width"
    change = with_tables(lambda *tables: tuple(table * scale for table in tables))
    yield of_rotary(Mistake("products scaled", description, change))


@own_mistakes.register
def _chunk_mistakes(encoding: DualChunk) -> Iterator[Mistake]:
    smaller = {name: getattr(encoding, name) - 1 for name in ("chunk_size", "local_size")}
    description = f"no distance is greater than {encoding.chunk_size - 1}; chunks have {encoding.chunk_len} tokens"
    yield Mistake("largest distance off by one", description, with_fields(**smaller))


def _with_either_mask(mistake: Mistake) -> Mistake:
    """Return a mistake in positions that may or may not be made in the mask as well."""

    def change(candidate: Candidate) -> Iterator[Candidate]:
        for one in mistake.change(candidate):
            yield from (one, replace(one, mask_positions=candidate.positions))

    return mistake._replace(change=change)


def _keep_distances(candidate: Candidate) -> list[Candidate]:
    return [replace(candidate, encoding=ReRoPE(rotary=candidate.encoding.rotary, window=LIMIT - 1))]
