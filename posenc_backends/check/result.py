"""The result of a check."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import Any

from posenc_core.encodings import Encoding

from .diagnosis import LIMIT, UNKNOWN, FoundMistake

CONFORMS, DIFFERS, FAILED, IMPOSSIBLE = range(4)  # exit statuses


@dataclass(frozen=True, kw_only=True)
class CheckResult:
    """The result of a check.

    Attributes:
        encoding: the encoding that the function should compute.
        framework, form: how the function was called.
        answers: name, dtype and worst error in ulp of each call that returned numbers.
        mistakes: the mistakes that reproduce these numbers.
        failure: what the function raised, or why its result cannot be read; None if every call returned numbers.
        remarks: the calls that it refused and may refuse.
    """

    encoding: Encoding
    framework: str
    form: str
    answers: tuple[tuple[str, str, float], ...] = ()
    mistakes: tuple[FoundMistake, ...] = ()
    failure: str | None = None
    remarks: tuple[str, ...] = ()

    @property
    def status(self) -> int:
        """0 if the function conforms, 1 if it does not, 2 if it failed before a mistake was found."""
        if self.mistakes:
            return DIFFERS
        return CONFORMS if self.failure is None else FAILED

    @property
    def worst(self) -> float:
        """The worst error of all calls in ulp."""
        return max((error for _, _, error in self.answers), default=0.0)

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each mistake once, also of those made together with another."""
        names = ([one.name] if one.name == UNKNOWN else one.name.split(", ") for one in self.mistakes)
        return tuple(dict.fromkeys(chain.from_iterable(names)))

    def __str__(self) -> str:
        outcome = {
            CONFORMS: f"conforms (worst {self.worst:.2g} ulp)",
            DIFFERS: f"does not conform: {', '.join(self.names)}",
            FAILED: "failed",
        }[self.status]
        dtypes = ", ".join(dict.fromkeys(dtype for _, dtype, _ in self.answers))
        calls = f"{len(self.answers)} calls in {dtypes}" if self.answers else "no calls"
        subject = f"{self.encoding!r}: {self.framework}, {self.form}, {calls}"
        details = [*self.mistakes, *([] if self.failure is None else [self.failure]), *self.remarks]
        return "\n".join([f"{outcome}; {subject}", *(f"  {detail}" for detail in details)])

    def to_dict(self) -> dict[str, Any]:
        """Return the result in the types of JSON."""
        return {
            "status": self.status,
            "spec": self.encoding.to_dict(),
            "framework": self.framework,
            "form": self.form,
            "worst": _finite(self.worst),
            "limit": LIMIT,
            "mistakes": [
                {
                    "name": one.name,
                    "told": one.description,
                    "outputs": one.outputs,
                    "questions": one.calls,
                    "off": _finite(one.error),
                    "start": one.start,
                }
                for one in self.mistakes
            ],
            "failure": self.failure,
            "remarks": list(self.remarks),
            "answers": [{"call": name, "dtype": dtype, "off": _finite(error)} for name, dtype, error in self.answers],
        }


def _finite(number: float) -> float | None:
    return number if abs(number) < float("inf") else None
