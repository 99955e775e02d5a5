"""Compare two results of one benchmark, and list what got slower or larger.

    python benchmarks/compare.py BEFORE.json AFTER.json [--by 0.05] [--all]

Ratios to the yardstick are compared, and bytes if memory was measured. An implementation is slower if its first
quartile lies above the third quartile of before, and its median more than `--by` above the median of before. The exit
status is 1 if one of ours is slower. Implementations of others are compared with `--all` only.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from harness import OURS

Quartiles = list[float]


class Change(NamedTuple):
    """One implementation in two results."""

    name: str
    before: Quartiles
    after: Quartiles

    @property
    def factor(self) -> float:
        """The median after over the median before."""
        return self.after[1] / self.before[1]

    def verdict(self, by: float) -> str:
        """Return "slower", "faster" or "same"; quartiles of different results do not overlap."""
        if self.after[0] > self.before[2] and self.factor > 1 + by:
            return "slower"
        if self.after[2] < self.before[0] and self.factor < 1 - by:
            return "faster"
        return "same"


def changes(before: dict[str, Any], after: dict[str, Any]) -> list[Change]:
    """Return what is in both results, in the order of the second."""
    if before["benchmark"] != after["benchmark"]:
        raise ValueError(f"both results must be of one benchmark, got {before['benchmark']} and {after['benchmark']}.")
    old = dict(_numbers(before))
    return [Change(name, old[name], new) for name, new in _numbers(after) if name in old]


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Return the other differences: machine, versions, clock, and cases that only one result has."""
    found = []
    for part in ("machine", "versions"):
        old, new = before[part], after[part]
        found += [
            f"{name}: {old.get(name, 'none')}, then {new.get(name, 'none')}"
            for name in dict.fromkeys([*old, *new])
            if old.get(name) != new.get(name)
        ]
    clocks = [_clock(before), _clock(after)]
    if clocks[0] != clocks[1]:
        found.append(f"clock: {clocks[0]}, then {clocks[1]}")
    old_names, new_names = (dict(_numbers(one)).keys() for one in (before, after))
    return [
        *found,
        *(f"only before: {name}" for name in old_names - new_names),
        *(f"only after: {name}" for name in new_names - old_names),
    ]


def _clock(result: dict[str, Any]) -> str:
    found = dict.fromkeys(case.get("clock", "none") for case in (*result.get("cases", ()), *result.get("curves", ())))
    return " and ".join(found) or "none"


def _numbers(result: dict[str, Any]) -> Iterator[tuple[str, Quartiles]]:
    for case in result.get("cases", []):
        for implementation, three in case.get("ratios", {}).items():
            yield f"threads {case['threads']}, {case['name']}: {implementation}", three
    for curve in result.get("curves", []):
        for size, nbytes in zip(curve["sizes"], curve["bytes"], strict=True):
            yield f"{OURS}, bytes: {curve['kind']}, {curve['name']}, {curve['axis']} {size}", [nbytes] * 3


def is_ours(change: Change) -> bool:
    """Return whether the implementation is one of ours."""
    return change.name.rpartition(": ")[2].startswith(OURS) or change.name.startswith(OURS)


def print_table(found: list[Change], by: float) -> None:
    """Print a table."""
    from rich.console import Console
    from rich.table import Table

    table = Table("what", "before", "after", "after / before", "verdict")
    for change in found:
        numbers = (f"{change.before[1]:.4g}", f"{change.after[1]:.4g}", f"{change.factor:.2f}")
        table.add_row(change.name, *numbers, change.verdict(by))
    Console(width=None if sys.stdout.isatty() else 160).print(table)


def main() -> None:
    """Compare the two files of the command line."""
    parser = argparse.ArgumentParser(description="Two results of one benchmark, side by side.")
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--by", type=float, default=0.05, help="relative changes up to this are the same")
    parser.add_argument("--all", action="store_true", help="compare implementations of others also")
    options = parser.parse_args()
    before, after = (json.loads(path.read_text(encoding="utf-8")) for path in (options.before, options.after))
    found = [change for change in changes(before, after) if options.all or is_ours(change)]
    print_table(found, options.by)
    print(*differences(before, after), sep="\n")
    slower = [change for change in found if is_ours(change) and change.verdict(options.by) == "slower"]
    print(f"{len(slower)} of {len(found)} got slower." if slower else f"None of {len(found)} got slower.")
    for change in slower:
        print(f"{change.factor:.2f} times: {change.name}")
    sys.exit(bool(slower))


if __name__ == "__main__":
    main()
