"""The cases that every room passes: native results against golden numbers made with mpmath.

The test suite and `posenc report` both iterate over `cases()`, so that they cannot disagree.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from types import ModuleType

from posenc_backends import load
from posenc_backends.conformance import tooling as modes
from posenc_backends.conformance.checks import additive as additive_checks
from posenc_backends.conformance.checks import attention as attention_checks
from posenc_backends.conformance.checks import content as content_checks
from posenc_backends.conformance.checks import peer_bugs as defects
from posenc_backends.conformance.checks import scoring as scoring_checks
from posenc_backends.conformance.checks import tables as checks
from posenc_backends.conformance.errors import ROTARY_KINDS, Entry, Outcome, Subject

SHARE = 6


@dataclass(frozen=True)
class Case:
    """One comparison: what is checked (`table`, `forward`, `gradient`, …, or a mode), of which encoding, in which dtype."""

    check: str
    encoding: str
    subject: str
    dtype: str
    run: Callable[[Subject], Outcome]
    is_mode: bool = False
    is_slow: bool = False  # left to runs that take their time

    @property
    def name(self) -> str:
        return self.subject if self.subject.startswith(self.check) else f"{self.check}: {self.subject}"

    def gap(self, room: ModuleType) -> str | None:
        """Why the room cannot pass, if it says so of this case, its check, its specimen, its dtype, its encoding or its kind.

        `"forward: Alibi"` are all cases of that check and encoding, `"cast: MultiHeadAttention"` those of that layer.
        """
        specimen = self.name.removeprefix(f"{self.check}: ")
        kinds = (f"{self.check}: {kind}" for kind in (self.encoding, specimen.partition(",")[0]))
        keys = (self.name, self.check, specimen, self.dtype, self.encoding, *kinds)
        told = (room.GAPS.get(key) for key in keys)
        return next((reason for reason in told if reason), None)


def subject(name: str) -> Subject:
    """The room of this name, ready to be tested.

    Raises:
        ImportError: if its framework is not installed.
    """
    room = load(name)
    folder = "posenc_backends.conformance.frameworks"
    return Subject(room, *(import_module(f"{folder}.{name}{part}") for part in ("", "_tooling")))


def in_modes(on: Subject) -> Iterator[Case]:
    """Every layer with every encoding in each of the modes that a framework has.

    One in `SHARE` is quick, by turns: each mode takes every sixth specimen, and the next mode those that follow.
    """
    entries = list(enumerate(golden("modes")))
    for turn, mode in enumerate(on.modes.MODES):
        for place, entry in entries:
            yield _in_mode(mode, entry, partial(modes.forward, mode=mode), place + turn)
    for turn, mode in enumerate(on.modes.GRADIENT_MODES):
        for place, entry in entries:
            if entry["gradient"] is not None:
                yield _in_mode(f"gradient, {mode}", entry, partial(modes.gradient, mode=mode), place + turn)


def _in_mode(check: str, entry: Entry, measure: Callable[..., Outcome], number: int) -> Case:
    return replace(_case(check, entry, measure), is_mode=True, is_slow=number % SHARE > 0)


def cases() -> Iterator[Case]:
    """All cases that every room has, from tables to attention, and then what peers get wrong."""
    for entry in golden("seeds") + golden("sinusoidal"):
        yield _case("table", entry, checks.additive_table)
    for entry in golden("rope_models") + golden("scalings"):
        yield _case("table", entry, checks.rotary_table)
    for entry in golden("addition") + golden("additive_sums") + golden("rotation") + golden("turns"):
        yield _case("forward", entry, checks.forward)
        yield _case("gradient", entry, checks.gradient)
        yield from _compiled(entry)
    for entry in golden("alibi"):
        yield _case("forward", entry, checks.bias)
        yield _case("compiled", entry, checks.compiled_bias)
        if entry["dtype"] == "float32":
            yield _case("gradient", entry, checks.bias_gradient)
    for entry in golden("content_scoring"):
        yield from _content(entry)
    yield from _position_scoring()
    for entry in golden("attention"):
        yield from _attention(entry)
    for entry in [each for whole in golden("attend") for each in (whole, _by_block(whole))]:
        yield _case("forward", entry, attention_checks.alone)
        if entry["gradient"]:
            yield _case("gradient", entry, attention_checks.alone_gradient)
    for check, name, measure in _REST:
        for entry in golden(name):
            yield _case(check, entry, measure)


_REST: tuple[tuple[str, str, Callable[..., Outcome]], ...] = (
    ("forward", "learned", checks.learned),
    ("gradient", "learned", checks.learned_gradient),
    ("resized", "resizing", checks.resized),
    ("table", "additive_tables", additive_checks.table),
    ("gradient", "position_gradients", additive_checks.position_gradient),
    ("forward", "learned_sinusoidal", checks.learned_rotary),
    ("compiled", "learned_sinusoidal", checks.compiled_learned_rotary),
    ("gradient", "learned_sinusoidal", additive_checks.learned_gradient),
    ("forward", "learned_rotary", checks.learned_rotary),
    ("compiled", "learned_rotary", checks.compiled_learned_rotary),
    ("gradient", "learned_rotary", checks.learned_rotary_gradient),
    ("defect", "defects", defects.defect),
    ("saved", "saved", checks.saved),
)


def _compiled(entry: Entry) -> Iterator[Case]:
    """Compiled from position 0 on; at positions that only the running program knows; and past the table."""
    rotary, positions = entry["encoding"]["kind"] in ROTARY_KINDS, entry["positions"]
    if positions == list(range(len(positions))):
        if rotary or entry["dtype"] == "float32":
            yield _case("compiled", entry, checks.compiled)
        if rotary and entry["dtype"] == "float32":
            beyond = entry | {"name": f"{entry['name']}, past the table"}
            yield _case("compiled", beyond, checks.compiled_past_the_table)
    elif entry["encoding"].get("unit") != "turn":  # whose positions are real
        yield _case("compiled", entry, checks.compiled_positions)


def _content(entry: Entry) -> Iterator[Case]:
    """An encoding that looks at queries and keys, as a layer of its own and inside attention."""
    inside = entry | {"name": f"{entry['name']}, in attention"}
    yield _case("forward", entry, content_checks.biased)
    yield _case("compiled", entry, content_checks.compiled_biased)
    yield _case("gradient", entry, content_checks.biased_gradient)
    by_block = entry["causal"] and entry["encoding"]["kind"] != "Cope"
    for each in (inside, _by_block(inside, 3)) if by_block else (inside,):
        yield _case("forward", each, content_checks.attended)
        yield _case("gradient", each, content_checks.attended_gradient)


def _by_block(entry: Entry, block: int = 2) -> Entry:
    """The same of `attend_by_block`, of so many queries and keys at a time."""
    return entry | {"name": f"{entry['name']}, by block", "block": block}


def _attention(entry: Entry) -> Iterator[Case]:
    """A `MultiHeadAttention` in one call, or piece by piece with a cache."""
    if entry["cuts"]:
        yield _case("forward", entry, attention_checks.cut)
        return
    yield _case("forward", entry, attention_checks.attention)
    if "positions" not in entry["options"]:  # those of rotary encodings lie past the table
        yield _case("compiled", entry, attention_checks.compiled_attention)
    yield _case("gradient", entry, attention_checks.attention_gradient)


def _position_scoring() -> Iterator[Case]:
    """Encodings that look at positions alone; compiled once for each kind and each formula."""
    constants, learned = golden("scoring_constants"), golden("position_scoring")
    formulas = [entry for entry in learned if entry["dtype"] == "float32"]
    for entry in constants + learned:
        yield _case("forward", entry, scoring_checks.scored)
    for entry in [*{entry["encoding"]["kind"]: entry for entry in constants}.values(), *formulas]:
        yield _case("compiled", entry, scoring_checks.compiled_scored)
    for entry in formulas:
        yield _case("gradient", entry, scoring_checks.scored_gradient)


def _case(check: str, entry: Entry, measure: Callable[..., Outcome]) -> Case:
    encoding = entry["encoding"]["kind"] if entry.get("encoding") else "MultiHeadAttention"
    return Case(check, encoding, entry["name"], entry.get("dtype", "float32"), partial(measure, entry=entry))


def golden(name: str) -> list[Entry]:
    """The golden numbers of this name: those of the installed package, or of the checkout."""
    folder = files("posenc_backends").joinpath("golden")
    if not folder.is_dir():
        folder = Path(__file__).parents[2] / "tests" / "golden"
    entries: list[Entry] = json.loads(folder.joinpath(f"{name}.json").read_text(encoding="utf-8"))
    return entries


def results(name: str, *, modes: bool = False) -> Iterator[dict[str, object]]:
    """The number of cases in the room of this name, and the outcome of each, as plain data; a failure says why."""
    on = subject(name)
    chosen = [*cases(), *(in_modes(on) if modes else ())]
    yield {"cases": len(chosen)}
    for case in chosen:
        began = time.perf_counter()
        told: dict[str, object] = {"case": case.name, "check": case.check, "encoding": case.encoding}
        told["is_mode"] = case.is_mode
        gap = case.gap(on.room)
        try:
            outcome = case.run(on)
            told |= {"passed": outcome.passed, "worst": outcome.worst, "limit": outcome.limit}
        except Exception as error:  # noqa: BLE001 - whatever a framework raises is the outcome of its case
            told |= {"passed": False, "error": f"{type(error).__name__}: {error}"}
        yield told | {"gap": gap, "seconds": time.perf_counter() - began}
