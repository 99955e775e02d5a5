"""Measure results, and find the mistake that gives the same numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, takewhile
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from posenc_backends.conformance.errors import ulp_of

from .budget import Budget
from .candidates import Candidate, Float64s
from .estimates import in_float32, wrong_biases, wrong_factors, wrong_frequencies
from .mistakes.base import IMPOSSIBLE, Mistake, possible
from .mistakes.rotary import OF_ATTENTION, SWAPPED
from .precision_classes import EXACT, UNKNOWN, class_of_call
from .sample_calls import TestCall
from .search import SearchOptions, mistakes_to_try
from .signatures import Signature

# A faithfully rounded table is off by 1 ulp in cosine and in sine, the two products by half an ulp each, their sum by
# half an ulp: together 3.4 ulp of the length of the pair, if that is just above a power of two.
LIMIT = 4.0
MATCH_LIMIT = 8.0  # how closely a mistake must be reproduced: frameworks' own sines add as much error again
SMALL_POSITION = 128  # up to here, float32 angles beside another mistake add at most as many ulp as the position
SHOULD_BE_ZERO = 2.0**64  # an error of more ulp means that the right number is 0
SMALLEST_FLOAT16 = 2.0**-24
SAMPLE_ROWS = (3, 13)  # a mistake is compared at 3 rows first, then at 13


class CallResult(NamedTuple):
    """The result of a function for a test call, with the worst error of each output in ulp, and the class of all."""

    call: TestCall
    results: tuple[Float64s, ...]
    errors: tuple[float, ...]
    precision: str = EXACT
    row_errors: npt.NDArray[np.float64] = np.zeros(0)

    def sample_rows(self, most: int) -> npt.NDArray[np.int64] | None:
        """Return at most `most` rows to compare candidates at, and the worst if these are right; None if that is all.

        The worst rows of a rounded table are those where two roundings disagree, so that others are taken first.
        """
        rows = self.call.sample_rows(most)
        if rows is None or (self.row_errors[rows] > LIMIT).any():
            return rows
        return np.unique([*rows, int(self.row_errors.argmax()), int((self.row_errors > LIMIT).argmax())])

    @property
    def worst(self) -> float:
        """The worst error of all outputs in ulp."""
        return max(self.errors)


@dataclass(frozen=True, kw_only=True)
class FoundMistake:
    """A mistake that reproduces what the function returned.

    Attributes:
        name: the mistake, such as `"layout swapped"`.
        description: what the function does, in words.
        outputs: the outputs that show it; empty if all do.
        calls: the names of the test calls that show it, in order.
        error: the worst error among them, in ulp.
        start: where the first of them begins to differ.
    """

    name: str
    description: str
    outputs: tuple[str, ...]
    calls: tuple[str, ...]
    error: float
    start: str

    def __str__(self) -> str:
        outputs = f" ({' and '.join(self.outputs)})" if self.outputs else ""
        error = f"by {self.error:.3g} ulp" if self.error < SHOULD_BE_ZERO else "where the number is 0"
        return f"{self.name}{outputs}: {self.description}. Off {error}; first {self.start}"

    def to_dict(self) -> dict[str, Any]:
        """Return the mistake in the types of JSON."""
        return {
            "name": self.name,
            "told": self.description,
            "outputs": self.outputs,
            "questions": self.calls,
            "off": finite_or_none(self.error),
            "start": self.start,
        }


def finite_or_none(number: float) -> float | None:
    """Return a number that JSON has, or None."""
    return number if abs(number) < float("inf") else None


def found_in(
    call: TestCall, name: str, description: str, *, outputs: tuple[str, ...] = (), error: float = 0.0
) -> FoundMistake:
    """Return a mistake that a call shows, and not the numbers of one row alone."""
    start = f"in {call.description}."
    return FoundMistake(
        name=name, description=description, outputs=outputs, calls=(call.name,), error=error, start=start
    )


def measure(signature: Signature, call: TestCall, results: tuple[Float64s, ...]) -> CallResult:
    """Return the results of a call with their worst errors and their class."""
    errors = _worst_errors(signature, call.expected, call, results)
    if not max(errors) <= LIMIT:
        return CallResult(call, results, errors, row_errors=_row_errors(signature, call, results))
    from_truth = _worst_errors(signature, call.expected.unrounded, call, results)
    precision = class_of_call(call.dtype, max(from_truth), max(errors))
    return CallResult(call, results, from_truth if precision == EXACT else errors, precision)


def _row_errors(signature: Signature, call: TestCall, results: tuple[Float64s, ...]) -> npt.NDArray[np.float64]:
    """Return the worst error of each row of all outputs."""
    errors = [
        np.nan_to_num(error.max(axis=-1), nan=np.inf).reshape(-1, error.shape[-2]).max(axis=0)
        for error in errors_of(signature, call.expected, call, results)
    ]
    return np.asarray(np.max(errors, axis=0))


def name_indexer(mistakes: Iterable[FoundMistake], indexer: Any, attention: Any) -> list[FoundMistake]:
    """Return the mistakes of an indexer, in which a swapped layout that is the attention's has that name."""
    is_half = attention.layout == "half"
    if is_half == (indexer.layout == "half"):
        return list(mistakes)
    return [
        replace(one, name=one.name.replace(SWAPPED, OF_ATTENTION)) if ("'half'" in one.description) == is_half else one
        for one in mistakes
    ]


def _worst_errors(
    signature: Signature, candidate: Candidate, call: TestCall, results: tuple[Float64s, ...]
) -> tuple[float, ...]:
    return tuple(float(np.max(error, initial=0)) for error in errors_of(signature, candidate, call, results))


Causes = list[tuple[Mistake | None, tuple[str, ...]]]


class Diagnosis:
    """The mistakes that reproduce the results seen so far, each with the calls that show it."""

    def __init__(self, signature: Signature, budget: Budget):
        self.signature, self.budget = signature, budget
        self.found: dict[str, FoundMistake] = {}
        self.causes: list[Causes] = []  # of each result
        self._known: list[Mistake] = []
        self._always: set[str] = set()  # shown by float32 calls, which no call in another dtype can have left behind
        self._unexplained: set[str] = set()  # dtypes of calls that no mistake explains
        self._earlier: list[CallResult] = []
        self._estimates: dict[int, Float64s] = {}  # of frequencies, by output

    @property
    def mistakes(self) -> list[FoundMistake]:
        """The mistakes, in the order in which they were found."""
        every = set(self.signature.outputs)
        return [replace(one, outputs=()) if set(one.outputs) == every else one for one in self.found.values()]

    def add(self, result: CallResult) -> None:
        """Find the causes of a result above the limit."""
        self.causes.append([] if result.worst <= LIMIT else self._explain(result))
        self._earlier.append(result)

    def _explain(self, result: CallResult) -> Causes:
        call, known = result.call, self._known
        measured = self.signature, call, result.results
        options = SearchOptions(
            with_rounding=call.dtype not in self._unexplained,
            with_pairs=not self._unexplained,
            measured=(*possible(wrong_factors, *measured), *possible(wrong_biases, *measured)),
            refined=possible(wrong_frequencies, *measured, self._estimates, False),
        )
        last = possible(wrong_frequencies, *measured, self._estimates, True)
        earlier = [one.call for one in self._earlier]
        explained = zip(self._earlier, self.causes, strict=True)
        right = [one.call for one, causes in explained if all(cause and not cause.is_of_the_end for cause, _ in causes)]
        mistakes = mistakes_to_try(call, earlier, right, known, options)
        tried = chain(takewhile(lambda _: self.budget.take(), mistakes), last)
        causes = list(_causes(self.signature, result, tried))
        causes = [(_refined(self.signature, result, cause, outputs), outputs) for cause, outputs in causes]
        for cause, outputs in causes:
            mistake = _or_stale_cache(cause, call, self._earlier, self._always)
            one = _found(self.signature, result, mistake, outputs)
            self.found[one.name] = _merge(self.found[one.name], one) if one.name in self.found else one
            if mistake is None:
                self._unexplained.add(call.dtype)
            elif not mistake.is_state and mistake not in known:
                known += self._to_try_again(mistake, call, outputs)
            if call.dtype == "float32":
                self._always.update(one.name.split(", "))
        return causes

    def _to_try_again(self, mistake: Mistake, call: TestCall, outputs: tuple[str, ...]) -> list[Mistake]:
        """Return what is tried first on later calls; for measured frequencies, these in float32, once."""
        if not mistake.is_measured:
            return [mistake]
        if any(one.description == mistake.description for one in self._known):
            return []
        number = self.signature.outputs.index(outputs[0])
        frequencies = self._estimates.get(number)
        if frequencies is None:
            return [mistake]
        rounded = in_float32(mistake, call.expected.encoding, frequencies)
        return [] if rounded is None else [rounded]


def errors_of(
    signature: Signature, candidate: Candidate, call: TestCall, results: tuple[Float64s, ...]
) -> list[Float64s]:
    """Return the distance of each number from what a candidate gives, in ulp."""
    expected = signature.results(candidate, call.tokens, results[0].shape[-1])
    sums = 1.0 if call.dtype == "float32" else signature.sums
    with np.errstate(invalid="ignore"):  # infinity, if a candidate rounds to float16
        return [
            np.abs(got.reshape(right.shape) - right) / _ulps(signature.magnitudes(candidate, right) / sums, call.dtype)
            for got, right in zip(results, expected, strict=True)
        ]


def _ulps(magnitudes: Float64s, dtype: str) -> Float64s:
    """Return the ulp of each number; tiny numbers have that of the smallest number of the dtype."""
    return np.maximum(ulp_of(magnitudes, dtype), SMALLEST_FLOAT16 if dtype == "float16" else 0.0)


def _merge(one: FoundMistake, other: FoundMistake) -> FoundMistake:
    """Return one mistake of two calls."""
    outputs, calls = dict.fromkeys((*one.outputs, *other.outputs)), dict.fromkeys((*one.calls, *other.calls))
    return replace(one, outputs=tuple(outputs), calls=tuple(calls), error=max(one.error, other.error))


def _causes(
    signature: Signature, result: CallResult, mistakes: Iterable[Mistake]
) -> Iterator[tuple[Mistake | None, tuple[str, ...]]]:
    """Yield the simplest mistake of all wrong outputs, or one for each of them; None means unknown."""
    wrong = [number for number, error in enumerate(result.errors) if not error <= LIMIT]
    causes: dict[int, Mistake | None] = dict.fromkeys(wrong)
    samples = _samples(result)
    for mistake in mistakes:
        reproduced = _reproduced(signature, mistake, samples, wrong)
        if len(reproduced) == len(wrong):
            causes = dict.fromkeys(wrong, mistake)
            break
        causes |= {number: mistake for number in reproduced if causes[number] is None}
        if None not in causes.values():
            break
    for cause in dict.fromkeys(causes.values()):
        yield cause, tuple(signature.outputs[number] for number in wrong if causes[number] == cause)


def _refined(
    signature: Signature, result: CallResult, cause: Mistake | None, outputs: tuple[str, ...]
) -> Mistake | None:
    """Return the mistake that says more about these outputs, if there is one that gives their numbers alone."""
    if cause is None or cause.refine is None:
        return cause
    numbers = [signature.outputs.index(name) for name in outputs]
    errors = [
        _by_column(errors_of(signature, candidate, result.call, result.results)[numbers[0]])
        for candidate in cause.candidates(result.call.expected)
    ]
    samples = _samples(result)
    more = (one for one in possible(cause.refine, errors) if _reproduced(signature, one, samples, numbers) == numbers)
    return next(more, cause)


class _Sample(NamedTuple):
    """Some rows of a call, None for all, with the call and its results there."""

    whole: TestCall
    rows: npt.NDArray[np.int64] | None
    call: TestCall
    results: tuple[Float64s, ...]


def _samples(result: CallResult) -> list[_Sample]:
    """Return what mistakes are compared with: all rows, a few that rule out most mistakes, and some more."""
    call, samples = result.call, [_Sample(result.call, None, result.call, result.results)]
    for most in SAMPLE_ROWS:
        rows = result.sample_rows(most)
        results = result.results if rows is None else tuple(array[..., rows, :] for array in result.results)
        samples.append(_Sample(call, rows, call.at(rows), results))
    return samples


def _reproduced(signature: Signature, mistake: Mistake, samples: list[_Sample], outputs: list[int]) -> list[int]:
    """Return which of these outputs match the mistake, and match it much better than the right numbers."""
    for sample in samples[:1] if mistake.needs_all_rows else samples[1:]:
        if outputs:
            outputs = _reproduced_at(signature, mistake, sample, outputs)
    return outputs


def _reproduced_at(signature: Signature, mistake: Mistake, sample: _Sample, outputs: list[int]) -> list[int]:
    whole, rows, call, results = sample
    best: list[Float64s] = []  # the smallest error of each column: columns may match different candidates
    matching: list[int] = []
    for candidate in mistake.candidates(whole.expected):
        try:
            errors = [_by_column(error) for error in errors_of(signature, candidate.at(rows), call, results)]
        except IMPOSSIBLE:
            continue
        best = [np.minimum(*pair) for pair in zip(best, errors, strict=True)] if best else errors
        matching = [number for number in outputs if _matches(best[number], number, signature, call, results)]
        if len(matching) == len(outputs):
            break
    return matching


def _matches(best: Float64s, number: int, signature: Signature, call: TestCall, results: tuple[Float64s, ...]) -> bool:
    error, largest = float(best.max(initial=0)), float(np.abs(call.positions).max(initial=0))
    if error > MATCH_LIMIT + (largest if largest <= SMALL_POSITION else 0):
        return False
    return 2 * error <= float(errors_of(signature, call.expected, call, results)[number].max(initial=0))


def _by_column(error: Float64s) -> Float64s:
    worst: Float64s = error.reshape(-1, error.shape[-1]).max(axis=0, initial=0)
    return np.where(np.isnan(worst), np.inf, worst)


def _or_stale_cache(
    cause: Mistake | None, call: TestCall, earlier: list[CallResult], always: set[str]
) -> Mistake | None:
    """Return a stale cache if the cause belongs to the dtype of an earlier call; otherwise the cause."""
    if cause is None or always & {*cause.name.split(", ")}:
        return cause
    dtype = next((dtype for dtype in ("bfloat16", "float16") if cause.name.startswith(dtype)), call.dtype)
    if dtype == call.dtype or all(one.call.dtype != dtype for one in earlier):
        return cause
    description = f"{cause.description}, as in an earlier call in {dtype}"
    return cause._replace(name="stale cache", description=description, is_state=True)


def _found(signature: Signature, result: CallResult, mistake: Mistake | None, outputs: tuple[str, ...]) -> FoundMistake:
    return FoundMistake(
        name=UNKNOWN if mistake is None else mistake.name,
        description="no known mistake gives these numbers" if mistake is None else mistake.description,
        outputs=outputs,
        calls=(result.call.name,),
        error=max(result.errors[signature.outputs.index(output)] for output in outputs),
        start=f"in {result.call.description}: {_first_difference(signature, result)}",
    )


def _first_difference(signature: Signature, result: CallResult) -> str:
    call = result.call
    expected = signature.results(call.expected, call.tokens, result.results[0].shape[-1])
    errors = errors_of(signature, call.expected, call, result.results)
    number = next(number for number, error in enumerate(errors) if not error.max(initial=0) <= LIMIT)
    at = tuple(np.argwhere(~(errors[number] <= LIMIT))[0].tolist())
    got = result.results[number].reshape(expected[number].shape)[at]
    return f"{signature.outputs[number]}{list(at)} is {got:.7g}, not {expected[number][at]:.7g}."
