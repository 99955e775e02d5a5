"""`check_cache`: a right decoder agrees with itself, and planted mistakes have their names."""

import json
import re
from contextlib import redirect_stdout
from copy import deepcopy
from io import StringIO
from pathlib import Path

import numpy as np
import pytest

from posenc_backends.check.cache import check_cache
from posenc_backends.cli.main import main

from .small_decoder import Small


def decoding(state):
    """Whether this call is one of `decode`."""
    return hasattr(state, "prompt")


class StartLost(Small):
    def next_positions(self, state, count):
        return count + np.zeros_like(state.start)[:, None]


class StartOffByOne(Small):
    def next_positions(self, state, count):
        return super().next_positions(state, count) + decoding(state)


class StartCountsCalls(Small):
    trim = None

    def next_positions(self, state, count):
        if not decoding(state):
            return super().next_positions(state, count)
        state.calls = state.calls + 1 if hasattr(state, "calls") else 0
        return state.start[:, None] - (state.positions.shape[1] - state.prompt) + state.calls + count


class OnePosition(Small):
    def next_positions(self, state, count):
        return super().next_positions(state, count * (not decoding(state)))


class RotatedTwice(Small):
    def key_positions(self, state, positions):
        keys = super().key_positions(state, positions)
        return 2 * keys if decoding(state) else keys


class RotatedInEachCall(Small):
    def key_positions(self, state, positions):
        if not decoding(state):
            return super().key_positions(state, positions)
        length = positions.shape[1]
        old = getattr(state, "rotated", state.positions[:, :-length])
        state.rotated = np.concatenate([old + state.positions[:, :-length], state.positions[:, -length:]], axis=1)
        return state.rotated


class NotRotated(Small):
    def key_positions(self, state, positions):
        keys = super().key_positions(state, positions)
        keys[:, : -positions.shape[1]] = 0
        return keys


class FirstRow(Small):
    def next_positions(self, state, count):
        positions = super().next_positions(state, count)
        return np.broadcast_to(positions[:1], positions.shape) if decoding(state) else positions


class PaddingCounts(Small):
    def next_positions(self, state, count):
        return state.positions.shape[1] + count


class PaddingSeen(Small):
    def visible(self, state, length):
        return np.broadcast_to(
            np.tri(state.positions.shape[1], dtype=bool)[-length:], super().visible(state, length).shape
        )


class MaskFromTheFirstKey(Small):
    def visible(self, state, length):
        return super().visible(state, length) & np.tri(length, state.positions.shape[1], dtype=bool)


class NoMaskInACall(Small):
    def visible(self, state, length):
        seen = super().visible(state, length)
        seen[..., -length:] |= decoding(state)
        return seen


class NotCached(Small):
    def decode(self, tokens, state):
        outputs, _ = super().decode(tokens, state)
        state = deepcopy(state)
        state.start = state.start + tokens.shape[1]
        return outputs, state


class LastLost(Small):
    def visible(self, state, length):
        seen = super().visible(state, length)
        if decoding(state):
            seen[..., state.prompt - 1] = False
        return seen


class WindowShifted(Small):
    window = 12

    def visible(self, state, length):
        self.window = 12 - decoding(state)
        seen = super().visible(state, length)
        self.window = 12
        return seen


class RingOneEarly(Small):
    window = 12

    def visible(self, state, length):
        seen, count = super().visible(state, length), state.positions.shape[1]
        if not decoding(state) or length > 1:
            return seen
        kept = {token % self.window: token for token in range(state.prompt)}
        kept |= {(token + 1) % self.window: token for token in range(state.prompt, count)}
        return np.isin(np.arange(count), list(kept.values()))[None, None] & state.is_token[:, None]


class Sinks(Small):
    window, sinks = 8, 2

    def prefill(self, tokens):
        return super().prefill(tokens, np.ones(tokens.shape[:2], bool))


class SinksStay(Sinks):
    def key_positions(self, state, positions):
        return state.positions


class SinksLost(Sinks):
    def visible(self, state, length):
        seen = super().visible(state, length)
        if decoding(state) and state.positions.shape[1] > self.window:
            seen[..., : state.positions.shape[1] - self.window] = False
        return seen


class PositionStays(Small):
    def trim(self, state, count):
        state = super().trim(state, count)
        state.start = state.start + count
        return state


class TrimKeepsOne(Small):
    def trim(self, state, count):
        state = super().trim(state, count - 1)
        state.start = state.start - 1
        return state


class TrimsTheBeginning(Small):
    def trim(self, state, count):
        state = deepcopy(state)
        state.is_token[:, :count] = False
        return state


class NotReordered(Small):
    def reorder(self, state, rows):
        return state


class KeysReordered(Small):
    def reorder(self, state, rows):
        return super().reorder(state, rows, names=("keys",))


class PositionsNotReordered(Small):
    def reorder(self, state, rows):
        return super().reorder(state, rows).__class__(**vars(super().reorder(state, rows)) | {"start": state.start})


class MaskNotReordered(Small):
    def reorder(self, state, rows):
        other = super().reorder(state, rows)
        other.is_token = state.is_token
        return other


class KeepsTheFirst(Small):
    kept = None

    def prefill(self, tokens, mask):
        if self.kept is None or len(self.kept.start) != len(tokens):
            self.kept = self.empty(len(tokens))
        return self.run(tokens, self.kept, mask)


class OneState(Small):
    def prefill(self, tokens, mask):
        outputs, self.state = super().prefill(tokens, mask)
        return outputs, None

    def decode(self, tokens, state):
        outputs, self.state = super().decode(tokens, self.state)
        return outputs, None

    def trim(self, state, count):
        self.state = super().trim(self.state, count)

    def reorder(self, state, rows):
        self.state = super().reorder(self.state, rows)

    def move(self, state, by):
        self.state = super().move(self.state, by)


class KeysNotMoved(Small):
    def move(self, state, by):
        state = deepcopy(state)
        state.start = state.start + by
        return state


class PositionNotMoved(Small):
    def move(self, state, by):
        state = deepcopy(state)
        state.positions = state.positions + by
        return state


class WrongSign(Small):
    def move(self, state, by):
        state = super().move(state, by)
        state.positions = state.positions - 2 * by
        return state


class MovedTwice(Small):
    def move(self, state, by):
        state = super().move(state, by)
        state.positions = state.positions + by
        return state


MISTAKES = {
    StartLost: "start lost when decoding",
    StartOffByOne: "start off by one",
    StartCountsCalls: "start counts calls",
    OnePosition: "one position for a call",
    RotatedTwice: "keys rotated twice",
    RotatedInEachCall: "keys rotated twice",
    NotRotated: "keys not rotated",
    FirstRow: "positions of the first row",
    PaddingSeen: "padding is seen",
    MaskFromTheFirstKey: "causal mask aligned to the first key",
    NoMaskInACall: "no causal mask in a call",
    NotCached: "decoded tokens not cached",
    LastLost: "last token of the prompt lost",
    WindowShifted: "window shifted",
    RingOneEarly: "wrong place in the ring",
    SinksStay: "sinks not moved",
    SinksLost: "sinks lost",
    PositionStays: "position stays after trim",
    TrimKeepsOne: "trim keeps keys",
    TrimsTheBeginning: "trim cuts the beginning",
    NotReordered: "reorder ignored",
    KeysReordered: "cache reordered in part",
    PositionsNotReordered: "positions not reordered",
    MaskNotReordered: "mask not reordered",
    KeepsTheFirst: "cache of an earlier prefill",
    OneState: "state shared by two sequences",
    KeysNotMoved: "keys not moved, or the position twice",
    PositionNotMoved: "keys moved twice, or the position not",
    WrongSign: "keys moved by the wrong sign",
    MovedTwice: "keys moved twice, or the position not",
}


@pytest.mark.parametrize("decoder", [Small, Sinks])
def test_a_right_decoder_agrees(decoder):
    result = check_cache(decoder())
    assert result.status == 0, result
    assert not result.remarks


@pytest.mark.parametrize("decoder", MISTAKES)
def test_a_mistake_is_named(decoder):
    result = check_cache(decoder())
    assert result.names == (MISTAKES[decoder],), result
    assert result.status == 1


class Raises(Small):
    def trim(self, state, count):
        raise RuntimeError("no room")


class WithoutFull(TrimKeepsOne):
    full = None


@pytest.mark.parametrize(
    ("name", "status", "texts"),
    [
        ("Small", 0, ["agrees with itself without a cache, in 9 uses", "not asked: past the window (no `window`)"]),
        ("RotatedTwice", 1, ["does not conform: keys rotated twice", "differs: decode (", "First in decode"]),
        ("WithoutFull", 1, ["does not conform: trim wrong", "By the pattern, not by the same numbers."]),
        ("Raises", 2, ["failed", "trim failed: it raised RuntimeError: no room"]),
        ("MISTAKES", 3, []),
    ],
)
def test_the_command_has_four_statuses(name, status, texts, tmp_path, capsys):
    file = tmp_path / "result.json"
    assert main(["check", "--cache", f"{__name__}:{name}", "--json", str(file)]) == status
    out = " ".join(capsys.readouterr().out.split())
    assert all(text in out for text in texts), out
    assert not texts or json.loads(file.read_text())["status"] == status


def test_what_cannot_be_checked_is_said():
    for changes, message in (
        ({"prefill": None}, "must have a function `prefill`"),
        ({"vocabulary": 8}, "one attribute of `vocabulary`"),
        ({"window": 100}, "`window` must be"),
        ({"dtype": "int8"}, "`dtype` must be"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            check_cache(type("Changed", (Small,), changes)())
    assert main(["check", "--cache", "mine:Decoder", "--form", "table"]) == 3
    assert "infinity or NaN" in str(check_cache(type("Nan", (Small,), {"layers": lambda self, x, *rest: x * np.nan})()))


def test_the_page_shows_what_is_found():
    page = (Path(__file__).parents[2] / "docs" / "howto" / "check.md").read_text("utf-8")
    code, asked, wanted = re.search(
        r"```python\n(# decoder\.py.*?)```.*?```python\n(.*?)```.*?:class: output\n(.*?)```", page, re.DOTALL
    ).groups()
    with redirect_stdout(StringIO()) as printed:
        exec(code + asked, {"__name__": "decoder"})  # noqa: S102
    assert printed.getvalue() == wanted


def test_the_tutorial_s_transformer_agrees():
    program = Path(__file__).parents[2] / "docs" / "howto" / "programs" / "cache_tutorial.py"
    assert main(["check", "--cache", f"{program}:Decoder"]) == 0
