"""Mistakes of decoders with a cache, each as the attention that it amounts to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .stories import Ints, Row, Story, Window, story_of, with_tokens

Variant = Callable[[Row, Sequence[Row], Window], Story | None]  # of a row among the rows of its batch; None: not there


class Fault(NamedTuple):
    """A mistake: its name, what the decoder does, and the forms that it has."""

    name: str
    description: str
    variants: tuple[Variant, ...]


def decoded_at(positions: Callable[[Row, Sequence[Row]], Any], *, queries_only: bool = False) -> Variant:
    """Return the variant in which decoded tokens, or their queries alone, have these positions."""

    def variant(row: Row, rows: Sequence[Row], window: Window) -> Story | None:
        story, own = story_of(row, window), positions(row, rows)
        if own is None:
            return None
        other = np.concatenate([story.positions[: len(row.prompt)], own])
        return story._replace(positions=other) if queries_only else story.at(other, window)

    return variant


def cached_at(positions: Callable[[Ints, Ints, Row], Any], *, own: bool = False) -> Variant:
    """Return the variant in which decoded tokens see keys of earlier calls, or also of their own, at other positions.

    `positions` takes those of the keys, `(length,)`, and the number of tokens before each call, `(decoded, 1)`.
    """

    def variant(row: Row, rows: Sequence[Row], window: Window) -> Story:
        story, starts = story_of(row, window), row.starts[:, None]
        count = np.arange(len(story.positions))
        keys, at = story.keys.copy(), story.keys[len(row.prompt) :]
        is_cached = (count < starts) | own
        keys[len(row.prompt) :] = np.where(is_cached, positions(at, starts, row), at)
        return story._replace(keys=keys)

    return variant


def sees(visible: Callable[[npt.NDArray[np.bool_], Ints, Ints, Row], Any]) -> Variant:
    """Return the variant in which decoded tokens see other keys.

    `visible` takes what they see, `(decoded, length)`, the numbers of the keys, `(length,)`, the number of tokens
    before each call, `(decoded, 1)`, and the row.
    """

    def variant(row: Row, rows: Sequence[Row], window: Window) -> Story | None:
        story, count = story_of(row, window), len(row.prompt)
        seen = story.visible.copy()
        seen[count:] = visible(seen[count:], np.arange(len(seen)), row.starts[:, None], row)
        return story._replace(visible=seen)

    return variant


def in_window(width: Callable[[Window], Window | None]) -> Variant:
    """Return the variant in which decoded tokens see another window."""

    def variant(row: Row, rows: Sequence[Row], window: Window) -> Story | None:
        other = None if window.window is None else width(window)
        if other is None:
            return None
        story, count = story_of(row, window), len(row.prompt)
        seen, keys = story.visible.copy(), story.keys.copy()
        seen[count:], keys[count:] = other.visible(len(seen))[count:], other.key_positions(story.positions)[count:]
        return story._replace(visible=seen, keys=keys)

    return variant


def overwritten(offset: int) -> Variant:
    """Return the variant in which a ring of `window` places gets each decoded token so many places further on."""

    def variant(row: Row, rows: Sequence[Row], window: Window) -> Story | None:
        story, count, width = story_of(row, window), len(row.prompt), window.window
        if width is None or window.sinks:
            return None
        places = {token % width: token for token in range(count)}
        seen = story.visible.copy()
        for token in range(count, len(seen)):
            places[(token + offset) % width] = token
            seen[token] = False
            seen[token, list(places.values())] = True
        return story._replace(visible=seen)

    return variant


def with_padding(*, of_prompt: bool, counts: bool) -> Variant:
    """Return the variant in which padding is seen, by the prompt too, and counted as positions or not."""

    def variant(row: Row, rows: Sequence[Row], window: Window) -> Story | None:
        if row.padding is None:
            return None
        story = with_tokens(story_of(row, window), row.padding, 0, window)
        if not of_prompt:
            story.visible[row.pad : row.pad + len(row.prompt), : row.pad] = False
        return story if counts else story.at(np.maximum(story.positions - row.pad, 0), window)

    return variant


def _mask_stays(row: Row, rows: Sequence[Row], window: Window) -> Story | None:
    """Decoded tokens see and hide the columns of the row that stood here before."""
    if row.stayed is None or row.padding is None:
        return None
    story = with_tokens(story_of(row, window), row.padding, 0, window)
    start = row.pad + len(row.prompt) + row.skip
    story.visible[row.pad : start, : row.pad] = False
    story.visible[start:, : row.stayed.pad] = False
    return story.at(np.maximum(story.positions - row.pad, 0), window)


def with_removed(count: int | None, *, moves: bool, of_the_start: bool = False) -> Variant:
    """Return the variant in which removed tokens stay, all or `count`, and count as positions or not.

    With `of_the_start`, as many tokens of the beginning are gone instead.
    """

    def variant(row: Row, rows: Sequence[Row], window: Window) -> Story | None:
        if row.removed is None:
            return None
        extra, at = row.removed[:count], len(row.prompt)
        story = with_tokens(story_of(row, window), extra, at, window)
        positions = story.positions.copy()
        if not moves:
            positions[at + len(extra) :] -= len(extra)
        if of_the_start:
            story.visible[at + len(extra) :, : len(extra)] = False
        return story.at(positions, window)

    return variant


def with_before(*, restarts: bool, of_prompt: bool) -> Variant:
    """Return the variant in which tokens of an earlier prefill stay in the cache, and count as positions or not."""

    def variant(row: Row, rows: Sequence[Row], window: Window) -> Story | None:
        if row.before is None:
            return None
        count, story = len(row.before), with_tokens(story_of(row, window), row.before, 0, window)
        if not of_prompt:
            story.visible[count : count + len(row.prompt), :count] = False
        positions = story.positions.copy()
        positions[count:] -= count * restarts
        return story.at(positions, window)

    return variant


def as_row(change: Callable[[Row], Row | None]) -> Variant:
    """Return the variant in which the row is another one."""

    def variant(row: Row, rows: Sequence[Row], window: Window) -> Story | None:
        other = change(row)
        return None if other is None else story_of(other, window)

    return variant


def moved_by(times: int) -> Variant:
    """Return the variant in which cached keys are moved by so many shifts too far."""

    def variant(row: Row, rows: Sequence[Row], window: Window) -> Story | None:
        if not row.shift:
            return None
        story = story_of(row, window)
        is_prompt = np.arange(len(story.positions)) < len(row.prompt)
        positions = story.positions + times * row.shift * is_prompt
        return story.at(positions - positions.min(), window)

    return variant


def _within_calls(row: Row) -> Ints:
    """Return the number of each decoded token in its call."""
    return np.concatenate([np.arange(count) for count in row.calls])


def _first_row(row: Row, rows: Sequence[Row]) -> Ints:
    """Return the positions of decoded tokens of the first row, which was another one before `reorder`."""
    first, number = rows[0], _number(row)
    before = len((first.stayed or first).prompt)
    return row.shift + number + np.where(number < row.skip, before, len(first.prompt))


def _of_stayed(row: Row, rows: Sequence[Row]) -> Ints | None:
    """Return the positions that decoded tokens would have in the row that stood here before."""
    if row.stayed is None:
        return None
    number = _number(row)
    return number + np.where(number < row.skip, len(row.prompt), len(row.stayed.prompt))


def _number(row: Row) -> Ints:
    return np.arange(len(row.decoded))


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
            decoded_at(positions, queries_only=alone)
            for alone in (False, True)
            for positions in (lambda row, rows: _within_calls(row), lambda row, rows: _number(row))
        ),
    ),
    Fault(
        "start off by one",
        "decoded tokens stand one position too far or one too near",
        tuple(
            decoded_at(lambda row, rows, by=by: row.shift + len(row.prompt) + _number(row) + by)  # type: ignore[misc]
            for by in (1, -1)
        ),
    ),
    Fault(
        "start counts calls",
        "the start of a call is the number of earlier calls and not of tokens, after the prompt",
        (
            decoded_at(
                lambda row, rows: (
                    row.shift + len(row.prompt) + np.repeat(range(len(row.calls)), row.calls) + _within_calls(row)
                )
            ),
        ),
    ),
    Fault(
        "one position for a call",
        "all tokens of a call have the position of its first",
        (decoded_at(lambda row, rows: row.shift + row.starts),),
    ),
    Fault(
        "keys rotated twice",
        "cached keys are rotated again when they are read, once or in each call, or by the start of the call",
        (
            cached_at(lambda keys, starts, row: 2 * keys),
            cached_at(lambda keys, starts, row: 2 * keys, own=True),
            cached_at(lambda keys, starts, row: keys * (2 + _calls_since(row, keys.shape[1]))),
            cached_at(lambda keys, starts, row: keys * (2 + _calls_since(row, keys.shape[1])), own=True),
            cached_at(lambda keys, starts, row: keys + starts),
        ),
    ),
    Fault(
        "keys not rotated",
        "cached keys are those from before the rotation",
        (
            cached_at(lambda keys, starts, row: 0 * keys),
            cached_at(lambda keys, starts, row: 0 * keys, own=True),
        ),
    ),
    Fault(
        "positions of the first row",
        "all rows of a batch have the positions of the first one",
        (decoded_at(_first_row),),
    ),
    Fault(
        "padding counted as positions",
        "decoded tokens stand where they do with padding, their prompt where it does without, or all with it",
        (
            decoded_at(
                lambda row, rows: None if row.padding is None else row.pad + len(row.prompt) + _number(row),
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
        (sees(lambda seen, keys, starts, row: keys <= _within_calls(row)[:, None]),),
    ),
    Fault(
        "no causal mask in a call",
        "a token sees the tokens after it in the same call",
        (sees(lambda seen, keys, starts, row: seen | ((keys >= starts) & (keys < _ends(row)))),),
    ),
    Fault(
        "decoded tokens not cached",
        "tokens of later calls do not see decoded ones",
        (sees(lambda seen, keys, starts, row: seen & ((keys < len(row.prompt)) | (keys >= starts))),),
    ),
    Fault(
        "last token of the prompt lost",
        "decoded tokens do not see it, as when the cache is written one place too early",
        (sees(lambda seen, keys, starts, row: seen & (keys != len(row.prompt) - 1)),),
    ),
    Fault(
        "first token lost",
        "decoded tokens do not see the first token",
        (sees(lambda seen, keys, starts, row: seen & (keys != 0)),),
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
        (overwritten(-1), overwritten(1)),
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
            decoded_at(
                lambda row, rows: None if row.removed is None else row.starts[0] + len(row.removed) + _number(row)
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
        (decoded_at(_of_stayed),),
    ),
    Fault("mask not reordered", "rows have the padding of those that stood there before", (_mask_stays,)),
    KEPT,
    Fault(
        "position of an earlier prefill",
        "tokens of the prefill before still count as positions",
        (
            decoded_at(
                lambda row, rows: None if row.before is None else len(row.before) + row.starts[0] + _number(row),
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
        (moved_by(-1),),
    ),
    Fault("keys moved by the wrong sign", "`move` rotates keys back instead of forth", (moved_by(-2),)),
    Fault(
        "keys moved twice, or the position not",
        "after `move`, keys are as near as if they had been rotated by twice the distance, or the position had stayed",
        (moved_by(1),),
    ),
)


def _ends(row: Row) -> Ints:
    """Return the number of tokens after the call of each decoded token, `(decoded, 1)`."""
    return row.starts[:, None] + np.repeat(row.calls, row.calls)[:, None]


def _calls_since(row: Row, length: int) -> Ints:
    """Return in how many earlier calls of `decode` each decoded token could read each key, `(decoded, length)`."""
    call = np.repeat(range(len(row.calls)), row.calls)
    written = np.concatenate([np.full(length - len(call), -1), call])
    return np.maximum(call[:, None] - written - 1, 0)
