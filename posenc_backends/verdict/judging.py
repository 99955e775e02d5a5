"""Judging answers: how far off they are, and which mistake gives the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from posenc_backends.measures import last_places

from .forms import Form
from .hypotheses import Hypothesis, both, of_arithmetic, of_state, plain
from .questions import Question
from .sketches import Float64s, Sketch

# A table that is faithfully rounded is off by one unit in the last place of a cosine and a sine, two products by half a
# one each, their sum by half a one: 3.4 units of the length of the pair, where that is just above a power of two.
LIMIT = 4.0
FITS = 8.0  # a mistake is reproduced as nearly: frameworks' own sines are off by as much again
NEAR = 128  # up to here float32 angles are off by no more than their size, in last places, beside any other mistake
RARE = ("wrong base", "wrong scaling", "positions reversed", "not turned")  # not looked for beside others
UNKNOWN = "differs, cause unknown"
ROWS = 13  # of an answer, from which its cause is found


class Answer(NamedTuple):
    """What a callable returned to a question, and the worst error of each output in units in the last place."""

    question: Question
    got: tuple[Float64s, ...]
    off: tuple[float, ...]

    @property
    def worst(self) -> float:
        return max(self.off)


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """A mistake that reproduces what a callable returned.

    Attributes:
        name: the mistake, such as `"layout swapped"`.
        told: what the callable does, in words.
        outputs: the outputs that show it; empty for all of them.
        questions: the calls that show it, the first first.
        off: the worst error among them, in units in the last place.
        start: where the first of them begins to differ.
    """

    name: str
    told: str
    outputs: tuple[str, ...]
    questions: tuple[str, ...]
    off: float
    start: str

    def __str__(self) -> str:
        where = f" ({' and '.join(self.outputs)})" if self.outputs else ""
        return f"{self.name}{where}: {self.told}. Off by {self.off:.3g} ulp; first {self.start}"


def errors(form: Form, sketch: Sketch, question: Question, got: tuple[Float64s, ...]) -> list[Float64s]:
    """How far each number of an answer is off from what a sketch gives, in units in the last place."""
    wanted = form.wanted(sketch, question.tokens, got[0].shape[-1])
    return [
        np.abs(one.reshape(right.shape) - right) / last_places(form.sizes(sketch, right), question.dtype)
        for one, right in zip(got, wanted, strict=True)
    ]


def answer(form: Form, question: Question, got: tuple[Float64s, ...]) -> Answer:
    """The answer, measured."""
    off = errors(form, question.sketch, question, got)
    return Answer(question, got, tuple(float(np.max(each, initial=0)) for each in off))


def mistakes(form: Form, answers: list[Answer]) -> list[Mistake]:
    """The mistakes that reproduce all answers that are off, each with the calls that show it."""
    found: dict[str, Mistake] = {}
    known: list[Hypothesis] = []
    always: set[str] = set()  # the names of those that float32 calls show before others can have spoilt them
    for number, each in enumerate(answers):
        if each.worst <= LIMIT:
            continue
        tried = list(
            _tried(each.question, [one.question for one in answers[:number]], known, deep=UNKNOWN not in found)
        )
        for cause, outputs in _causes(form, each, tried):
            hypothesis = _named(cause, each.question, answers[:number], always)
            one = _mistake(form, each, hypothesis, outputs)
            found[one.name] = _merged(found[one.name], one) if one.name in found else one
            if hypothesis is not None and not hypothesis.is_state and hypothesis not in known:
                known.append(hypothesis)
            if each.question.dtype == "float32":
                always.add(one.name)
    return [replace(each, outputs=()) if set(each.outputs) == set(form.outputs) else each for each in found.values()]


def _merged(one: Mistake, other: Mistake) -> Mistake:
    """The same mistake in two calls."""
    outputs, questions = (dict.fromkeys((*a, *b)) for a, b in zip(_shown(one), _shown(other), strict=True))
    return replace(one, outputs=tuple(outputs), questions=tuple(questions), off=max(one.off, other.off))


def _shown(one: Mistake) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return one.outputs, one.questions


def _causes(form: Form, one: Answer, tried: list[Hypothesis]) -> Iterator[tuple[Hypothesis | None, tuple[str, ...]]]:
    """The simplest mistake of all outputs that are off, or one for each of them; None stands for an unknown cause."""
    found: dict[str, list[str]] = {}
    causes: dict[str, Hypothesis | None] = {}
    wrong = [number for number, off in enumerate(one.off) if off > LIMIT]
    for numbers in (wrong, *([number] for number in wrong)):
        if any(form.outputs[number] in names for names in found.values() for number in numbers):
            continue
        cause = next((each for each in tried if _reproduces(form, each, one, numbers)), None)
        if cause is not None or len(numbers) == 1:
            name = cause.mistake if cause else ""
            causes[name] = cause
            found.setdefault(name, []).extend(form.outputs[number] for number in numbers)
    for name, outputs in found.items():
        yield causes[name], tuple(outputs)


def _tried(question: Question, earlier: list[Question], known: list[Hypothesis], *, deep: bool) -> Iterator[Hypothesis]:
    """All hypotheses of a call, the simplest first; those that explained another call come first of all.

    Two mistakes at once are tried where one of them is known, or `deep`.
    """
    yield from known
    single, narrow = list(plain(question.sketch.encoding)), list(of_arithmetic(question.sketch.encoding))
    state = list(of_state(question, earlier))
    yield from single
    yield from narrow
    yield from state
    for each in known:
        yield from (both(each, other) for other in (*single, *narrow, *state) if other != each)
    usual = [each for each in single if each.mistake not in RARE]
    for number, one in enumerate(usual if deep else []):
        yield from (both(one, other) for other in usual[number + 1 :])


def _reproduces(form: Form, hypothesis: Hypothesis, one: Answer, outputs: list[int]) -> bool:
    """Whether these outputs are as the hypothesis has it, and much nearer to it than to the right ones."""
    rows, got = one.question.rows(ROWS), one.got
    question = one.question.at(rows)
    if rows is not None:
        got = tuple(each[..., rows, :] for each in got)
    best: list[Float64s] = []
    for sketch in hypothesis.sketches(one.question.sketch):
        try:
            off = [_by_column(each) for each in errors(form, sketch.at(rows), question, got)]
        except (TypeError, ValueError):
            continue
        best = [np.minimum(*pair) for pair in zip(best, off, strict=True)] if best else off
        if _fit(best, question, form, got, outputs):
            return True
    return False


def _fit(best: list[Float64s], question: Question, form: Form, got: Any, outputs: list[int]) -> bool:
    off = [float(best[number].max(initial=0)) for number in outputs]
    if not off or max(off) > FITS + (reach if (reach := _reach(question)) <= NEAR else 0):
        return False
    right = errors(form, question.sketch, question, got)
    return all(2 * each <= float(right[number].max(initial=0)) for each, number in zip(off, outputs, strict=True))


def _reach(question: Question) -> float:
    return float(np.abs(question.positions).max(initial=0))


def _by_column(off: Float64s) -> Float64s:
    worst: Float64s = off.reshape(-1, off.shape[-1]).max(axis=0, initial=0)
    return np.where(np.isnan(worst), np.inf, worst)


def _named(cause: Hypothesis | None, question: Question, before: list[Answer], always: set[str]) -> Hypothesis | None:
    """A cause that belongs to another dtype is what a call in that dtype has left behind, if it was not there before."""
    if cause is None or cause.mistake in always:
        return cause
    dtype = next((dtype for dtype in ("bfloat16", "float16") if cause.mistake.startswith(dtype)), question.dtype)
    if dtype == question.dtype or all(each.question.dtype != dtype for each in before):
        return cause
    return cause._replace(mistake="stale cache", told=f"{cause.told}, as in the call in {dtype} before", is_state=True)


def _mistake(form: Form, one: Answer, hypothesis: Hypothesis | None, outputs: tuple[str, ...]) -> Mistake:
    name = UNKNOWN if hypothesis is None else hypothesis.mistake
    told = "no known mistake gives these numbers" if hypothesis is None else hypothesis.told
    off = max(one.off[form.outputs.index(output)] for output in outputs)
    start = f"in {one.question.told}: {_start(form, one)}"
    return Mistake(name=name, told=told, outputs=outputs, questions=(one.question.name,), off=off, start=start)


def _start(form: Form, one: Answer) -> str:
    """The first number that differs."""
    wanted = form.wanted(one.question.sketch, one.question.tokens, one.got[0].shape[-1])
    off = errors(form, one.question.sketch, one.question, one.got)
    number = next(number for number, each in enumerate(off) if not each.max(initial=0) <= LIMIT)
    at = tuple(np.argwhere(~(off[number] <= LIMIT))[0].tolist())
    got = one.got[number].reshape(wanted[number].shape)[at]
    return f"{form.outputs[number]}{list(at)} is {got:.7g}, not {wanted[number][at]:.7g}."
