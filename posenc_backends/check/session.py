"""A check in progress: the calls, what they returned, and the mistakes found so far."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from .budget import Budget
from .diagnosis import LIMIT, CallResult, Diagnosis, FoundMistake, found_in, measure
from .frameworks import CallError, CheckedFunction, CutOffError, NotFiniteError, check_results
from .gradients import gradient_mistakes
from .mistakes.base import possible
from .precision_classes import MISTAKES_OF, names_of
from .program import FRAMEWORK
from .properties import mistakes_of_call, mistakes_of_compiling, mistakes_of_threads
from .sample_calls import TestCall
from .shrink import FEW_CALLS, MOST_CALLS, program_of, shrink
from .signatures import OfPairs


class Session:
    """The calls of one check.

    Args:
        checked: the function.
        budget: of the search for mistakes.
    """

    def __init__(self, checked: CheckedFunction, budget: Budget):
        self.checked, self.framework, self.caller = checked, checked.framework, checked.caller
        self.diagnosis = Diagnosis(checked.caller.signature, budget)
        self.answers: list[CallResult] = []
        self.remarks: list[str] = []
        self.smallest: str | None = None
        self.cut_off: str | None = None  # what was not waited for
        self._cast: set[str] = set()
        self._wrong_dtypes: set[str] = set()  # of tokens whose results have another dtype
        self._is_not_finite = False  # what ended the calls
        self._found: dict[str, FoundMistake] = {}  # those that are not in the numbers

    @property
    def mistakes(self) -> list[FoundMistake]:
        """The mistakes that are not in the numbers of a call."""
        return list(self._found.values())

    @property
    def has_precision_only(self) -> bool:
        """Whether the mistakes found so far are those of a class of precision."""
        return all(name in MISTAKES_OF for name in names_of([*self.diagnosis.mistakes, *self.mistakes]))

    @property
    def dtypes(self) -> tuple[str, ...]:
        """The dtypes of tokens that the function accepts and returns, float32 first."""
        dtypes = dict.fromkeys(("float32", *(one.call.dtype for one in self.answers)))
        return tuple(dtype for dtype in dtypes if dtype not in self._cast)

    def run(self, calls: Iterable[TestCall]) -> str | None:
        """Make these calls; return the failure that ended them, if one did."""
        for test_call in calls:
            try:
                answer = self._answer(test_call)
            except CallError as error:
                self.cut_off = "a call took too long" if isinstance(error, CutOffError) else None
                if not test_call.is_optional or isinstance(error, NotFiniteError | CutOffError):
                    hint = f" If it has no such positions, pass `longest` {test_call.positions.min()}."
                    self._is_not_finite = isinstance(error, NotFiniteError)
                    return f"{error}{hint if test_call.name in ('far', 'long') else ''}"
                refused = f"not checked, {test_call.name}"
                if not any(remark.startswith(f"{refused}:") for remark in self.remarks):
                    self.remarks.append(f"{refused}: {error}")
                continue
            self.answers.append(answer)
            self.diagnosis.add(answer)
        if self.smallest is None:
            first = next((answer for answer in self.answers if answer.worst > LIMIT), None)
            self.smallest = None if first is None else self._smallest(first)
        return None

    def run_random(self, calls: Iterable[TestCall]) -> None:
        """Make these calls until one of them fails."""
        refused = {remark.partition(":")[0] for remark in self.remarks}
        for test_call in calls:
            if f"not checked, {test_call.name}" in refused:
                continue
            before = len(self.remarks)
            failure = self.run([test_call])
            if failure is not None:
                name = "not finite" if self._is_not_finite else "fails at some sizes"
                self._add(found_in(test_call, name, failure, error=float("inf")))
                return
            if len(self.remarks) > before:
                refused.add(f"not checked, {test_call.name}")
                del self.remarks[before + 1 :]
            if not self.has_precision_only:
                return

    def check_gradients(self) -> None:
        """Check the gradient of what the first call returned, unless that is unknown or depends on earlier calls."""
        causes = {output: cause for cause, outputs in self.diagnosis.causes[0] for output in outputs}
        every = [cause for found in self.diagnosis.causes for cause, _ in found]
        if None in causes.values() or any(cause.is_state for cause in every if cause):
            return
        dtypes = tuple(dtype for dtype in self.dtypes if dtype not in self._wrong_dtypes)
        for one in possible(gradient_mistakes, self.checked, dtypes, causes):
            self._add(one)

    def check_surroundings(self, end: int) -> None:
        """Check calls from two threads, and the compiled function, at positions before `end`."""
        for mistakes_of in (mistakes_of_threads, mistakes_of_compiling):
            found, remark = mistakes_of(self.checked, end)
            for one in found:
                self._add(one)
            self.remarks += [] if remark is None else [remark]

    def _answer(self, test_call: TestCall) -> CallResult:
        signature = self.caller.signature
        returned = self.checked.call(test_call)
        width = returned.results[0].shape[-1] if returned.results[0].ndim else 0
        expected = signature.results(test_call.expected, test_call.tokens, width)
        check_results(signature, test_call, returned.results, expected)
        may_cast = self.framework.name == "keras" or isinstance(signature, OfPairs)
        if may_cast and test_call.dtype != "float32" and {*returned.dtypes} == {"float32"}:
            self._note_cast(test_call.dtype)
            returned = returned._replace(dtypes=(test_call.dtype,) * len(returned.dtypes))
        for one in mistakes_of_call(test_call, returned, signature.outputs):
            self._add(one)
        if {*returned.dtypes} != {test_call.dtype}:
            self._wrong_dtypes.add(test_call.dtype)  # a framework may refuse weights of another dtype than the result
        return measure(signature, test_call, returned.results)

    def _note_cast(self, dtype: str) -> None:
        """Note that float32 comes back: a layer of Keras casts to the dtype of its policy, and scores may stay wide."""
        if dtype not in self._cast:
            self._cast.add(dtype)
            layer = "" if isinstance(self.caller.signature, OfPairs) else ", as from a layer of Keras of that policy"
            self.remarks.append(f"{dtype} comes back in float32{layer}")

    def _add(self, one: FoundMistake) -> None:
        """Add a mistake; the same one of another output is merged into it."""
        key = f"{one.name} {one.description}"
        before = self._found.get(key, one)
        outputs = tuple(dict.fromkeys((*before.outputs, *one.outputs)))
        self._found[key] = replace(before, outputs=() if outputs == self.caller.signature.outputs else outputs)

    def _smallest(self, answer: CallResult) -> str:
        """Return a program of the smallest call that fails as this one does."""

        def fails(smaller: TestCall) -> bool:
            try:
                results = self.checked.call(smaller).results
                return not measure(self.caller.signature, smaller, results).worst <= LIMIT
            except (CallError, ValueError):
                return False

        name = getattr(self.checked.function, "__name__", "function")
        is_slow = self.framework.compiles_each_shape or self.framework is FRAMEWORK
        smallest = shrink(answer.call, self.caller, fails, most=FEW_CALLS if is_slow else MOST_CALLS)
        return program_of(smallest, name if name.isidentifier() else "function", self.framework.name)
