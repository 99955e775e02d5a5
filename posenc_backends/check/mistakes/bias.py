"""Mistakes in biases that depend on positions alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from posenc_core.attention.bias import SIDES, SLOPE_ORDERS
from posenc_core.encodings import Alibi, Encoding, SwinBias, SwinV2Bias, T5Bias

from ..candidates import Candidate, Tables
from .base import Mistake, own_mistakes, reverse_heads, round_tables, with_fields, with_positions, with_tables
from .positions import FIRST_ROW, round_positions


def bias_mistakes(encoding: Encoding) -> Iterator[Mistake]:
    """Yield the mistakes in biases of this encoding."""
    yield Mistake("sign flipped", "the bias has the opposite sign", with_tables(_negate))
    yield Mistake("heads reversed", "the heads are in reverse order", with_tables(reverse_heads))
    description = "heads and pairs are mixed up by a reshape that should be a transpose"
    reshape = with_tables(lambda bias: (np.moveaxis(bias, -3, -1).reshape(bias.shape),))
    yield Mistake("axes mixed up by a reshape", description, reshape)
    description = "offsets are query minus key, not key minus query"
    yield Mistake("sign of offsets flipped", description, with_positions(np.negative))
    yield from own_mistakes(encoding)
    yield from mistakes_of_two_positions()
    yield Mistake("not relative", "the bias of a key depends on its own position alone", _ignore_queries)
    for dtype in ("bfloat16", "float16"):
        change = partial(round_positions, dtype=dtype)
        yield Mistake(f"{dtype} positions", f"positions are rounded to {dtype}", change)
        yield Mistake(f"{dtype} tables", f"the bias is rounded to {dtype}", with_tables(round_tables(dtype)))


@own_mistakes.register
def _t5_mistakes(encoding: T5Bias) -> Iterator[Mistake]:
    for sides in SIDES:
        yield Mistake("side swapped", f"the sides are {sides!r}", with_fields(sides=sides))


@own_mistakes.register
def _alibi_mistakes(encoding: Alibi) -> Iterator[Mistake]:
    description = "keys after a query have a bias of the opposite sign: distances keep their sign"
    yield Mistake("signed distances", description, _sign_distances)
    for order in SLOPE_ORDERS:
        yield Mistake("slopes of another order", f"the slopes are those of {order!r}", with_fields(slopes=order))
    yield Mistake("max_bias ignored", "the slope of the last head is 2 ** -8", with_fields(max_bias=8))
    for sides in SIDES:
        yield Mistake("side swapped", f"the sides are {sides!r}", with_fields(sides=sides))


@own_mistakes.register
def _swin_mistakes(encoding: SwinBias | SwinV2Bias) -> Iterator[Mistake]:
    description = "offsets are query minus key, not key minus query"
    reverse = with_positions(lambda at: encoding.limit - 1 - at)  # the token on the other side of the window
    yield Mistake("sign of offsets flipped", description, reverse)
    rows, columns = encoding.window
    if rows == columns:
        swap = with_positions(lambda at: at % rows * rows + at // rows)
        yield Mistake("axes swapped", "rows and columns of the window are exchanged", swap)


def mistakes_of_two_positions() -> Iterator[Mistake]:
    """Yield the mistakes in positions of queries beside those of keys."""
    for step in (1, -1):
        description = f"query positions are {'larger' if step > 0 else 'smaller'} by 1"
        yield Mistake("positions off by one", description, partial(_move_queries, step=step))
    yield Mistake("positions ignored", "queries are counted from 0", partial(_count_from_0, keys=False))
    yield Mistake("positions ignored", "queries and keys are counted from 0", partial(_count_from_0, keys=True))
    yield FIRST_ROW


def _negate(bias: Any) -> Tables:
    return (-bias,)


def _sign_distances(candidate: Candidate) -> list[Candidate]:
    queries, keys = np.split(candidate.positions, [candidate.num_queries])
    sign = np.where(keys > queries[:, None], -1, 1)
    return [candidate.with_fields(sides="both").with_change(lambda bias: (bias * sign,))]


def _move_queries(candidate: Candidate, step: int) -> list[Candidate]:
    is_query = np.arange(candidate.positions.shape[-1]) < candidate.num_queries
    return [replace(candidate, positions=candidate.positions + step * is_query)]


def _count_from_0(candidate: Candidate, *, keys: bool) -> list[Candidate]:
    positions = candidate.positions.copy()
    for part in (slice(candidate.num_queries), slice(candidate.num_queries, None))[: 1 + keys]:
        positions[..., part] = np.arange(positions[..., part].shape[-1])
    return [replace(candidate, positions=positions)]


def _ignore_queries(candidate: Candidate) -> list[Candidate]:
    """Return the bias of Bloom: softmax does not see the difference."""
    positions = candidate.positions.copy()
    positions[..., : candidate.num_queries] = 0
    changed = replace(candidate, positions=positions)
    return [changed.with_change(_negate), changed]
