"""Write the measurements of the page Architecture from the results of `benchmarks/architecture.py`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from drawn import circumstances, results, table

STAGES = ("before", "after")
BETWEEN = " → "
COUNTS = ("calls", "functions", "files", "changes of file", "calls, all packages")
SIZES = ("entries", "files", "code lines", "functions", "median body", "longest body", "lines of the largest file")
Results = dict[str, dict[str, Any]]
Cases = dict[tuple[str, int], dict[str, Any]]


def architecture() -> str:
    """Return tables of what was measured before and after, as Markdown; of one of them where the other is missing."""
    found = dict(results("architecture-"))
    stages = {stage: found[f"architecture-{stage}"] for stage in STAGES if f"architecture-{stage}" in found}
    parts = [_calls(stages), _cost(stages), _lines(stages)] if stages else []
    parts += [f"{stage.capitalize()}: {circumstances(result)}\n" for stage, result in stages.items()]
    return "\n".join(parts)


def _calls(stages: Results) -> str:
    """Return tables of the functions and files that a call passes through, with the kernel and without."""
    parts = ["### Functions per call\n"]
    for kernel in _keys(result["way"] for result in stages.values()):
        calls = [result["way"].get(kernel, {}) for result in stages.values()]
        rows = [(f"`{name}`", *(_beside(calls, name, key) for key in COUNTS)) for name in _keys(calls)]
        parts += [f"Python functions of posenc, {kernel}; {BETWEEN.join(stages)}.\n", table(("call", *COUNTS), rows)]
    return "\n".join(parts)


def _cost(stages: Results) -> str:
    """Return a table of the time of each call divided by that of the plain operators."""
    by_case: list[Cases] = [
        {(one["call"], one["numbers"]): one for one in result["cost"]["cases"]} for result in stages.values()
    ]
    rows = []
    for call, size in _keys(by_case):
        ratios = [_ratio(cases.get((call, size))) for cases in by_case]
        times = [_beside(by_case, (call, size), key) for key in ("µs", "µs, plain")]
        rows.append((f"`{call}`", size, *ratios, *times))
    text = "Time divided by that of the plain operators, without the kernel: median and quartiles.\n"
    heads = ("call", "numbers", *stages, "µs", "µs, plain operators")
    return "\n".join(["### Time per call\n", text, table(heads, rows)])


def _ratio(case: dict[str, Any] | None) -> str:
    if case is None:
        return "none"
    low, median, high = case["over plain"]
    return f"{median:.2f} ({low:.2f} to {high:.2f})"


def _lines(stages: Results) -> str:
    """Return a table of the sizes of the packages, and for each package a dropdown with its parts."""
    sizes = [result["lines"] for result in stages.values()]
    packages = [*_keys(sizes)]
    rows = [(key, *(_beside(sizes, name, key) for name in packages)) for key in SIZES]
    heads = ("", *(f"{name}, {BETWEEN.join(stages)}" for name in packages))
    parts = [_parts(stages, name) for name in packages]
    return "\n".join(["### Lines of code\n", table(heads, rows), *parts])


def _parts(stages: Results, package: str) -> str:
    parts = [result["lines"][package]["code lines by part"] for result in stages.values()]
    rows = [(f"`{name}`", *(one.get(name, "") for one in parts)) for name in sorted(_keys(parts))]
    return f":::{{dropdown}} Lines of code by part of {package}\n{table(('part', *stages), rows)}:::\n"


def _beside(found: Iterable[Any], *keys: Any) -> str:
    """Return the value under the keys in each result, joined; "none" for a result that lacks it."""
    return BETWEEN.join(_under(keys, one) for one in found)


def _under(keys: tuple[Any, ...], found: Any) -> str:
    for key in keys:
        if key not in found:
            return "none"
        found = found[key]
    return f"{found:g}" if isinstance(found, float) else str(found)


def _keys(dictionaries: Iterable[dict[Any, Any]]) -> dict[Any, None]:
    return dict.fromkeys(key for one in dictionaries for key in one)
