"""The result of a check."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from posenc_core.encodings import Encoding, QKNorm

from .diagnosis import LIMIT, FoundMistake, finite_or_none
from .precision_classes import CLASSES, EXACT, ROUNDED, names_of

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
        precision: its class: `"exact"`, `"rounded once"`, `"rounded several times"`, `"float32 angles"`,
            `"half-precision angles"` or `"wrong"`.
        allow: the lowest class that conforms.
        first_off: for a class with rounded angles, the first position at which a result is off by 1e-3.
        smallest: a program of the smallest call that fails, the first that did.
        qk_norm: the norm beside the rotation; None without.
        cut_off: what was not waited for: the rest of a search, or a call of a program; None if all was.
    """

    encoding: Encoding
    framework: str
    form: str
    answers: tuple[tuple[str, str, float], ...] = ()
    mistakes: tuple[FoundMistake, ...] = ()
    failure: str | None = None
    remarks: tuple[str, ...] = ()
    precision: str = EXACT
    allow: str = ROUNDED
    first_off: int | None = None
    smallest: str | None = None
    qk_norm: QKNorm | None = None
    cut_off: str | None = None

    @property
    def status(self) -> int:
        """0 if the function conforms, 1 if it does not, 2 if it failed or was cut off before a mistake was found."""
        if CLASSES.index(self.precision) > CLASSES.index(self.allow):
            return DIFFERS
        return CONFORMS if self.failure is None and self.cut_off is None else FAILED

    @property
    def worst(self) -> float:
        """The worst error of all calls in ulp."""
        return max((error for _, _, error in self.answers), default=0.0)

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each mistake once, also of those made together with another."""
        return tuple(dict.fromkeys(names_of(self.mistakes)))

    @property
    def entries(self) -> tuple[str, ...]:
        """The outcome, each mistake, the failure, the smallest call that fails and each remark, as texts."""
        off = "" if self.first_off is None else f", off by 1e-3 from position {self.first_off} on"
        mistakes = ", ".join(self.names) or f"only {self.precision}"
        outcome = {
            CONFORMS: f"conforms ({self.precision}{off or f', worst {self.worst:.2g} ulp'})",
            DIFFERS: f"does not conform: {mistakes}{off}",
            FAILED: "failed",
        }[self.status]
        if self.cut_off is not None:
            outcome += f" (cut off: {self.cut_off})"
        dtypes = ", ".join(dict.fromkeys(dtype for _, dtype, _ in self.answers))
        calls = f"{len(self.answers)} calls in {dtypes}" if self.answers else "no calls"
        norm = "" if self.qk_norm is None else f" with {self.qk_norm!r}"
        entries = [f"{outcome}; {self.encoding!r}{norm}: {self.framework}, {self.form}, {calls}"]
        entries += [f"  {detail}" for detail in (*self.mistakes, self.failure) if detail is not None]
        if self.smallest is not None and self.status == DIFFERS:
            entries.append("\n    ".join(["  the smallest call that fails:", *self.smallest.splitlines()]))
        return (*entries, *(f"  {remark}" for remark in self.remarks))

    def __str__(self) -> str:
        return "\n".join(self.entries)

    def to_dict(self) -> dict[str, Any]:
        """Return the result in the types of JSON."""
        return {
            "status": self.status,
            "spec": self.encoding.to_dict(),
            "qk_norm": None if self.qk_norm is None else self.qk_norm.to_dict(),
            "framework": self.framework,
            "form": self.form,
            "worst": finite_or_none(self.worst),
            "limit": LIMIT,
            "class": self.precision,
            "allowed": self.allow,
            "first_off": self.first_off,
            "smallest": self.smallest,
            "mistakes": [one.to_dict() for one in self.mistakes],
            "failure": self.failure,
            "cut_off": self.cut_off,
            "remarks": list(self.remarks),
            "answers": [
                {"call": name, "dtype": dtype, "off": finite_or_none(error)} for name, dtype, error in self.answers
            ],
        }
