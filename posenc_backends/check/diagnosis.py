"""Judging answers: how far off they are, and which mistake gives the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from posenc_backends.conformance.errors import ulp_of

from .calls import Question
from .candidates import Float64s, Sketch
from .hypotheses import Hypothesis
from .search import Search, tried
from .signatures import Form

# A table that is faithfully rounded is off by one unit in the last place of a cosine and a sine, two products by half a
# one each, their sum by half a one: 3.4 units of the length of the pair, where that is just above a power of two.
LIMIT = 4.0
FITS = 8.0  # a mistake is reproduced as nearly: frameworks' own sines are off by as much again
NEAR = 128  # up to here float32 angles are off by no more than their size, in last places, beside any other mistake
UNKNOWN = "differs, cause unknown"
AS_GOOD_AS_ZERO = 2.0**64  # units in the last place of a number: what is off by more says nothing of them
ROWS = (3, 13)  # of an answer, from which its cause is found: first of a few


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
        far = f"by {self.off:.3g} ulp" if self.off < AS_GOOD_AS_ZERO else "where the number is 0"
        return f"{self.name}{where}: {self.told}. Off {far}; first {self.start}"


def errors(form: Form, sketch: Sketch, question: Question, got: tuple[Float64s, ...]) -> list[Float64s]:
    """How far each number of an answer is off from what a sketch gives, in units in the last place."""
    wanted = form.wanted(sketch, question.tokens, got[0].shape[-1])
    with np.errstate(invalid="ignore"):  # of infinity, where a sketch rounds to float16
        return [
            np.abs(one.reshape(right.shape) - right) / ulp_of(form.sizes(sketch, right), question.dtype)
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
    unknown: set[str] = set()  # the dtypes of calls that no hypothesis explains
    for number, each in enumerate(answers):
        if each.worst <= LIMIT:
            continue
        question, before = each.question, answers[:number]
        search = Search(is_wide=question.dtype not in unknown, is_deep=not unknown)
        for cause, outputs in _causes(form, each, tried(question, [one.question for one in before], known, search)):
            hypothesis = _named(cause, question, before, always)
            one = _mistake(form, each, hypothesis, outputs)
            found[one.name] = _merged(found[one.name], one) if one.name in found else one
            if hypothesis is None:
                unknown.add(question.dtype)
            elif not hypothesis.is_state and hypothesis not in known:
                known.append(hypothesis)
            if question.dtype == "float32":
                always.add(one.name)
    return [replace(each, outputs=()) if set(each.outputs) == set(form.outputs) else each for each in found.values()]


def _merged(one: Mistake, other: Mistake) -> Mistake:
    """The same mistake in two calls."""
    outputs, questions = (dict.fromkeys((*a, *b)) for a, b in zip(_shown(one), _shown(other), strict=True))
    return replace(one, outputs=tuple(outputs), questions=tuple(questions), off=max(one.off, other.off))


def _shown(one: Mistake) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return one.outputs, one.questions


def _causes(
    form: Form, one: Answer, hypotheses: Iterable[Hypothesis]
) -> Iterator[tuple[Hypothesis | None, tuple[str, ...]]]:
    """The simplest mistake of all outputs that are off, or one for each of them; None stands for an unknown cause."""
    wrong = [number for number, off in enumerate(one.off) if off > LIMIT]
    causes: dict[int, Hypothesis | None] = dict.fromkeys(wrong)
    for each in hypotheses:
        shown = _reproduced(form, each, one, wrong)
        if len(shown) == len(wrong):
            causes = dict.fromkeys(wrong, each)
            break
        causes |= {number: each for number in shown if causes[number] is None}
    for cause in dict.fromkeys(causes.values()):
        yield cause, tuple(form.outputs[number] for number in wrong if causes[number] == cause)


def _reproduced(form: Form, hypothesis: Hypothesis, one: Answer, outputs: list[int]) -> list[int]:
    """Which of these outputs are as the hypothesis has it, and much nearer to it than to the right ones.

    A few rows tell that most hypotheses are wrong.
    """
    for most in ROWS:
        outputs = _of_rows(form, hypothesis, one, outputs, one.question.rows(most)) if outputs else []
    return outputs


def _of_rows(
    form: Form, hypothesis: Hypothesis, one: Answer, outputs: list[int], rows: npt.NDArray[np.int64] | None
) -> list[int]:
    question = one.question.at(rows)
    got = one.got if rows is None else tuple(each[..., rows, :] for each in one.got)
    best: list[Float64s] = []
    fit: list[int] = []
    for sketch in hypothesis.sketches(one.question.sketch):
        try:
            off = [_by_column(each) for each in errors(form, sketch.at(rows), question, got)]
        except (TypeError, ValueError):
            continue
        best = [np.minimum(*pair) for pair in zip(best, off, strict=True)] if best else off
        fit = [number for number in outputs if _fits(best[number], number, question, form, got)]
        if len(fit) == len(outputs):
            break
    return fit


def _fits(best: Float64s, number: int, question: Question, form: Form, got: tuple[Float64s, ...]) -> bool:
    off, reach = float(best.max(initial=0)), float(np.abs(question.positions).max(initial=0))
    if off > FITS + (reach if reach <= NEAR else 0):
        return False
    right = errors(form, question.sketch, question, got)[number]
    return 2 * off <= float(right.max(initial=0))


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
