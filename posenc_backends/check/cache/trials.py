"""The sequences that a decoder is given, and what it should return for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..candidates import Float64s
from .attention import Row, Tokens
from .protocol import Calls

SIZES = ((7, 4), (5, 3))  # tokens of the prompt and after it, in the first and in the second trial
REMOVED = 3
SHIFT = 37
PADS = ((3, 0, 4), (2, 4, 0))
ROWS = ((1, 1, 0), (2, 0, 2))  # of beams: each moves to a row with at least as much padding


class Trial(NamedTuple):
    """Rows, and the outputs of the decoder for each."""

    rows: tuple[Row, ...]
    outputs: list[Float64s]


class Scenario(NamedTuple):
    """A use of the cache: its name, how to try it, and why it is not tried with a decoder, if it is not."""

    name: str
    run: Callable[[Calls, np.random.Generator, int], Trial]
    why_not: Callable[[Calls], str | None] = lambda calls: None


def decode_all(calls: Calls, tokens: Tokens, state: Any, parts: Sequence[int], place: str) -> tuple[Float64s, Any]:
    """Return the outputs of several calls of `decode`, and the state."""
    found, at = [], 0
    for count in parts:
        outputs, state = calls.decode(tokens[:, at : at + count], state, place)
        found.append(outputs)
        at += count
    return np.concatenate(found, axis=1), state


def _decode(calls: Calls, generator: np.random.Generator, sizes: tuple[int, int], parts: tuple[int, ...] = ()) -> Trial:
    count, more = sizes
    tokens, parts = calls.draw(generator, 2, count + more), parts or (1,) * more
    place = f"a prompt of {count} tokens, then {' + '.join(map(str, parts)) if len(parts) < 9 else f'{more} × 1'}"
    first, state = calls.prefill(tokens[:, :count], place)
    outputs, _ = decode_all(calls, tokens[:, count:], state, parts, place)
    rows = (Row(prompt=own[:count], decoded=own[count:], calls=parts, with_prompt=True) for own in tokens)
    return Trial(tuple(rows), list(np.concatenate([first[:, -1:], outputs], axis=1)))


def decode(calls: Calls, generator: np.random.Generator, number: int) -> Trial:
    """Decode token by token."""
    return _decode(calls, generator, SIZES[number])


def continue_in_one_call(calls: Calls, generator: np.random.Generator, number: int) -> Trial:
    """Continue at an offset with several tokens in a call."""
    return _decode(calls, generator, (SIZES[number][0], 8), ((1, 4, 3), (5, 1, 2))[number])


def past_the_window(calls: Calls, generator: np.random.Generator, number: int) -> Trial:
    """Decode until the window has passed the prompt; the second prompt is longer, if there are no sinks."""
    width = calls.window.places
    count = max(width - 2, 1) if calls.window.sinks or not number else width + 3
    return _decode(calls, generator, (count - number * bool(calls.window.sinks), width + 3))


def pad(calls: Calls, generator: np.random.Generator, number: int) -> Trial:
    """Decode after prompts of different lengths."""
    (count, more), pads = SIZES[number], PADS[number]
    tokens = calls.draw(generator, 3, count + more)
    place = f"prompts of {', '.join(str(count - pad) for pad in pads)} tokens, padded on the left"
    first, state = calls.prefill(tokens[:, :count], place, pads)
    outputs, _ = decode_all(calls, tokens[:, count:], state, (1,) * more, place)
    return Trial(_padded_rows(tokens, pads, count, more), list(np.concatenate([first[:, -1:], outputs], axis=1)))


def _padded_rows(tokens: Tokens, pads: Sequence[int], count: int, more: int) -> tuple[Row, ...]:
    return tuple(
        Row(prompt=own[pad:count], decoded=own[count:], calls=(1,) * more, pad=pad, padding=own[:pad], with_prompt=True)
        for own, pad in zip(tokens, pads, strict=True)
    )


def trim(calls: Calls, generator: np.random.Generator, number: int) -> Trial:
    """Decode, remove tokens of decoding and of the prompt, and decode others."""
    count, more = SIZES[number]
    tokens, removed = calls.draw(generator, 2, count + more), calls.draw(generator, 2, REMOVED)
    place = f"{count + REMOVED} tokens, of which `trim` removes {REMOVED}"
    _, state = calls.prefill(np.concatenate([tokens[:, :count], removed[:, :1]], axis=1), place)
    _, state = decode_all(calls, removed[:, 1:], state, (1,) * (REMOVED - 1), place)
    state = calls.change("trim", state, REMOVED, place)
    outputs, _ = decode_all(calls, tokens[:, count:], state, (1,) * more, place)
    rows = (
        Row(prompt=own[:count], decoded=own[count:], calls=(1,) * more, removed=gone)
        for own, gone in zip(tokens, removed, strict=True)
    )
    return Trial(tuple(rows), list(outputs))


def _reorder(calls: Calls, generator: np.random.Generator, number: int, pads: Sequence[int]) -> Trial:
    (count, more), order = SIZES[number], ROWS[number]
    tokens = calls.draw(generator, 3, count + 1 + more)
    place = f"3 rows after {count + 1} tokens, reordered to {order}"
    _, state = calls.prefill(tokens[:, :count], place, pads)
    _, state = calls.decode(tokens[:, count : count + 1], state, place)
    state = calls.change("reorder", state, np.array(order), place)
    outputs, _ = decode_all(calls, tokens[:, count + 1 :], state, (1,) * more, place)

    def row(number: int, parent: int, stayed: Row | None) -> Row:
        start, own = pads[parent], tokens[parent]
        return Row(
            prompt=own[start:count],
            decoded=np.concatenate([own[count : count + 1], tokens[number, count + 1 :]]),
            calls=(1,) * (1 + more),
            pad=start,
            padding=own[:start] if any(pads) else None,
            stayed=stayed,
            skip=1,
        )

    rows = (row(number, parent, row(number, number, None)) for number, parent in enumerate(order))
    return Trial(tuple(rows), list(outputs))


def reorder(calls: Calls, generator: np.random.Generator, number: int) -> Trial:
    """Reorder beams of one length."""
    return _reorder(calls, generator, number, (0, 0, 0))


def reorder_padded(calls: Calls, generator: np.random.Generator, number: int) -> Trial:
    """Reorder beams of different lengths."""
    return _reorder(calls, generator, number, PADS[number])


def two_states(calls: Calls, generator: np.random.Generator, number: int) -> Trial:
    """Prefill two prompts, decode after the second, and then after the first."""
    count, more = SIZES[number]
    early, late = calls.draw(generator, 2, count + more), calls.draw(generator, 2, count + 2 + more)
    place = f"a prompt of {count} tokens, then another of {count + 2}, decoded after the first"
    _, state = calls.prefill(early[:, :count], place)
    _, other = calls.prefill(late[:, : count + 2], place)
    decode_all(calls, late[:, count + 2 :], other, (1,) * more, place)
    outputs, _ = decode_all(calls, early[:, count:], state, (1,) * more, place)
    rows = (
        Row(prompt=own[:count], decoded=own[count:], calls=(1,) * more, before=after)
        for own, after in zip(early, late, strict=True)
    )
    return Trial(tuple(rows), list(outputs))


def move(calls: Calls, generator: np.random.Generator, number: int) -> Trial:
    """Move the cached keys, and decode from there."""
    (count, more), shift = SIZES[number], SHIFT + number
    tokens = calls.draw(generator, 2, count + more)
    place = f"{count} tokens, moved by {shift} positions"
    _, state = calls.prefill(tokens[:, :count], place)
    state = calls.change("move", state, shift, place)
    outputs, _ = decode_all(calls, tokens[:, count:], state, (1,) * more, place)
    rows = (Row(prompt=own[:count], decoded=own[count:], calls=(1,) * more, shift=shift) for own in tokens)
    return Trial(tuple(rows), list(outputs))


def _missing(*names: str) -> Callable[[Calls], str | None]:
    def why(calls: Calls) -> str | None:
        missing = [f"no `{name}`" for name in names if name != "mask" and not calls.has(name)]
        missing += ["no `mask`"] * ("mask" in names and not calls.pads)
        longest = SIZES[0][0] + REMOVED
        if "trim" in names and 0 < calls.window.places < longest:
            missing.append(f"a window of less than {longest} tokens has lost what `trim` needs")
        return next(iter(missing), None)

    return why


SCENARIOS = (
    Scenario("decode", decode),
    Scenario("several tokens in a call", continue_in_one_call),
    Scenario(
        "past the window",
        past_the_window,
        lambda calls: "no `window`" if calls.window.window is None else None,
    ),
    Scenario("left padding", pad, _missing("mask")),
    Scenario("trim", trim, _missing("trim")),
    Scenario("reorder", reorder, _missing("reorder")),
    Scenario("reorder with padding", reorder_padded, _missing("reorder", "mask")),
    Scenario("two states", two_states),
    Scenario("move", move, _missing("move")),
)
