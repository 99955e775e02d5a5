"""Mistakes of decoders with a cache, each as the attention that it amounts to."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from .attention import Window
from .variants import (
    Variant,
    as_row,
    calls_since,
    decode_at,
    ends,
    first_row,
    in_window,
    keys_at,
    mask_stays,
    move_keys,
    of_stayed,
    ring_at,
    see,
    token_numbers,
    with_before,
    with_padding,
    with_removed,
    within_calls,
)


class Fault(NamedTuple):
    """A mistake: its name, what the decoder does, and the forms that it has."""

    name: str
    description: str
    variants: tuple[Variant, ...]


KEPT = Fault(
    "cache of an earlier prefill",
    "tokens see those of the prefill before, whether these count as positions or not",
    tuple(with_before(restarts=one, of_prompt=other) for one in (True, False) for other in (True, False)),
)
FAULTS = (
    Fault(
        "start lost when decoding",
        "positions of decoded tokens, or of their queries alone, are counted from 0, in each call or from the first on",
        tuple(
            decode_at(positions, queries_only=alone)
            for alone in (False, True)
            for positions in (lambda row, rows: within_calls(row), lambda row, rows: token_numbers(row))
        ),
    ),
    Fault(
        "start off by one",
        "decoded tokens stand one position too far or one too near",
        tuple(
            decode_at(lambda row, rows, by=by: row.shift + len(row.prompt) + token_numbers(row) + by)  # type: ignore[misc]
            for by in (1, -1)
        ),
    ),
    Fault(
        "start counts calls",
        "the start of a call is the number of earlier calls and not of tokens, after the prompt",
        (
            decode_at(
                lambda row, rows: (
                    row.shift + len(row.prompt) + np.repeat(range(len(row.calls)), row.calls) + within_calls(row)
                )
            ),
        ),
    ),
    Fault(
        "one position for a call",
        "all tokens of a call have the position of its first",
        (decode_at(lambda row, rows: row.shift + row.starts),),
    ),
    Fault(
        "keys rotated twice",
        "cached keys are rotated again when they are read, once or in each call, or by the start of the call",
        (
            keys_at(lambda keys, starts, row: 2 * keys),
            keys_at(lambda keys, starts, row: 2 * keys, own=True),
            keys_at(lambda keys, starts, row: keys * (2 + calls_since(row, keys.shape[1]))),
            keys_at(lambda keys, starts, row: keys * (2 + calls_since(row, keys.shape[1])), own=True),
            keys_at(lambda keys, starts, row: keys + starts),
        ),
    ),
    Fault(
        "keys not rotated",
        "cached keys are those from before the rotation",
        (
            keys_at(lambda keys, starts, row: 0 * keys),
            keys_at(lambda keys, starts, row: 0 * keys, own=True),
        ),
    ),
    Fault(
        "positions of the first row",
        "all rows of a batch have the positions of the first one",
        (decode_at(first_row),),
    ),
    Fault(
        "padding counted as positions",
        "decoded tokens stand where they do with padding, their prompt where it does without, or all with it",
        (
            decode_at(
                lambda row, rows: None if row.padding is None else row.pad + len(row.prompt) + token_numbers(row),
            ),
            as_row(lambda row: None if row.padding is None else replace(row, shift=row.pad)),
        ),
    ),
    Fault(
        "padding is seen",
        "tokens attend to padding, all of them or decoded ones",
        tuple(with_padding(of_prompt=one, counts=other) for one in (True, False) for other in (True, False)),
    ),
    Fault(
        "causal mask aligned to the first key",
        "a token sees as many keys as stand before it in its call, from the first key on",
        (see(lambda seen, keys, starts, row: keys <= within_calls(row)[:, None]),),
    ),
    Fault(
        "no causal mask in a call",
        "a token sees the tokens after it in the same call",
        (see(lambda seen, keys, starts, row: seen | ((keys >= starts) & (keys < ends(row)))),),
    ),
    Fault(
        "decoded tokens not cached",
        "tokens of later calls do not see decoded ones",
        (see(lambda seen, keys, starts, row: seen & ((keys < len(row.prompt)) | (keys >= starts))),),
    ),
    Fault(
        "last token of the prompt lost",
        "decoded tokens do not see it, as when the cache is written one place too early",
        (see(lambda seen, keys, starts, row: seen & (keys != len(row.prompt) - 1)),),
    ),
    Fault(
        "first token lost",
        "decoded tokens do not see the first token",
        (see(lambda seen, keys, starts, row: seen & (keys != 0)),),
    ),
    Fault(
        "window shifted",
        "decoded tokens see one key more or less than the window has, or all of them",
        (
            in_window(lambda one: one._replace(window=one.window - 1)),  # type: ignore[operator]
            in_window(lambda one: one._replace(window=one.window + 1)),  # type: ignore[operator]
            in_window(lambda one: Window()),
        ),
    ),
    Fault(
        "wrong place in the ring",
        "a decoded token overwrites the key before or after the oldest one",
        (ring_at(-1), ring_at(1)),
    ),
    Fault(
        "sinks not moved",
        "sinks stay at the positions of the text, where they do not follow the window",
        (in_window(lambda one: one._replace(remaps=False) if one.sinks else None),),
    ),
    Fault(
        "sinks lost",
        "decoded tokens see no sinks, or a longer window in place of them",
        (
            in_window(lambda one: one._replace(sinks=0) if one.sinks else None),
            in_window(lambda one: Window(one.window + one.sinks) if one.window and one.sinks else None),
        ),
    ),
    Fault(
        "position stays after trim",
        "the removed tokens still count as positions",
        (
            decode_at(
                lambda row, rows: None if row.removed is None else row.starts[0] + len(row.removed) + token_numbers(row)
            ),
        ),
    ),
    Fault(
        "trim keeps keys",
        "tokens after trim see removed ones, all or one, whether these count as positions or not",
        tuple(with_removed(count, moves=one) for count in (None, 1) for one in (True, False)),
    ),
    Fault(
        "trim cuts the beginning",
        "the first tokens are gone and not the last",
        tuple(with_removed(None, moves=one, of_the_start=True) for one in (True, False)),
    ),
    Fault("reorder ignored", "rows stay as they were", (as_row(lambda row: row.stayed),)),
    Fault(
        "positions not reordered",
        "rows have the positions of those that stood there before",
        (decode_at(of_stayed),),
    ),
    Fault("mask not reordered", "rows have the padding of those that stood there before", (mask_stays,)),
    KEPT,
    Fault(
        "position of an earlier prefill",
        "tokens of the prefill before still count as positions",
        (
            decode_at(
                lambda row, rows: None if row.before is None else len(row.before) + row.starts[0] + token_numbers(row),
            ),
        ),
    ),
    Fault(
        "state shared by two sequences",
        "decoding continues the sequence of another prefill",
        (as_row(lambda row: None if row.before is None else replace(row, prompt=row.before)),),
    ),
    Fault(
        "keys not moved, or the position twice",
        "after `move`, keys are as far as if the position alone had been moved",
        (move_keys(-1),),
    ),
    Fault("keys moved by the wrong sign", "`move` rotates keys back instead of forth", (move_keys(-2),)),
    Fault(
        "keys moved twice, or the position not",
        "after `move`, keys are as near as if they had been rotated by twice the distance, or the position had stayed",
        (move_keys(1),),
    ),
)
