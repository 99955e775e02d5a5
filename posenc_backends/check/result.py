"""The verdict on a callable: whether it computes an encoding, and if not, which mistake it makes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from typing import Any

from posenc_core._array_api.checks import check_integer
from posenc_core.encodings import Encoding, Rotary
from posenc_core.encodings.notation import parse

from .calling import Framework, NoAnswerError, NoNumbersError, ask, check_shapes, framework, frameworks_of, has
from .calls import HALVES, LONGEST, OTHERS, Question, questions
from .diagnosis import LIMIT, UNKNOWN, Answer, Mistake, answer, mistakes
from .gradients import gradient_mistake
from .signatures import Form, form_of

DEFAULT = Rotary(head_dim=64, layout="half")
FEWEST = 20  # positions that questions are made of
CONFORMS, DIFFERS, FAILED, IMPOSSIBLE = range(4)  # exit statuses


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What came of a check.

    Attributes:
        encoding: what the callable was to compute.
        framework, form: how it was called.
        answers: name, dtype and worst error of each call that was answered, in units in the last place.
        mistakes: those that reproduce what it returned.
        failure: what it raised, or returned that is no answer; None if it always answered.
        remarks: what it refused, as it may.
    """

    encoding: Encoding
    framework: str
    form: str
    answers: tuple[tuple[str, str, float], ...] = ()
    mistakes: tuple[Mistake, ...] = ()
    failure: str | None = None
    remarks: tuple[str, ...] = ()

    @property
    def status(self) -> int:
        """0 if it conforms, 1 if it does not, 2 if it failed before a mistake was seen."""
        if self.mistakes:
            return DIFFERS
        return CONFORMS if self.failure is None else FAILED

    @property
    def worst(self) -> float:
        """The worst error of all answers, in units in the last place."""
        return max((off for _, _, off in self.answers), default=0.0)

    @property
    def names(self) -> tuple[str, ...]:
        """The mistakes, each named once, also where it is made beside another."""
        told = ([each.name] if each.name == UNKNOWN else each.name.split(", ") for each in self.mistakes)
        return tuple(dict.fromkeys(chain.from_iterable(told)))

    def __str__(self) -> str:
        dtypes = ", ".join(dict.fromkeys(dtype for _, dtype, _ in self.answers))
        asked = f"{self.encoding!r}: {self.framework}, {self.form}, {len(self.answers)} calls in {dtypes}"
        first = {
            CONFORMS: f"conforms (worst {self.worst:.2g} ulp)",
            DIFFERS: f"does not conform: {', '.join(self.names)}",
            FAILED: "failed",
        }[self.status]
        failure = [] if self.failure is None else [f"  {self.failure}"]
        return "\n".join(
            [f"{first}; {asked}", *(f"  {each}" for each in self.mistakes), *failure, *(f"  {r}" for r in self.remarks)]
        )

    def to_dict(self) -> dict[str, Any]:
        """The same in types that JSON has."""
        return {
            "status": self.status,
            "spec": self.encoding.to_dict(),
            "framework": self.framework,
            "form": self.form,
            "worst": _finite(self.worst),
            "limit": LIMIT,
            "mistakes": [vars(each) | {"off": _finite(each.off)} for each in self.mistakes],
            "failure": self.failure,
            "remarks": list(self.remarks),
            "answers": [{"call": name, "dtype": dtype, "off": _finite(off)} for name, dtype, off in self.answers],
        }


def check(
    function: Callable[..., Any],
    spec: Encoding | str = DEFAULT,
    *,
    framework: str | None = None,
    form: str | None = None,
    longest: int | None = None,
    takes: tuple[str, ...] | None = None,
    gradient: bool = True,
) -> Verdict:
    """Ask a callable at many positions whether it computes an encoding, and find out which mistake it makes if not.

    The truth is that of the core: exact tables, and NumPy's float64. A mistake is named only if the core, computing
    with that mistake, gives what the callable returned; errors are counted in units in the last place of the dtype of
    the tokens, of the length of the pair that a channel is in.

    Args:
        function: `(q, k, positions) -> (q, k)`, queries and keys being `(batch, heads, length, head_dim)` and the
            positions `(length,)` or `(batch, length)`; or another `form`.
        spec: the encoding, or how it is written.
        framework: whose arrays it takes; by default those that its module imports.
        form: `"rotation"` as above, `"turn"` for `(x, positions) -> x`, `"table"` for `positions -> (cos, sin)` or
            a table, `"addition"` for `(x, positions) -> x`, `"bias"` for `(query_positions, key_positions) -> bias`;
            by default as many arguments tell.
        longest: the first position that it is not asked for; by default 2**20, or what the frequencies are for.
        takes: what it must take besides float32 and positions from 0 on: some of the dtypes `"bfloat16"`, `"float16"` and
            of the positions `"negative"`, `"real"`; by default it is asked in both dtypes and may refuse.
        gradient: whether its gradient is checked, where the framework has gradients.
    Raises:
        TypeError, ValueError: if the check cannot be made.
        ImportError: if the framework is not installed.

    >>> import numpy as np
    >>> from posenc_core import Rotary, rotate
    >>> def rope(q, k, positions):
    ...     tables = Rotary(head_dim=64, layout="half").cos_sin(positions)
    ...     cos, sin = (table if positions.ndim == 1 else table[:, None] for table in tables)
    ...     return rotate(q, cos, sin, layout="half"), rotate(k, cos, sin, layout="half")
    >>> check(rope).status
    0
    >>> [mistake.name for mistake in check(rope, "Rotary(head_dim=64, layout='interleaved')").mistakes]
    ['layout swapped']
    """
    encoding = parse(spec) if isinstance(spec, str) else spec
    if isinstance(function, type) or not callable(function):
        raise TypeError(f"`function` must be a function, or an object that is called like one, got {function!r}.")
    shape = form_of(function, encoding, form)
    limit = _limit(encoding, longest)
    world, failure = _world(function, shape, framework, limit)
    optional = HALVES if takes is None else ()
    asked = tuple(questions(encoding, shape, longest=limit, takes=_taken(world, takes), optional=optional))
    _check_answers(asked)
    known: dict[str, Any] = {"encoding": encoding, "framework": world.name, "form": shape.name}
    if failure is not None:
        return Verdict(**known, failure=failure)
    return _judged(function, world, shape, asked, known, gradient=gradient)


def _limit(encoding: Encoding, longest: int | None) -> int:
    """The first position that is not asked for."""
    if longest is not None:
        check_integer("longest", longest, minimum=FEWEST)
    limit = min(longest or LONGEST, getattr(encoding, "longest", None) or LONGEST, encoding.limit)
    if limit < FEWEST:
        raise ValueError(f"`spec` must have at least {FEWEST} positions, got {limit} of {encoding!r}.")
    return limit


def _judged(
    function: Callable[..., Any],
    world: Framework,
    form: Form,
    asked: tuple[Question, ...],
    known: dict[str, Any],
    *,
    gradient: bool,
) -> Verdict:
    """The verdict, once it is clear how to call."""
    answers, remarks, failure = _answers(function, world, form, asked)
    found = mistakes(form, answers)
    near = next((each for each in answers if each.question.name == "from elsewhere"), None)
    if gradient and form.has_arrays and world.differentiates and near is not None and near.worst <= LIMIT:
        wrong = gradient_mistake(function, world, form, near.question)
        found += [] if wrong is None else [wrong]
    told = tuple((each.question.name, each.question.dtype, each.worst) for each in answers)
    return Verdict(**known, answers=told, mistakes=tuple(found), failure=failure, remarks=tuple(remarks))


def _answers(
    function: Callable[..., Any], world: Framework, form: Form, asked: tuple[Question, ...]
) -> tuple[list[Answer], list[str], str | None]:
    """The answers in order, what was refused, and what ended the calls."""
    answers: list[Answer] = []
    remarks: list[str] = []
    for question in asked:
        try:
            got = ask(function, world, form, question)
            width = got[0].shape[-1] if got[0].ndim else 0
            check_shapes(form, question, got, form.wanted(question.sketch, question.tokens, width))
        except NoAnswerError as failed:
            if not question.is_optional or isinstance(failed, NoNumbersError):
                far = f" If it has no such positions, say so: `longest` {question.positions.min()}."
                return answers, remarks, f"{failed}{far if question.name == 'far' else ''}"
            remarks.append(f"not checked, {question.name}: {failed}")
            continue
        answers.append(answer(form, question, got))
    return answers, remarks, None


def _world(function: Callable[..., Any], form: Form, name: str | None, longest: int) -> tuple[Framework, str | None]:
    """The framework whose arrays the callable takes, found by a call if it is not named; and why none is."""
    names, failures = [name] if name is not None else frameworks_of(function), []
    question = next(iter(questions(form.encoding, form, longest=longest, takes=(), optional=())))
    for each in names if len(names) > 1 else ():
        world = framework(each)
        try:
            ask(function, world, form, question)
        except NoAnswerError as failed:
            failures.append((world, str(failed)))
        else:
            return world, None
    return failures[0] if failures else (framework(names[0]), None)


def _taken(world: Framework, takes: tuple[str, ...] | None) -> tuple[str, ...]:
    """What is asked for besides float32 and positions from 0 on."""
    if takes is None:
        return tuple(dtype for dtype in HALVES if has(world, dtype))
    for name in takes:
        if name not in (*HALVES, *OTHERS) or (name in HALVES and not has(world, name)):
            raise ValueError(f"`takes` must be some of {(*HALVES, *OTHERS)} that {world.name} has, got {name!r}.")
    return takes


def _check_answers(asked: tuple[Question, ...]) -> None:
    """Raise unless the encoding has the positions that are asked for by name."""
    for question in asked:
        if question.name in OTHERS:
            try:
                question.sketch.tables()
            except (TypeError, ValueError) as error:
                raise ValueError(f"`takes` must not ask for {question.name} positions: {error}") from error


def _finite(number: float) -> float | None:
    return number if abs(number) < float("inf") else None
