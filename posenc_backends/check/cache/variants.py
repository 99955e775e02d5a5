"""Ways to compute something else than a decoder should: the attention that a mistake amounts to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .attention import Attention, Ints, Row, Window, attention_of, with_tokens

# Takes a row, all rows of its batch and the window; None if the row has no such mistake.
Variant = Callable[[Row, Sequence[Row], Window], Attention | None]


def decode_at(positions: Callable[[Row, Sequence[Row]], Any], *, queries_only: bool = False) -> Variant:
    """Return the variant in which decoded tokens, or their queries alone, have these positions."""

    def variant(row: Row, rows: Sequence[Row], window: Window) -> Attention | None:
        attention, own = attention_of(row, window), positions(row, rows)
        if own is None:
            return None
        other = np.concatenate([attention.positions[: len(row.prompt)], own])
        return attention._replace(positions=other) if queries_only else attention.at(other, window)

    return variant


def keys_at(positions: Callable[[Ints, Ints, Row], Any], *, own: bool = False) -> Variant:
    """Return the variant in which decoded tokens see keys of earlier calls, or also of their own, at other positions.

    `positions` takes those of the keys, `(length,)`, and the number of tokens before each call, `(decoded, 1)`.
    """

    def variant(row: Row, rows: Sequence[Row], window: Window) -> Attention:
        attention, starts = attention_of(row, window), row.starts[:, None]
        count = np.arange(len(attention.positions))
        keys, at = attention.keys.copy(), attention.keys[len(row.prompt) :]
        is_cached = (count < starts) | own
        keys[len(row.prompt) :] = np.where(is_cached, positions(at, starts, row), at)
        return attention._replace(keys=keys)

    return variant


def see(visible: Callable[[npt.NDArray[np.bool_], Ints, Ints, Row], Any]) -> Variant:
    """Return the variant in which decoded tokens see other keys.

    `visible` takes what they see, `(decoded, length)`, the numbers of the keys, `(length,)`, the number of tokens
    before each call, `(decoded, 1)`, and the row.
    """

    def variant(row: Row, rows: Sequence[Row], window: Window) -> Attention | None:
        attention, count = attention_of(row, window), len(row.prompt)
        seen = attention.visible.copy()
        seen[count:] = visible(seen[count:], np.arange(len(seen)), row.starts[:, None], row)
        return attention._replace(visible=seen)

    return variant


def in_window(width: Callable[[Window], Window | None]) -> Variant:
    """Return the variant in which decoded tokens see another window."""

    def variant(row: Row, rows: Sequence[Row], window: Window) -> Attention | None:
        other = None if window.window is None else width(window)
        if other is None:
            return None
        attention, count = attention_of(row, window), len(row.prompt)
        seen, keys = attention.visible.copy(), attention.keys.copy()
        seen[count:], keys[count:] = other.visible(len(seen))[count:], other.key_positions(attention.positions)[count:]
        return attention._replace(visible=seen, keys=keys)

    return variant


def ring_at(offset: int) -> Variant:
    """Return the variant in which a ring of `window` places gets each decoded token so many places further on."""

    def variant(row: Row, rows: Sequence[Row], window: Window) -> Attention | None:
        attention, count, width = attention_of(row, window), len(row.prompt), window.window
        if width is None or window.sinks:
            return None
        places = {token % width: token for token in range(count)}
        seen = attention.visible.copy()
        for token in range(count, len(seen)):
            places[(token + offset) % width] = token
            seen[token] = False
            seen[token, list(places.values())] = True
        return attention._replace(visible=seen)

    return variant


def with_padding(*, of_prompt: bool, counts: bool) -> Variant:
    """Return the variant in which padding is seen, by the prompt too, and counted as positions or not."""

    def variant(row: Row, rows: Sequence[Row], window: Window) -> Attention | None:
        if row.padding is None:
            return None
        attention = with_tokens(attention_of(row, window), row.padding, 0, window)
        if not of_prompt:
            attention.visible[row.pad : row.pad + len(row.prompt), : row.pad] = False
        return attention if counts else attention.at(np.maximum(attention.positions - row.pad, 0), window)

    return variant


def mask_stays(row: Row, rows: Sequence[Row], window: Window) -> Attention | None:
    """Decoded tokens see and hide the columns of the row that stood here before."""
    if row.stayed is None or row.padding is None:
        return None
    attention = with_tokens(attention_of(row, window), row.padding, 0, window)
    start = row.pad + len(row.prompt) + row.skip
    attention.visible[row.pad : start, : row.pad] = False
    attention.visible[start:, : row.stayed.pad] = False
    return attention.at(np.maximum(attention.positions - row.pad, 0), window)


def with_removed(count: int | None, *, moves: bool, of_the_start: bool = False) -> Variant:
    """Return the variant in which removed tokens stay, all or `count`, and count as positions or not.

    With `of_the_start`, as many tokens of the beginning are gone instead.
    """

    def variant(row: Row, rows: Sequence[Row], window: Window) -> Attention | None:
        if row.removed is None:
            return None
        extra, at = row.removed[:count], len(row.prompt)
        attention = with_tokens(attention_of(row, window), extra, at, window)
        positions = attention.positions.copy()
        if not moves:
            positions[at + len(extra) :] -= len(extra)
        if of_the_start:
            attention.visible[at + len(extra) :, : len(extra)] = False
        return attention.at(positions, window)

    return variant


def with_before(*, restarts: bool, of_prompt: bool) -> Variant:
    """Return the variant in which tokens of an earlier prefill stay in the cache, and count as positions or not."""

    def variant(row: Row, rows: Sequence[Row], window: Window) -> Attention | None:
        if row.before is None:
            return None
        count, attention = len(row.before), with_tokens(attention_of(row, window), row.before, 0, window)
        if not of_prompt:
            attention.visible[count : count + len(row.prompt), :count] = False
        positions = attention.positions.copy()
        positions[count:] -= count * restarts
        return attention.at(positions, window)

    return variant


def as_row(change: Callable[[Row], Row | None]) -> Variant:
    """Return the variant in which the row is another one."""

    def variant(row: Row, rows: Sequence[Row], window: Window) -> Attention | None:
        other = change(row)
        return None if other is None else attention_of(other, window)

    return variant


def move_keys(times: int) -> Variant:
    """Return the variant in which cached keys are moved by so many shifts too far."""

    def variant(row: Row, rows: Sequence[Row], window: Window) -> Attention | None:
        if not row.shift:
            return None
        attention = attention_of(row, window)
        is_prompt = np.arange(len(attention.positions)) < len(row.prompt)
        positions = attention.positions + times * row.shift * is_prompt
        return attention.at(positions - positions.min(), window)

    return variant


def within_calls(row: Row) -> Ints:
    """Return the number of each decoded token in its call."""
    return np.concatenate([np.arange(count) for count in row.calls])


def first_row(row: Row, rows: Sequence[Row]) -> Ints:
    """Return the positions of decoded tokens of the first row, which was another one before `reorder`."""
    first, number = rows[0], token_numbers(row)
    before = len((first.stayed or first).prompt)
    return row.shift + number + np.where(number < row.skip, before, len(first.prompt))


def of_stayed(row: Row, rows: Sequence[Row]) -> Ints | None:
    """Return the positions that decoded tokens would have in the row that stood here before."""
    if row.stayed is None:
        return None
    number = token_numbers(row)
    return number + np.where(number < row.skip, len(row.prompt), len(row.stayed.prompt))


def token_numbers(row: Row) -> Ints:
    """Return the number of each decoded token, `(decoded,)`."""
    return np.arange(len(row.decoded))


def ends(row: Row) -> Ints:
    """Return the number of tokens after the call of each decoded token, `(decoded, 1)`."""
    return row.starts[:, None] + np.repeat(row.calls, row.calls)[:, None]


def calls_since(row: Row, length: int) -> Ints:
    """Return in how many earlier calls of `decode` each decoded token could read each key, `(decoded, length)`."""
    call = np.repeat(range(len(row.calls)), row.calls)
    written = np.concatenate([np.full(length - len(call), -1), call])
    return np.maximum(call[:, None] - written - 1, 0)
