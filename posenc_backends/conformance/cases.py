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

from posenc_backends import load
from posenc_backends.conformance import tooling as modes
from posenc_backends.conformance.checks import additive as additive_checks
from posenc_backends.conformance.checks import attention as attention_checks
from posenc_backends.conformance.checks import content as content_checks
from posenc_backends.conformance.checks import peer_bugs as defects
from posenc_backends.conformance.checks import scoring as scoring_checks
from posenc_backends.conformance.checks import tables as checks
from posenc_backends.conformance.errors import ROTARY_KINDS, BackendUnderTest, GoldenCase, Measurement

SHARE = 6


@dataclass(frozen=True)
class Case:
    """One comparison: what is checked (`table`, `forward`, `gradient`, …, or a mode), of which encoding, in which dtype."""

    check: str
    encoding: str
    label: str
    dtype: str
    run: Callable[[BackendUnderTest], Measurement]
    is_mode: bool = False
    is_slow: bool = False  # left to runs that take their time

    @property
    def name(self) -> str:
        return self.label if self.label.startswith(self.check) else f"{self.check}: {self.label}"

    def known_failure(self, known: dict[str, str]) -> str | None:
        """Why the room cannot pass, if it says so of this case, its check, its specimen, its dtype, its encoding or its kind.

        `"forward: Alibi"` are all cases of that check and encoding, `"cast: MultiHeadAttention"` those of that layer.
        """
        layer_case = self.name.removeprefix(f"{self.check}: ")
        kinds = (f"{self.check}: {kind}" for kind in (self.encoding, layer_case.partition(",")[0]))
        keys = (self.name, self.check, layer_case, self.dtype, self.encoding, *kinds)
        return next((known[key] for key in keys if key in known), None)


def backend_under_test(name: str) -> BackendUnderTest:
    """The room of this name, ready to be tested.

    Raises:
        ImportError: if its framework is not installed.
    """
    backend = load(name)
    folder = "posenc_backends.conformance.frameworks"
    return BackendUnderTest(backend, import_module(f"{folder}.{name}"))


def in_modes(on: BackendUnderTest) -> Iterator[Case]:
    """Every layer with every encoding in each of the modes that a framework has.

    One in `SHARE` is quick, by turns: each mode takes every sixth specimen, and the next mode those that follow.
    """
    golden_cases = list(enumerate(golden("modes")))
    for turn, mode in enumerate(on.testing.MODES):
        for place, golden_case in golden_cases:
            yield _in_mode(mode, golden_case, partial(modes.forward, mode=mode), place + turn)
    for turn, mode in enumerate(on.testing.GRADIENT_MODES):
        for place, golden_case in golden_cases:
            if golden_case["gradient"] is not None:
                yield _in_mode(f"gradient, {mode}", golden_case, partial(modes.gradient, mode=mode), place + turn)


def _in_mode(check: str, golden_case: GoldenCase, measure: Callable[..., Measurement], number: int) -> Case:
    return replace(_case(check, golden_case, measure), is_mode=True, is_slow=number % SHARE > 0)


def cases() -> Iterator[Case]:
    """All cases that every room has, from tables to attention, and then what peers get wrong."""
    for golden_case in golden("seeds") + golden("sinusoidal"):
        yield _case("table", golden_case, checks.additive_table)
    for golden_case in golden("rope_models") + golden("scalings"):
        yield _case("table", golden_case, checks.rotary_table)
    for golden_case in golden("addition") + golden("additive_sums") + golden("rotation") + golden("turns"):
        yield _case("forward", golden_case, checks.forward)
        yield _case("gradient", golden_case, checks.gradient)
        yield from _compiled(golden_case)
    for golden_case in golden("alibi"):
        yield _case("forward", golden_case, checks.bias)
        yield _case("compiled", golden_case, checks.compiled_bias)
        if golden_case["dtype"] == "float32":
            yield _case("gradient", golden_case, checks.bias_gradient)
    for golden_case in golden("content_scoring"):
        yield from _content(golden_case)
    yield from _position_scoring()
    for golden_case in golden("attention"):
        yield from _attention(golden_case)
    for golden_case in [each for whole in golden("attend") for each in (whole, _by_block(whole))]:
        yield _case("forward", golden_case, attention_checks.alone)
        if golden_case["gradient"]:
            yield _case("gradient", golden_case, attention_checks.alone_gradient)
    for check, name, measure in _REST:
        for golden_case in golden(name):
            yield _case(check, golden_case, measure)


_REST: tuple[tuple[str, str, Callable[..., Measurement]], ...] = (
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


def _compiled(golden_case: GoldenCase) -> Iterator[Case]:
    """Compiled from position 0 on; at positions that only the running program knows; and past the table."""
    rotary, positions = golden_case["encoding"]["kind"] in ROTARY_KINDS, golden_case["positions"]
    if positions == list(range(len(positions))):
        if rotary or golden_case["dtype"] == "float32":
            yield _case("compiled", golden_case, checks.compiled)
        if rotary and golden_case["dtype"] == "float32":
            beyond = golden_case | {"name": f"{golden_case['name']}, past the table"}
            yield _case("compiled", beyond, checks.compiled_past_the_table)
    elif golden_case["encoding"].get("unit") != "turn":  # whose positions are real
        yield _case("compiled", golden_case, checks.compiled_positions)


def _content(golden_case: GoldenCase) -> Iterator[Case]:
    """An encoding that looks at queries and keys, as a layer of its own and inside attention."""
    inside = golden_case | {"name": f"{golden_case['name']}, in attention"}
    yield _case("forward", golden_case, content_checks.biased)
    yield _case("compiled", golden_case, content_checks.compiled_biased)
    yield _case("gradient", golden_case, content_checks.biased_gradient)
    by_block = golden_case["causal"] and golden_case["encoding"]["kind"] != "Cope"
    for each in (inside, _by_block(inside, 3)) if by_block else (inside,):
        yield _case("forward", each, content_checks.attended)
        yield _case("gradient", each, content_checks.attended_gradient)


def _by_block(golden_case: GoldenCase, block: int = 2) -> GoldenCase:
    """The same of `attend_by_block`, of so many queries and keys at a time."""
    return golden_case | {"name": f"{golden_case['name']}, by block", "block": block}


def _attention(golden_case: GoldenCase) -> Iterator[Case]:
    """A `MultiHeadAttention` in one call, or piece by piece with a cache."""
    if golden_case["cuts"]:
        yield _case("forward", golden_case, attention_checks.cut)
        return
    yield _case("forward", golden_case, attention_checks.attention)
    if "positions" not in golden_case["options"]:  # those of rotary encodings lie past the table
        yield _case("compiled", golden_case, attention_checks.compiled_attention)
    yield _case("gradient", golden_case, attention_checks.attention_gradient)


def _position_scoring() -> Iterator[Case]:
    """Encodings that look at positions alone; compiled once for each kind and each formula."""
    constants, learned = golden("scoring_constants"), golden("position_scoring")
    formulas = [golden_case for golden_case in learned if golden_case["dtype"] == "float32"]
    for golden_case in constants + learned:
        yield _case("forward", golden_case, scoring_checks.scored)
    for golden_case in [
        *{golden_case["encoding"]["kind"]: golden_case for golden_case in constants}.values(),
        *formulas,
    ]:
        yield _case("compiled", golden_case, scoring_checks.compiled_scored)
    for golden_case in formulas:
        yield _case("gradient", golden_case, scoring_checks.scored_gradient)


def _case(check: str, golden_case: GoldenCase, measure: Callable[..., Measurement]) -> Case:
    encoding = golden_case["encoding"]["kind"] if golden_case.get("encoding") else "MultiHeadAttention"
    return Case(
        check,
        encoding,
        golden_case["name"],
        golden_case.get("dtype", "float32"),
        partial(measure, golden_case=golden_case),
    )


def golden(name: str) -> list[GoldenCase]:
    """The golden numbers of this name: those of the installed package, or of the checkout."""
    folder = files("posenc_backends").joinpath("golden")
    if not folder.is_dir():
        folder = Path(__file__).parents[2] / "tests" / "golden"
    golden_cases: list[GoldenCase] = json.loads(folder.joinpath(f"{name}.json").read_text(encoding="utf-8"))
    return golden_cases


def results(name: str, *, modes: bool = False) -> Iterator[dict[str, object]]:
    """The number of cases in the room of this name, and the outcome of each, as plain data; a failure says why."""
    on = backend_under_test(name)
    chosen = [*cases(), *(in_modes(on) if modes else ())]
    yield {"cases": len(chosen)}
    for case in chosen:
        began = time.perf_counter()
        told: dict[str, object] = {"case": case.name, "check": case.check, "encoding": case.encoding}
        told["is_mode"] = case.is_mode
        gap = case.known_failure(on.known_failures)
        try:
            measurement = case.run(on)
            told |= {"passed": measurement.passed, "worst": measurement.worst, "limit": measurement.limit}
        except Exception as error:  # noqa: BLE001 - whatever a framework raises is the outcome of its case
            told |= {"passed": False, "error": f"{type(error).__name__}: {error}"}
        yield told | {"gap": gap, "seconds": time.perf_counter() - began}
