"""The cases that every backend passes: native results against golden numbers made with mpmath.

The tests and `posenc report` both run `cases()`, so they cannot disagree.
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

from . import tooling
from .checks import additive, attention, content, peer_bugs, scoring, tables
from .errors import LEARNED, ROTARY_KINDS, BackendUnderTest, GoldenCase, Measurement

SHARE = 12


@dataclass(frozen=True)
class Case:
    """One check (`table`, `forward`, `gradient`, …, or a mode) of one encoding in one dtype.

    Attributes:
        check: the name of the check, or of the mode.
        encoding: the class of the encoding.
        label: the name of the golden case.
        dtype: the dtype of the tokens.
        run: the function that measures a backend.
        is_mode: whether a tool of the framework is applied to the layer.
        is_slow: whether the case is left to `nox -s slow`.
    """

    check: str
    encoding: str
    label: str
    dtype: str
    run: Callable[[BackendUnderTest], Measurement]
    is_mode: bool = False
    is_slow: bool = False

    @property
    def name(self) -> str:
        """The name of the case in tests and reports."""
        return self.label if self.label.startswith(self.check) else f"{self.check}: {self.label}"

    @property
    def kind(self) -> str | None:
        """The class of the encoding that its golden case describes, also that of positions in attention."""
        encoding = self.run.keywords["case"].get("encoding")  # type: ignore[attr-defined]
        return encoding["kind"] if isinstance(encoding, dict) else None

    def known_failure(self, known: dict[str, str]) -> str | None:
        """Return why the backend cannot pass, or None if it must.

        A key of `known` is the name of a case, its label, a check, a dtype, an encoding, or a check with an encoding,
        with or without a dtype, or with a layer: `"forward: Alibi"`, `"cast: MultiHeadAttention"`.
        """
        label = self.name.removeprefix(f"{self.check}: ")
        layer = label.partition(",")[0]
        keys = [self.name, self.check, label, self.dtype, self.encoding]
        keys += [
            f"{self.check}: {self.encoding}",
            f"{self.check}: {self.encoding}, {self.dtype}",
            f"{self.check}: {layer}",
        ]
        return next((known[key] for key in keys if key in known), None)


def backend_under_test(name: str, device: str | None = None) -> BackendUnderTest:
    """Return the backend of this name, with the module that tests it; its arrays lie on `device` from then on.

    Raises:
        ImportError: if its framework is not installed.
        ValueError: if the framework has no such device here, or the suite does not choose the devices of this backend.
    """
    backend, testing = load(name), import_module(f"{__package__}.frameworks.{name}")
    on = BackendUnderTest(testing if getattr(testing, "MAKES_LAYERS", False) else backend, testing)
    if device is not None:
        if not hasattr(on.testing, "use_device"):
            raise ValueError(f"`device` goes with the backend torch, got {device!r} for {name}; leave it out.")
        on.testing.use_device(device)
    return on


def cases() -> Iterator[Case]:
    """Yield the cases of every backend, from tables to attention, and then the defects of other libraries."""
    for golden_case in golden("seeds") + golden("sinusoidal"):
        yield _case("table", golden_case, tables.additive_table)
    for golden_case in golden("rope_models") + golden("scalings"):
        yield _case("table", golden_case, tables.rotary_table)
    for golden_case in golden("addition") + golden("additive_sums") + golden("rotation") + golden("turns"):
        yield _case("forward", golden_case, tables.forward)
        yield _case("gradient", golden_case, tables.gradient)
        yield from _compiled(golden_case)
    for golden_case in golden("alibi"):
        yield _case("forward", golden_case, tables.bias)
        yield _case("compiled", golden_case, partial(tables.bias, is_compiled=True))
        if golden_case["dtype"] == "float32":
            yield _case("gradient", golden_case, tables.bias_gradient)
    for golden_case in golden("content_scoring"):
        yield from _content(golden_case)
    yield from _position_scoring()
    for golden_case in golden("attention"):
        yield from _attention(golden_case)
    yield from _attend()
    for check, name, measure in _ONE_CHECK_EACH:
        for golden_case in golden(name):
            yield _case(check, golden_case, measure)


_ONE_CHECK_EACH: tuple[tuple[str, str, Callable[..., Measurement]], ...] = (
    ("forward", "learned", tables.learned),
    ("gradient", "learned", tables.learned_gradient),
    ("resized", "resizing", tables.resized),
    ("table", "additive_tables", tables.additive_table),
    ("table", "query_scale", tables.query_factors),
    ("forward", "learned_query_scale", tables.given_parameters),
    ("gradient", "learned_query_scale", tables.gradients_of_parameters),
    ("forward", "fope", tables.given_parameters),
    ("gradient", "fope", tables.gradients_of_parameters),
    ("forward", "mixed_rotary", partial(tables.given_parameters, limit=LEARNED)),
    ("gradient", "mixed_rotary", partial(tables.gradients_of_parameters, limit=LEARNED)),
    ("forward", "pope", tables.polar),
    ("gradient", "pope", tables.polar_gradient),
    ("table", "remapping", tables.remapped_tables),
    ("gradient", "position_gradients", additive.position_gradient),
    ("forward", "learned_sinusoidal", tables.learned_rotary),
    ("compiled", "learned_sinusoidal", partial(tables.learned_rotary, is_compiled=True)),
    ("gradient", "learned_sinusoidal", additive.learned_gradient),
    ("forward", "learned_rotary", tables.learned_rotary),
    ("compiled", "learned_rotary", partial(tables.learned_rotary, is_compiled=True)),
    ("gradient", "learned_rotary", tables.learned_rotary_gradient),
    ("defect", "defects", peer_bugs.defect),
    ("saved", "saved", tables.saved),
)


def cases_of(on: BackendUnderTest, *, modes: bool = True) -> Iterator[Case]:
    """Yield the cases that a backend runs: those of every backend, and layers in its modes."""
    runs = getattr(on.testing, "runs", lambda check, encoding: True)
    for case in (*cases(), *(in_modes(on) if modes else ())):
        if runs(case.check, case.kind):
            yield case


def in_modes(on: BackendUnderTest) -> Iterator[Case]:
    """Yield every layer with every encoding in each mode of the framework.

    All but one in `SHARE` are slow: a mode takes every twelfth golden case, the next mode those after them.
    """
    golden_cases = golden("modes")
    for offset, mode in enumerate(on.testing.MODES):
        for number, golden_case in enumerate(golden_cases, start=offset):
            yield _in_mode(mode, golden_case, partial(tooling.forward, mode=mode), number)
    for offset, mode in enumerate(on.testing.GRADIENT_MODES):
        for number, golden_case in enumerate(golden_cases, start=offset):
            if golden_case["gradient"] is not None:
                yield _in_mode(f"gradient, {mode}", golden_case, partial(tooling.gradient, mode=mode), number)


def golden(name: str) -> list[GoldenCase]:
    """Return the golden cases of this name, from the installed package or from the checkout."""
    folder = files("posenc_backends").joinpath("golden")
    if not folder.is_dir():
        folder = Path(__file__).parents[2] / "tests" / "golden"
    return json.loads(folder.joinpath(f"{name}.json").read_text(encoding="utf-8"))


def results(name: str, *, modes: bool = False, device: str | None = None) -> Iterator[dict[str, object]]:
    """Yield the number of cases of a backend, and then the result of each as plain data."""
    on = backend_under_test(name, device)
    yield from run_cases(on, [*cases_of(on, modes=modes)])


def run_cases(on: BackendUnderTest, chosen: list[Case]) -> Iterator[dict[str, object]]:
    """Yield the number of cases, and then the result of each as plain data."""
    yield {"cases": len(chosen)}
    for case in chosen:
        result: dict[str, object] = {
            "case": case.name,
            "check": case.check,
            "encoding": case.encoding,
            "is_mode": case.is_mode,
            "gap": case.known_failure(on.known_failures),
        }
        began = time.perf_counter()
        try:
            measurement = case.run(on)
            result |= {"passed": measurement.passed, "worst": measurement.worst, "limit": measurement.limit}
        except Exception as error:  # noqa: BLE001 - any error of a framework is the result of its case
            result |= {"passed": False, "error": f"{type(error).__name__}: {error}"}
        yield result | {"seconds": time.perf_counter() - began}


def _case(check: str, golden_case: GoldenCase, measure: Callable[..., Measurement]) -> Case:
    encoding = golden_case["encoding"]["kind"] if golden_case.get("encoding") else "MultiHeadAttention"
    dtype = golden_case.get("dtype", "float32")
    return Case(check, encoding, golden_case["name"], dtype, partial(measure, case=golden_case))


def _in_mode(check: str, golden_case: GoldenCase, measure: Callable[..., Measurement], number: int) -> Case:
    return replace(_case(check, golden_case, measure), is_mode=True, is_slow=number % SHARE > 0)


def _compiled(golden_case: GoldenCase) -> Iterator[Case]:
    """Yield compiled cases: from position 0 on and past the table, or at traced positions."""
    is_rotary, positions = golden_case["encoding"]["kind"] in ROTARY_KINDS, golden_case["positions"]
    if positions == list(range(len(positions))):
        if is_rotary or golden_case["dtype"] == "float32":
            yield _case("compiled", golden_case, tables.compiled)
        if is_rotary and golden_case["dtype"] == "float32":
            past_the_table = golden_case | {"name": f"{golden_case['name']}, past the table"}
            yield _case("compiled", past_the_table, tables.compiled_past_the_table)
    elif golden_case["encoding"].get("unit") != "turn":  # whose positions are real
        yield _case("compiled", golden_case, tables.compiled_positions)


def _content(golden_case: GoldenCase) -> Iterator[Case]:
    """Yield a content-based encoding as a layer and inside attention."""
    yield _case("forward", golden_case, content.biased)
    yield _case("compiled", golden_case, partial(content.biased, is_compiled=True))
    yield _case("gradient", golden_case, content.biased_gradient)
    in_attention = golden_case | {"name": f"{golden_case['name']}, in attention"}
    variants = [in_attention]
    if golden_case["causal"] and golden_case["encoding"]["kind"] != "Cope":
        variants.append(_by_block(in_attention, 3))
    for variant in variants:
        yield _case("forward", variant, content.attended)
        yield _case("gradient", variant, content.attended_gradient)


def _by_block(golden_case: GoldenCase, block: int = 2) -> GoldenCase:
    """Return the same case for `attend_by_block`, with this many queries and keys per block."""
    return golden_case | {"name": f"{golden_case['name']}, by block", "block": block}


def _attend() -> Iterator[Case]:
    """Yield `attend` and its gradient, each also by block."""
    for in_one_pass in golden("attend"):
        for golden_case in (in_one_pass, _by_block(in_one_pass)):
            yield _case("forward", golden_case, attention.attend_alone)
            if golden_case["gradient"]:
                yield _case("gradient", golden_case, attention.attend_gradient)


def _attention(golden_case: GoldenCase) -> Iterator[Case]:
    """Yield a `MultiHeadAttention` in one call, or piece by piece with a cache."""
    if golden_case["cuts"]:
        yield _case("forward", golden_case, attention.cached_attention)
        return
    yield _case("forward", golden_case, attention.attention)
    if "positions" not in golden_case["options"]:  # those of rotary encodings lie past the table
        yield _case("compiled", golden_case, partial(attention.attention, is_compiled=True))
    yield _case("gradient", golden_case, attention.attention_gradient)


def _position_scoring() -> Iterator[Case]:
    """Yield the scoring encodings that use positions alone; compiled once per class and once per learned formula."""
    constants, learned = golden("scoring_constants"), golden("position_scoring")
    formulas = [golden_case for golden_case in learned if golden_case["dtype"] == "float32"]
    by_class = {golden_case["encoding"]["kind"]: golden_case for golden_case in constants}
    for golden_case in constants + learned:
        yield _case("forward", golden_case, scoring.scored)
    for golden_case in [*by_class.values(), *formulas]:
        yield _case("compiled", golden_case, partial(scoring.scored, is_compiled=True))
    for golden_case in formulas:
        yield _case("gradient", golden_case, scoring.scored_gradient)
