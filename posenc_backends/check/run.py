"""Run a check: call a function at many positions and compare with the core."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from posenc_core._array_api.checks import (
    check_flag,
    check_integer,
    check_items,
    check_known,
    check_numbers,
    check_type,
    host_array,
    shown,
)
from posenc_core.encodings import Encoding, QKNorm, Rotary
from posenc_core.encodings.attention_encoding import QueryKeyEncoding
from posenc_core.encodings.notation import parse
from posenc_core.encodings.remapping import RemappedRotary
from posenc_core.scaling import AttentionFactor

from .budget import Budget
from .candidates import Float64s
from .frameworks import CallError, CheckedFunction, Framework, framework_of, imported_frameworks
from .normalized import normalization_of, with_norm
from .precision_classes import CLASSES, FLOAT32, HALF, ROUNDED, names_of, worst_class
from .program import FRAMEWORK, Program
from .properties import first_position_off
from .result import CheckResult
from .sample_calls import (
    HALVES,
    LIMIT_OF_POSITIONS,
    MAX_POSITION,
    OTHER_POSITIONS,
    RANDOM_CALLS,
    Caller,
    TestCall,
    calls_of,
    random_calls,
)
from .session import Session
from .signatures import Bias, signature_of

DEFAULT = Rotary(head_dim=64, layout="half")
FEW_SHAPES = 3  # of random calls in frameworks that compile for each shape
MIN_POSITIONS, MIN_OF_BIAS = 20, 4  # that test calls need
MOST_HYPOTHESES = 10_000  # for the names of mistakes; usually 2,000 to 7,000 are all, and take some 10 to 30 seconds


@np.errstate(all="ignore")  # of what a function returns
def check(  # noqa: PLR0913 - all that a check depends on
    function: Callable[..., Any],
    spec: Encoding | str = DEFAULT,
    *,
    framework: str | None = None,
    form: str | None = None,
    qk_norm: QKNorm | None = None,
    longest: int | None = None,
    takes: tuple[str, ...] | None = None,
    gradient: bool = True,
    allow: str = ROUNDED,
    parameters: Mapping[str, Any] | None = None,
    progress: Callable[[str], None] | None = None,
) -> CheckResult:
    """Check at many positions whether a function computes an encoding, and find the mistake if it does not.

    The reference is the core: exact tables, and float64 in NumPy. A mistake is reported only if the core, with that
    mistake, gives the numbers that the function returned. Errors are in ulp of the dtype of the tokens, relative to
    the length of the pair that a channel belongs to.

    Args:
        function: `(q, k, positions) -> (q, k)`; queries and keys are `(batch, heads, length, head_dim)`, positions are
            `(length,)` or `(batch, length)`; results of `PoPE` are twice as wide. `form` allows other signatures.
        spec: the encoding, or its `repr`.
        framework: the framework whose arrays the function takes; by default one that its module imports.
        form: `"rotation"` as above, `"turn"` for `(x, positions) -> x`, `"table"` for `positions -> (cos, sin)` or
            `positions -> table`, `"addition"` for `(x, positions) -> x + rows`, `"scale"` for
            `(x, positions) -> x * factor`, `"bias"` for `(query_positions, key_positions) -> bias`, `"scores"` for
            `(q, k, query_positions, key_positions) ->` what is added to the scores, `"products"` for the same
            arguments `->` products of queries and keys, of `PoPE` or where positions are remapped; by default it
            follows from the number of arguments.
        qk_norm: the norm of queries and keys beside their rotation, for the forms `"rotation"` and `"turn"`; its
            weights are given in `parameters`.
        longest: the first position that is not tested; by default 2**20, or where the encoding ends; at most 2**31.
        takes: what the function must accept besides float32 and positions from 0: any of the dtypes `"bfloat16"` and
            `"float16"` and of the positions `"negative"` and `"real"`; by default both dtypes, which it may refuse.
        gradient: whether to check gradients, if the framework has them.
        allow: the lowest class of precision that conforms, one of `CLASSES` but the last.
        parameters: for an encoding that learns, the arrays that the function uses, by the names of
            `encoding.parameters()`.
        progress: a function that is given a line of text every two seconds of a search for the mistake.
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
        raise TypeError(f"`function` must be a function or a callable object, got {shown(function)}.")
    check_known("allow", allow, CLASSES[:-1])
    gradient = check_flag("gradient", gradient)
    check_type("progress", progress, Callable | None, "a function or None")
    signature = signature_of(function, encoding, form)
    signature = signature if qk_norm is None else with_norm(signature, qk_norm)
    weights = _checked_parameters(encoding, qk_norm, parameters)
    normalization = None if qk_norm is None else normalization_of(qk_norm, weights)
    if "alpha" in weights and isinstance(encoding, QueryKeyEncoding):
        encoding, weights = _with_learned_frequencies(encoding, weights["alpha"]), {}
        signature = replace(signature, encoding=encoding)
    caller = Caller(encoding, signature, weights, normalization)
    end = _first_untested_position(encoding, longest, MIN_OF_BIAS if isinstance(signature, Bias) else MIN_POSITIONS)
    checked, failure = _with_framework(function, caller, framework, end)
    chosen = checked.framework
    optional, takes = HALVES if takes is None else (), _checked_takes(chosen, takes)
    calls = tuple(calls_of(caller, end=end, takes=takes, optional=optional))
    _check_positions_exist(calls)
    session = Session(checked, Budget(MOST_HYPOTHESES, progress))
    if failure is None:
        failure = session.run(calls)
    if failure is None and session.has_precision_only:
        shapes = FEW_SHAPES if chosen.compiles_each_shape else RANDOM_CALLS
        session.run_random(random_calls(caller, end=end, dtypes=session.dtypes[1:], num_shapes=shapes))
    if gradient and caller.signature.has_tokens:
        _check_gradients(session, failure)
    if failure is None and session.has_precision_only:
        session.check_surroundings(end)
    if session.diagnosis.budget.is_spent:
        session.cut_off = f"the search for the mistake ended after {MOST_HYPOTHESES:,} hypotheses"
    found = [*session.diagnosis.mistakes, *session.mistakes]
    precision = worst_class((one.precision for one in session.answers), names_of(found))
    first_off = None
    if failure is None and precision in (FLOAT32, HALF) and caller.signature.has_angles:
        first_off = first_position_off(checked, end)
    return CheckResult(
        encoding=encoding,
        framework=chosen.name,
        form=caller.signature.name,
        answers=tuple((answer.call.name, answer.call.dtype, answer.worst) for answer in session.answers),
        mistakes=tuple(found),
        failure=failure,
        remarks=tuple(session.remarks),
        precision=precision,
        allow=allow,
        first_off=first_off,
        smallest=session.smallest,
        qk_norm=qk_norm,
        cut_off=session.cut_off,
    )


def _check_gradients(session: Session, failure: str | None) -> None:
    framework = session.framework
    if framework is FRAMEWORK:
        session.remarks.append("not asked: gradients of a program")
    elif framework.has_gradients and failure is None:
        session.check_gradients()


def _checked_parameters(
    encoding: Encoding, norm: QKNorm | None, parameters: Mapping[str, Any] | None
) -> dict[str, Float64s]:
    """Return the parameters in float64.

    Raises:
        ValueError: if they are not those of the encoding and the norm.
    """
    learned = encoding.parameters() | ({} if norm is None else norm.parameters())
    wanted = {name: one.shape for name, one in learned.items()}
    check_type("parameters", parameters, Mapping | None, "a dict of arrays by name, or None")
    given = {name: host_array("parameters", array) for name, array in (parameters or {}).items()}
    for array in given.values():
        check_numbers("parameters", array)
    got = {name: array.shape for name, array in given.items()}
    if got != wanted:
        raise ValueError(
            f"`parameters` of {shown(encoding)} must have the names and shapes {shown(wanted)}, got {shown(got)}."
        )
    return {name: array.astype(np.float64) for name, array in given.items()}


def _with_learned_frequencies(encoding: Any, alpha: Float64s) -> Any:
    """Return the encoding with these frequencies that learns nothing; a remapped one keeps its remapping."""
    if isinstance(encoding, RemappedRotary):
        return replace(encoding, rotary=_with_learned_frequencies(encoding.rotary, alpha))
    factor = encoding.attention_factor
    names = ("head_dim", "layout", "placement", "direction", "rotary_dim")
    return Rotary(
        **{name: getattr(encoding, name) for name in names},
        frequencies=tuple(map(float, encoding.frequencies() * np.exp(alpha))),
        scaling=None if factor == 1 else AttentionFactor(attention_factor=factor),
    )


def _first_untested_position(encoding: Encoding, longest: int | None, fewest: int) -> int:
    if longest is not None:
        longest = check_integer("longest", longest, minimum=fewest, maximum=LIMIT_OF_POSITIONS)
    end = min(longest or MAX_POSITION, encoding.max_seq_len or LIMIT_OF_POSITIONS, encoding.limit)
    if end < fewest:
        raise ValueError(f"`spec` must have at least {fewest} positions, got {end} of {shown(encoding)}.")
    return end


def _with_framework(
    function: Callable[..., Any], caller: Caller, name: str | None, end: int
) -> tuple[CheckedFunction, str | None]:
    """Return the function with the framework whose arrays it takes, and why it failed if no framework works.

    Without a name, the first call is tried with each framework that the module of the function imports.
    """
    if isinstance(function, Program):
        return CheckedFunction(function, FRAMEWORK, caller), None
    names = [name] if name is not None else imported_frameworks(function)
    if len(names) == 1:
        return CheckedFunction(function, framework_of(names[0]), caller), None
    first = next(iter(calls_of(caller, end=end, takes=(), optional=())))
    failures = []
    for candidate in names:
        checked = CheckedFunction(function, framework_of(candidate), caller)
        try:
            checked.call(first)
        except CallError as error:
            failures.append((checked, str(error)))
        else:
            return checked, None
    return failures[0]


def _checked_takes(framework: Framework, takes: tuple[str, ...] | None) -> tuple[str, ...]:
    if takes is None:
        return tuple(dtype for dtype in HALVES if framework.supports(dtype))
    choices = (*HALVES, *OTHER_POSITIONS)
    for name in check_items("takes", takes, str, "strings"):
        if name not in choices or (name in HALVES and not framework.supports(name)):
            raise ValueError(f"`takes` must be some of {choices} that {framework.name} has, got {shown(name)}.")
    return takes


def _check_positions_exist(calls: tuple[TestCall, ...]) -> None:
    """Raise `ValueError` unless the encoding is defined at the positions that `takes` names."""
    for test_call in calls:
        if test_call.name in OTHER_POSITIONS:
            try:
                test_call.expected.tables()
            except (TypeError, ValueError) as error:
                raise ValueError(f"`takes` must not ask for {test_call.name} positions: {error}") from error
