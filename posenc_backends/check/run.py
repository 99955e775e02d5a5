"""Run a check: call a function at many positions and compare with the core."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from posenc_core._array_api.checks import check_integer
from posenc_core.encodings import Encoding, Rotary
from posenc_core.encodings.notation import parse

from .calling import CallError, Framework, NotFiniteError, call, check_results, framework_of, imported_frameworks
from .calls import HALVES, MAX_POSITION, OTHER_POSITIONS, TestCall, calls_of
from .diagnosis import LIMIT, CallResult, find_mistakes, measure
from .gradients import gradient_mistake
from .program import FRAMEWORK, Program
from .result import CheckResult
from .signatures import Signature, signature_of

DEFAULT = Rotary(head_dim=64, layout="half")
MIN_POSITIONS = 20  # that test calls need


def check(
    function: Callable[..., Any],
    spec: Encoding | str = DEFAULT,
    *,
    framework: str | None = None,
    form: str | None = None,
    longest: int | None = None,
    takes: tuple[str, ...] | None = None,
    gradient: bool = True,
) -> CheckResult:
    """Check at many positions whether a function computes an encoding, and find the mistake if it does not.

    The reference is the core: exact tables, and float64 in NumPy. A mistake is reported only if the core, with that
    mistake, gives the numbers that the function returned. Errors are in ulp of the dtype of the tokens, relative to
    the length of the pair that a channel belongs to.

    Args:
        function: `(q, k, positions) -> (q, k)`; queries and keys are `(batch, heads, length, head_dim)`, positions are
            `(length,)` or `(batch, length)`. `form` allows other signatures.
        spec: the encoding, or its `repr`.
        framework: the framework whose arrays the function takes; by default one that its module imports.
        form: `"rotation"` as above, `"turn"` for `(x, positions) -> x`, `"table"` for `positions -> (cos, sin)` or
            `positions -> table`, `"addition"` for `(x, positions) -> x + rows`, `"bias"` for
            `(query_positions, key_positions) -> bias`; by default it follows from the number of arguments.
        longest: the first position that is not tested; by default 2**20, or where the encoding ends.
        takes: what the function must accept besides float32 and positions from 0: any of the dtypes `"bfloat16"` and
            `"float16"` and of the positions `"negative"` and `"real"`; by default both dtypes, which it may refuse.
        gradient: whether to check the gradient, if the framework has gradients.
    Returns:
        The result: `status`, `mistakes`, `worst` and more; as a string, a report.
    Raises:
        TypeError, ValueError: if the check cannot run.
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
        raise TypeError(f"`function` must be a function or a callable object, got {function!r}.")
    signature = signature_of(function, encoding, form)
    end = _first_untested_position(encoding, longest)
    chosen, failure = _choose_framework(function, signature, framework, end)
    optional = HALVES if takes is None else ()
    calls = tuple(calls_of(encoding, signature, end=end, takes=_checked_takes(chosen, takes), optional=optional))
    _check_positions_exist(calls)
    answers: list[CallResult] = []
    remarks: list[str] = []
    if failure is None:
        answers, remarks, failure = _call_all(function, chosen, signature, calls)
    mistakes = find_mistakes(signature, answers)
    first = next((answer for answer in answers if answer.call.name == "from elsewhere"), None)
    if gradient and signature.has_tokens and chosen.has_gradients and first is not None and first.worst <= LIMIT:
        wrong = gradient_mistake(function, chosen, signature, first.call)
        mistakes += [] if wrong is None else [wrong]
    return CheckResult(
        encoding=encoding,
        framework=chosen.name,
        form=signature.name,
        answers=tuple((answer.call.name, answer.call.dtype, answer.worst) for answer in answers),
        mistakes=tuple(mistakes),
        failure=failure,
        remarks=tuple(remarks),
    )


def _first_untested_position(encoding: Encoding, longest: int | None) -> int:
    if longest is not None:
        check_integer("longest", longest, minimum=MIN_POSITIONS)
    end = min(longest or MAX_POSITION, getattr(encoding, "max_seq_len", None) or MAX_POSITION, encoding.limit)
    if end < MIN_POSITIONS:
        raise ValueError(f"`spec` must have at least {MIN_POSITIONS} positions, got {end} of {encoding!r}.")
    return end


def _choose_framework(
    function: Callable[..., Any], signature: Signature, name: str | None, end: int
) -> tuple[Framework, str | None]:
    """Return the framework whose arrays the function takes, and why it failed if no framework works.

    Without a name, the first call is tried with each framework that the module of the function imports.
    """
    if isinstance(function, Program):
        return FRAMEWORK, None
    names = [name] if name is not None else imported_frameworks(function)
    if len(names) == 1:
        return framework_of(names[0]), None
    first = next(iter(calls_of(signature.encoding, signature, end=end, takes=(), optional=())))
    failures = []
    for candidate in names:
        framework = framework_of(candidate)
        try:
            call(function, framework, signature, first)
        except CallError as error:
            failures.append((framework, str(error)))
        else:
            return framework, None
    return failures[0]


def _checked_takes(framework: Framework, takes: tuple[str, ...] | None) -> tuple[str, ...]:
    if takes is None:
        return tuple(dtype for dtype in HALVES if framework.supports(dtype))
    choices = (*HALVES, *OTHER_POSITIONS)
    for name in takes:
        if name not in choices or (name in HALVES and not framework.supports(name)):
            raise ValueError(f"`takes` must be some of {choices} that {framework.name} has, got {name!r}.")
    return takes


def _check_positions_exist(calls: tuple[TestCall, ...]) -> None:
    """Raise `ValueError` unless the encoding is defined at the positions that `takes` names."""
    for test_call in calls:
        if test_call.name in OTHER_POSITIONS:
            try:
                test_call.expected.tables()
            except (TypeError, ValueError) as error:
                raise ValueError(f"`takes` must not ask for {test_call.name} positions: {error}") from error


def _call_all(
    function: Callable[..., Any], framework: Framework, signature: Signature, calls: tuple[TestCall, ...]
) -> tuple[list[CallResult], list[str], str | None]:
    """Return the results in order, the calls that were refused, and the failure that ended the calls."""
    answers: list[CallResult] = []
    remarks: list[str] = []
    for test_call in calls:
        try:
            results = call(function, framework, signature, test_call)
            width = results[0].shape[-1] if results[0].ndim else 0
            expected = signature.results(test_call.expected, test_call.tokens, width)
            check_results(signature, test_call, results, expected)
        except CallError as error:
            if not test_call.is_optional or isinstance(error, NotFiniteError):
                hint = f" If it has no such positions, pass `longest` {test_call.positions.min()}."
                return answers, remarks, f"{error}{hint if test_call.name == 'far' else ''}"
            remarks.append(f"not checked, {test_call.name}: {error}")
            continue
        answers.append(measure(signature, test_call, results))
    return answers, remarks, None
