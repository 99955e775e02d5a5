"""Write the measurements of the page Architecture from the result of `benchmarks/architecture.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from drawn import circumstances, results, table

COUNTS = ("calls", "functions", "files", "changes of file", "calls, all packages")
SIZES = ("files", "code lines", "functions", "Any per function")


def architecture() -> str:
    """Return tables of what was measured, as Markdown; nothing where no result is committed."""
    found = dict(results("architecture")).get("architecture")
    if found is None:
        return ""
    parts = [*_calls(found["way"]), *_cost(found["cost"]["cases"]), *_structure(found["structure"])]
    return "\n".join([*parts, f"`{found['command']}`: {circumstances(found)}\n"])


def _calls(way: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Yield tables of the functions and files that a call passes through, with the kernel and without."""
    yield "### Functions per call\n"
    for kernel, calls in way.items():
        rows = [(f"`{name}`", *(one[key] for key in COUNTS)) for name, one in calls.items()]
        yield f"Python functions of posenc, {kernel}.\n"
        yield table(("call", *COUNTS), rows)


def _cost(cases: list[dict[str, Any]]) -> Iterator[str]:
    """Yield a table of the time of each call divided by that of the plain operators."""
    yield "### Time per call\n"
    yield "Time divided by that of the plain operators, without the kernel: median and quartiles.\n"
    rows = [(f"`{one['call']}`", one["numbers"], _ratio(one), one["µs"], one["µs, plain"]) for one in cases]
    yield table(("call", "numbers", "over plain operators", "µs", "µs, plain operators"), rows)


def _ratio(case: dict[str, Any]) -> str:
    low, median, high = case["over plain"]
    return f"{median:.2f} ({low:.2f}–{high:.2f})"


def _structure(found: dict[str, Any]) -> Iterator[str]:
    """Yield a table of the folders, and one of the checks of concrete encodings outside of `encodings/`."""
    packages, folders = found["packages"], found["folders"]
    total = sum(package["code lines"] for package in packages.values())
    circles = found["circles of imports"]
    yield "### Structure\n"
    yield (
        f"Both packages have {total:,} lines of code, without docstrings, comments and blank lines, and the tests "
        f"{found['code lines of tests']:,}. Groups of files that import each other, also inside of functions: "
        f"{len(circles)}.\n"
    )
    rows = [(f"`{name}`", *(folder[key] for key in SIZES)) for name, folder in folders.items()]
    yield table(("folder", *SIZES), rows)
    checks = found["checks by class"]
    yield (
        f"Outside of `encodings/`, {sum(found['checks by file'].values())} conditions ask for the class of an encoding "
        "instead of a property that all encodings have.\n"
    )
    yield table(("class", "conditions"), [(f"`{name}`", count) for name, count in checks.items()])
