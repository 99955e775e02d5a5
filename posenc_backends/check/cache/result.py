"""The result of a check of a cache."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..result import CONFORMS, DIFFERS, FAILED
from .faults import FAULTS

UNKNOWN = "differs, cause unknown"
PART = "cache reordered in part"
MOVED = "rows that moved are neither the new nor the old ones, as if keys, values or positions stayed"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The outcome of one use of the cache.

    Attributes:
        name: the use, such as `"trim"`.
        error: the largest difference from the outputs without a cache, as a part of their largest number.
        names: the mistakes that give the same outputs in both trials; none if it agrees.
        first: where outputs begin to differ; empty if they agree.
        failure: what it raised.
        by_pattern: whether the name follows from which outputs differ, and not from the same numbers.
    """

    name: str
    error: float = 0.0
    names: tuple[str, ...] = ()
    first: str = ""
    failure: str | None = None
    by_pattern: bool = False


@dataclass(frozen=True, kw_only=True)
class CacheResult:
    """The result of a check of a decoder with a cache.

    Attributes:
        framework, dtype: whose arrays it takes, and the dtype of outputs.
        limit: the largest difference that is allowed, as a part of the largest output.
        outcomes: what each use of the cache gave.
        not_asked: uses that were not tried, and why.
        shown: the named mistakes that would have changed the outputs of uses that agree by more than the limit.
        hidden: those that would not.
        remarks: what else to know.
    """

    framework: str
    dtype: str
    limit: float
    outcomes: tuple[Outcome, ...]
    not_asked: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def status(self) -> int:
        """0 if all uses that were tried agree, 1 if one differs, 2 if one failed and none differs."""
        if self.names:
            return DIFFERS
        return FAILED if any(one.failure for one in self.outcomes) else CONFORMS

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each mistake once; that the cause is unknown only if no mistake has a name."""
        names = dict.fromkeys(name for one in self.outcomes for name in one.names)
        return tuple(name for name in names if name != UNKNOWN or len(names) == 1)

    @property
    def _unknown(self) -> list[str]:
        """The uses that differ as no single mistake does, where others have a name."""
        return [] if self.names == (UNKNOWN,) else [one.name for one in self.outcomes if UNKNOWN in one.names]

    @property
    def entries(self) -> tuple[str, ...]:
        """The lines of the report, the most important first."""
        outcome = {
            CONFORMS: f"agrees with itself without a cache, in {len(self.outcomes)} uses",
            DIFFERS: f"does not conform: {', '.join(self.names)}",
            FAILED: "failed",
        }[self.status]
        descriptions = {one.name: one.description for one in FAULTS} | {PART: MOVED}
        lines, count = [outcome], len(self.shown + self.hidden)
        for name in self.names:
            which = next(one for one in self.outcomes if name in one.names)
            why = descriptions.get(name, "no named mistake gives these numbers")
            pattern = " By the pattern, not by the same numbers." if which.by_pattern else ""
            lines.append(f"  {name}: {why}.{pattern} {which.first}")
        for label, chosen in (
            ("differs", [f"{one.name} ({one.error:.2g})" for one in self.outcomes if one.names]),
            ("of these, as no single mistake does", self._unknown),
            ("agrees", [one.name for one in self.outcomes if not one.names and one.failure is None]),
            ("would show", [f"{len(self.shown)} of the {count} named mistakes that can be tried on it"] * bool(count)),
            ("would not show", list(self.hidden)),
            ("not asked", list(self.not_asked)),
        ):
            if chosen:
                lines.append(f"  {label}: {', '.join(chosen)}")
        lines += [f"  {one.name} failed: {one.failure}" for one in self.outcomes if one.failure]
        worst = max((one.error for one in self.outcomes if not one.names), default=0.0)
        lines.append(
            f"  {self.framework}, {self.dtype}: off by {worst:.1g} of the largest output where it agrees, "
            f"{self.limit:.1g} is allowed"
        )
        return (*lines, *(f"  {remark}" for remark in self.remarks))

    def __str__(self) -> str:
        return "\n".join(self.entries)

    def to_dict(self) -> dict[str, Any]:
        """Return the result in the types of JSON."""
        return {
            "status": self.status,
            "framework": self.framework,
            "dtype": self.dtype,
            "limit": self.limit,
            "mistakes": list(self.names),
            "outcomes": [
                {
                    "name": one.name,
                    "error": one.error,
                    "mistakes": list(one.names),
                    "first": one.first,
                    "failure": one.failure,
                    "by_pattern": one.by_pattern,
                }
                for one in self.outcomes
            ],
            "not_asked": list(self.not_asked),
            "shown": list(self.shown),
            "hidden": list(self.hidden),
            "remarks": list(self.remarks),
        }
