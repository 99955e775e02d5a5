"""Run a check of a cache: use it in many ways, and compare with the decoder without one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from posenc_core._array_api.checks import check_integer

from ..candidates import Float64s
from ..frameworks import CallError, framework_of, imported_frameworks
from .attention import Attention, Row, attention_of
from .faults import FAULTS, KEPT, Fault
from .protocol import Calls, Decoder, calls_of_decoder
from .result import PART, UNKNOWN, CacheResult, Outcome
from .trials import SCENARIOS, Scenario, Trial
from .variants import Variant

AGAIN = "the same prompt again"
DIGITS = {"float64": 52, "float32": 23, "float16": 10, "bfloat16": 7}


def check_cache(decoder: Decoder | Any, *, framework: str | None = None, seed: int = 0) -> CacheResult:
    """Check whether a decoder with a cache gives the outputs that it gives without one, and name its mistake if not.

    Each use of the cache is tried with two random sequences: decode token by token, several tokens in a call, past the
    window, left padding, trim, reorder, a second prefill, two states, move. The outputs must be those of a prefill of
    the same tokens, within the square root of the precision of their dtype, as a part of the largest number. A mistake
    is named if the decoder without its cache, at the positions and with the keys of that mistake, gives the outputs of
    both sequences; a name that follows only from which outputs differ says so.

    Args:
        decoder: an object with the functions and attributes of `Decoder`.
        framework: the framework whose arrays it takes; by default the one that its module imports.
        seed: of the tokens.
    Returns:
        The result: `status`, `names`, `outcomes`, `not_asked` and more; as a string, a report.
    Raises:
        TypeError, ValueError: if the check cannot run.
        ImportError: if the framework is not installed.

    >>> import numpy as np
    >>> class Sum:  # of all tokens so far
    ...     width = 4
    ...     def prefill(self, tokens):
    ...         return self.decode(tokens, 0.0)
    ...     def decode(self, tokens, state):
    ...         sums = state + np.cumsum(tokens, axis=1)
    ...         return sums, sums[:, -1:]
    >>> result = check_cache(Sum())
    >>> result.status, result.not_asked[0]
    (0, 'past the window (no `window`)')
    """
    seed = check_integer("seed", seed, minimum=0)
    prefill: Any = getattr(decoder, "prefill", type(decoder))
    name = framework or imported_frameworks(prefill)[0]
    calls = calls_of_decoder(decoder, framework_of(name))
    check = _Check(calls, seed)
    again = check.prefill_again()
    if again.names or again.failure:
        check.not_asked.append("all else")
        outcomes = [again]
    else:
        outcomes = [again, *(one for one in map(check.try_scenario, SCENARIOS) if one is not None)]
        if not any(one.names for one in outcomes):
            check.note_shown()
    return CacheResult(
        framework=name,
        dtype=next(iter(calls.dtypes), "no outputs"),
        limit=check.limit,
        outcomes=tuple(_name_by_uses(outcomes)),
        not_asked=tuple(check.not_asked),
        shown=tuple(one.name for one in FAULTS if one.name in check.shown),
        hidden=tuple(one.name for one in FAULTS if one.name in check.hidden - check.shown),
        remarks=tuple(dict.fromkeys(check.remarks)),
    )


class _Check:
    """A check in progress: the mistakes found so far, and the uses that agree."""

    def __init__(self, calls: Calls, seed: int):
        self.calls, self.seed = calls, seed
        self.known: list[Fault] = []
        self.not_asked: list[str] = []
        self.remarks: list[str] = []
        self.agreed: list[tuple[Calls, Trial, list[Float64s]]] = []
        self.shown: set[str] = set()
        self.hidden: set[str] = set()

    @property
    def limit(self) -> float:
        """The difference that is allowed: half of the digits of the dtype of outputs."""
        return 2.0 ** (-DIGITS[next(iter(self.calls.dtypes), "float32")] / 2)

    def prefill_again(self) -> Outcome:
        """Return what the second prefill of the same prompt gave."""
        prompt = self.calls.draw(np.random.default_rng((self.seed, 2)), 2, 5)
        try:
            first, again = (self.calls.prefill(prompt, "the same prompt of 5 tokens twice")[0] for _ in range(2))
        except CallError as error:
            return Outcome(name=AGAIN, failure=str(error))
        rows = (Row(prompt=own, decoded=own[:0], calls=(), before=own, with_prompt=True) for own in prompt)
        trial = Trial(tuple(rows), list(again[:, -1:]))
        errors = _errors(trial.outputs, list(first[:, -1:]))
        worst = max(float(error.max()) for error in errors)
        if worst <= self.limit:
            return Outcome(name=AGAIN, error=worst)
        self.remarks.append("the same prompt gives other outputs: a state is kept, or dropout is on")
        is_kept = any(self._gives(self.calls, trial, variant, by_full=True) for variant in KEPT.variants)
        name, first_place = KEPT.name if is_kept else UNKNOWN, _first(AGAIN, [errors], [trial], self.limit)
        return Outcome(name=AGAIN, error=worst, names=(name,), first=first_place)

    def try_scenario(self, scenario: Scenario) -> Outcome | None:
        """Return what a use of the cache gave; None if it was not asked."""
        why = scenario.why_not(self.calls)
        if why is not None:
            self.not_asked.append(f"{scenario.name} ({why})")
            return None
        generators = [np.random.default_rng((self.seed, number)) for number in range(2)]
        try:
            trials = [scenario.run(self.calls, one, number) for number, one in enumerate(generators)]
            right = [self.calls.evaluate(_right(self.calls, trial)) for trial in trials]
        except CallError as error:
            return Outcome(name=scenario.name, failure=str(error))
        expected = [one for one in right if one is not None]
        if len(expected) < len(trials):
            self.not_asked.append(f"{scenario.name} (sinks need `full`, with positions of keys if sinks move)")
            return None
        calls = self._with_trust(trials, expected)
        errors = [_errors(trial.outputs, wanted) for trial, wanted in zip(trials, expected, strict=True)]
        worst = max(float(error.max()) for one in errors for error in one)
        if worst <= self.limit:
            self.agreed.append((calls, trials[0], expected[0]))
            return Outcome(name=scenario.name, error=worst)
        found = self._fault(calls, trials)
        name = _name_by_rows(calls, trials, errors, self.limit) if found is None else found.name
        if found is not None:
            self.known = [found, *(one for one in self.known if one != found)]
        first = _first(scenario.name, errors, trials, self.limit)
        return Outcome(name=scenario.name, error=worst, names=(name,), first=first, by_pattern=name == PART)

    def _with_trust(self, trials: Sequence[Trial], expected: Sequence[list[Float64s]]) -> Calls:
        """Return the calls, without `full` if it is another function than `prefill`."""
        if not self.calls.has("full"):
            self.remarks.append("mistakes of positions and masks have no names without a function `full`")
            return self.calls
        try:
            outputs = [self.calls.evaluate(_right(self.calls, trial), by_full=True) for trial in trials]
        except CallError as error:
            self.remarks.append(f"`full` is left out: {error}")
            return self.calls._replace(trusts_full=False)
        worst = max(
            (float(error.max()) for one, wanted in zip(outputs, expected, strict=True) if one is not None
             for error in _errors(one, wanted)),
            default=0.0,
        )  # fmt: skip
        if worst <= self.limit:
            return self.calls
        self.remarks.append(f"`full` is left out, it differs from `prefill` by {worst:.1g}")
        return self.calls._replace(trusts_full=False)

    def _fault(self, calls: Calls, trials: Sequence[Trial]) -> Fault | None:
        """Return the mistake that gives the outputs of both trials."""
        others = (one for one in FAULTS if one not in self.known)
        for fault in (*self.known, *others):
            for variant in fault.variants:
                if all(self._gives(calls, trial, variant) for trial in trials):
                    return fault
        return None

    def _gives(self, calls: Calls, trial: Trial, variant: Variant, *, by_full: bool = False) -> bool:
        """Return whether a trial has the outputs of a mistake, or the right ones where it changes nothing."""
        attentions = _attentions(calls, trial, variant)
        outputs = None if attentions is None else calls.evaluate(attentions, by_full=by_full)
        return outputs is not None and all(
            float(error.max()) <= self.limit for error in _errors(trial.outputs, outputs)
        )

    def note_shown(self) -> None:
        """Note which mistakes would have changed the outputs of the trials, which all agree."""
        for fault in FAULTS:
            for variant in fault.variants:
                for calls, trial, expected in self.agreed:
                    attentions = _attentions(calls, trial, variant)
                    if attentions is None or _are_same(attentions, _right(calls, trial)):
                        continue
                    outputs = calls.evaluate(attentions)
                    if outputs is not None:
                        is_shown = any(float(error.max()) > self.limit for error in _errors(outputs, expected))
                        (self.shown if is_shown else self.hidden).add(fault.name)


def _name_by_uses(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Return the uses with a name for each that differs for an unknown cause, where no part of it differs.

    Decoding is a part of all uses, and each of them may pass the window; padding and `reorder` are parts of both.
    """
    differ = {one.name for one in outcomes if one.names}
    both = {"reorder with padding"}
    more = differ - {"decode", "past the window"}
    parts = {"decode": {*more, "past the window"}, "past the window": more, "left padding": both, "reorder": both}
    covered = set().union(*(parts.get(name, set()) for name in differ))
    return [
        replace(one, names=(f"{one.name} wrong",), by_pattern=True)
        if UNKNOWN in one.names and one.name not in covered
        else one
        for one in outcomes
    ]


def _right(calls: Calls, trial: Trial) -> list[Attention]:
    return [attention_of(row, calls.window) for row in trial.rows]


def _attentions(calls: Calls, trial: Trial, variant: Variant) -> list[Attention] | None:
    """Return what the rows of a trial compute with a mistake; None if it changes nothing there."""
    attentions = [variant(row, trial.rows, calls.window) for row in trial.rows]
    if any(one is None for one in attentions):
        return None
    return [one for one in attentions if one is not None]


def _are_same(attentions: Sequence[Attention], others: Sequence[Attention]) -> bool:
    return all(one.computes(other) for one, other in zip(attentions, others, strict=True))


def _errors(outputs: Sequence[Float64s], expected: Sequence[Float64s]) -> list[Float64s]:
    """Return the largest difference of each token of each row, as a part of the largest number that is expected."""
    largest = max(float(np.abs(one).max()) for one in expected) or 1.0
    return [
        np.abs(got - want).reshape(len(got), -1).max(axis=1) / largest
        for got, want in zip(outputs, expected, strict=True)
    ]


def _name_by_rows(calls: Calls, trials: Sequence[Trial], errors: Sequence[list[Float64s]], limit: float) -> str:
    """Return the name that follows from which rows differ in both trials: a reorder that moves a part."""
    for trial, of_rows in zip(trials, errors, strict=True):
        for row, error in zip(trial.rows, of_rows, strict=True):
            if row.stayed is None or (error.max() > limit) != _is_moved(row):
                return UNKNOWN
        stayed = calls.evaluate(
            [attention_of(row.stayed, calls.window) for row in trial.rows if row.stayed is not None]
        )
        if stayed is None or any(
            error.max() <= limit and _is_moved(row)
            for row, error in zip(trial.rows, _errors(trial.outputs, stayed), strict=True)
        ):
            return UNKNOWN
    return PART


def _is_moved(row: Row) -> bool:
    if row.stayed is None:
        return False
    pairs = (row.prompt, row.stayed.prompt), (row.decoded, row.stayed.decoded)
    return not all(np.array_equal(one, other) for one, other in pairs)


def _first(name: str, errors: Sequence[list[Float64s]], trials: Sequence[Trial], limit: float) -> str:
    """Return where outputs begin to differ, and in which rows."""
    of_rows = errors[0] if any(error.max() > limit for error in errors[0]) else errors[1]
    trial = trials[0] if of_rows is errors[0] else trials[1]
    wrong = [number for number, error in enumerate(of_rows) if error.max() > limit]
    token = min(int(np.argmax(of_rows[number] > limit)) - trial.rows[number].with_prompt for number in wrong)
    where = "the last token of the prompt" if token < 0 else f"decoded token {token}"
    rows = "all rows" if len(wrong) == len(of_rows) else f"rows {wrong} of {len(of_rows)}"
    return f"First in {name}, {where}, {rows}."
