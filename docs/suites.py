"""Write how many tests of other projects pass with posenc behind their names, from the results of `tests/suites`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from drawn import table

FOLDER = Path(__file__).parents[1] / "tests" / "suites"
RESULTS: dict[str, dict[str, Any]] = json.loads((FOLDER / "results.json").read_text(encoding="utf-8"))
HEADS = ("project", "on", "commit", "replaced", "passed", "failed", "not applicable")


def suites() -> str:
    """Return the counts of each project, the reasons why tests fail, and the shims, as Markdown."""
    passed, failed, others = (sum(numbers) for numbers in zip(*map(_numbers, RESULTS.values()), strict=True))
    first = (
        f"Of {passed + failed} tests of {len(RESULTS)} projects that reach posenc, {passed} pass and {failed} fail; "
        f"{others} others do not apply.\n"
    )
    rows = [_row(name, one) for name, one in RESULTS.items()]
    return "\n".join([first, table(HEADS, rows), *_failures(), *_others(), *_shims()])


def _numbers(result: dict[str, Any]) -> tuple[int, int, int]:
    return result["passed"], len(result["failed"]), sum(result["others"].values())


def _row(name: str, result: dict[str, Any]) -> tuple[Any, ...]:
    address = f"https://github.com/{result['repository']}/tree/{result['commit']}"
    link = f"[{result['commit'][:9]}]({address})"
    return (name, result["framework"], link, result["replaced"], *_numbers(result))


def _failures() -> Iterator[str]:
    failed = [(name, f"`{test}`", why) for name, one in RESULTS.items() for test, why in one["failed"].items()]
    if failed:
        yield "## Why tests fail\n"
        yield table(("project", "test", "reason"), failed)


def _others() -> Iterator[str]:
    yield "## Why tests do not apply\n"
    reasons = sorted({reason for one in RESULTS.values() for reason in one["others"]})
    rows = [(name, *(one["others"].get(reason, 0) for reason in reasons)) for name, one in RESULTS.items()]
    yield table(("project", *reasons), rows)


def _shims() -> Iterator[str]:
    yield "## The shims\n"
    for name in RESULTS:
        code = (FOLDER / "projects" / f"{name}.py").read_text(encoding="utf-8")
        yield f"### {name}\n\n```{{code-block}} python\n{code}```\n"
