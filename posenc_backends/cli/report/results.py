"""The report: every case of the conformance suite in every installed room, each room in a process of its own."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from posenc_backends import HOST_NAMES, NAMES

Result = dict[str, Any]


@dataclass(frozen=True)
class Target:
    """A room to run: its name, the package to look for, the environment it needs."""

    backend: str
    module: str
    package: str
    keras_backend: str = ""

    @property
    def name(self) -> str:
        """What the report calls it."""
        return f"{self.backend} ({self.keras_backend})" if self.keras_backend else self.backend

    @property
    def missing(self) -> str | None:
        """What `pip install` has to be told first."""
        if find_spec(self.module) is None:
            return f"posenc[{self.backend}]"
        return self.keras_backend if self.keras_backend and find_spec(self.keras_backend) is None else None

    @property
    def version(self) -> str:
        """That of its package; empty where it is not installed."""
        try:
            return version(self.package)
        except PackageNotFoundError:
            return ""


TARGETS = tuple(
    target
    for target in (
        Target("numpy", "numpy", "numpy"),
        Target("strict", "array_api_strict", "array-api-strict"),
        Target("torch", "torch", "torch"),
        Target("keras", "keras", "keras", "tensorflow"),
        Target("keras", "keras", "keras", "jax"),
        Target("keras", "keras", "keras", "torch"),
        Target("paddle", "paddle", "paddlepaddle"),
        Target("mxnet", "mxnet", "mxnet"),
        Target("jax", "jax", "jax"),
    )
    if {target.backend, target.keras_backend or "numpy"} <= {*HOST_NAMES, *NAMES, "tensorflow"}
)

COLUMNS = ("tables", "forward", "gradient", "compiled", "saved", "defect", "modes")


@dataclass
class Section:
    """What one room gave."""

    target: Target
    results: list[Result] = field(default_factory=list)
    cases: int = 0
    crash: str = ""

    @property
    def failed(self) -> list[Result]:
        """The cases that failed and are not known to, or passed although they are known not to."""
        return [result for result in self.results if result["passed"] == bool(result["gap"])]

    @property
    def complete(self) -> bool:
        """Whether the room ran to its end and nothing failed."""
        return not self.crash and not self.failed and len(self.results) == self.cases > 0

    def rows(self) -> Iterator[dict[str, Any]]:
        """One row per encoding: whether tables are equal, worst errors by check, seconds, gaps, failures."""
        for encoding in dict.fromkeys(result["encoding"] for result in self.results):
            of = [result for result in self.results if result["encoding"] == encoding]
            yield {
                "backend": self.target.name,
                "version": self.target.version,
                "encoding": encoding,
                "tables": _count([result for result in of if result["check"] == "table"]),
                **{check: _worst(of, check) for check in COLUMNS if check not in ("tables", "modes")},
                "modes": _count([result for result in of if result["is_mode"] and not result["gap"]]),
                "seconds": sum(result["seconds"] for result in of),
                "gaps": sorted({result["gap"] for result in of if result["gap"]}),
                "failed": [result for result in self.failed if result["encoding"] == encoding],
            }


def run(target: Target, advance: Callable[[int, int], object], *options: str) -> Section:
    """Run the cases of a room in a new process; `advance` is told after each how many are done, and of how many."""
    section = Section(target)
    command = [sys.executable, "-W", "ignore", "-m", "posenc_backends.conformance", target.backend, *options]
    environment = os.environ | ({"KERAS_BACKEND": target.keras_backend} if target.keras_backend else {})
    with tempfile.TemporaryFile("w+") as said:
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=said, text=True) as process:
            for line in process.stdout or ():
                if line.startswith("{"):
                    _take(section, json.loads(line))
                    advance(len(section.results), section.cases)
        said.seek(0)
        last = said.read().strip().rpartition("\n")[2]
    if process.returncode or not 0 < section.cases <= len(section.results):
        section.crash = f"ended with status {process.returncode} after {len(section.results)} cases: {last}"
    return section


def _take(section: Section, told: dict[str, Any]) -> None:
    """The first line says how many cases there are, every other one what became of one."""
    if "cases" in told:
        section.cases = told["cases"]
    else:
        section.results.append(told)


def report(path: Path | None, *, html: Path | None = None, modes: bool = False) -> int:
    """Run all rooms, draw the results in the terminal, write them to `path` as JSON and to `html` as a page; the exit status.

    With `modes`, every encoding is also compiled, exported, saved, … by its framework's own tools, which takes minutes.
    """
    if html is not None:
        from posenc_backends.cli.report.html import page
    for each in filter(None, (path, html)):
        each.touch()  # tell of a mistake before the rooms run
    console = Console()
    sections = _run_all(console, *(["--modes"] if modes else []))
    console.print(_table(sections))
    _print_remarks(console, sections)
    if path is not None:
        rows = [row for section in sections for row in section.rows()]
        crashes = [{"backend": section.target.name, "crash": section.crash} for section in sections if section.crash]
        path.write_text(json.dumps(_without_infinities(rows + crashes), indent=1, allow_nan=False) + "\n")
    if html is not None:
        html.write_text(page(sections, [target for target in TARGETS if target.missing]), encoding="utf-8")
    return 0 if all(section.complete for section in sections) else 1


def _run_all(console: Console, *options: str) -> list[Section]:
    """The rooms that are installed, one after the other."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    sections = []
    with Progress(*columns, console=console, transient=True) as progress:
        for target in TARGETS:
            if target.missing is None:
                task = progress.add_task(target.name, total=None)
                sections.append(run(target, partial(_show, progress, task), *options))
                progress.remove_task(task)
    return sections


def _show(progress: Progress, task: TaskID, done: int, cases: int) -> None:
    progress.update(task, completed=done, total=cases)


def _table(sections: list[Section]) -> Table:
    table = Table(
        title="Native results against golden numbers; errors in units in the last place",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        show_edge=False,
    )
    table.add_column("encoding", no_wrap=True)
    for column in (*COLUMNS, "sec"):
        table.add_column(column, justify="right")
    for section in sections:
        table.add_row(f"[bold]{section.target.name} {section.target.version}")
        for row in section.rows():
            cells = [cell(row[check]) for check in COLUMNS]
            style = "red" if row["failed"] else None
            table.add_row(f"  {row['encoding']}", *cells, f"{row['seconds']:.2f}", style=style)
        table.add_section()
    return table


def _print_remarks(console: Console, sections: list[Section]) -> None:
    """Failures, known gaps and frameworks that are not installed, a line each."""
    for section in sections:
        name = section.target.name
        for result in section.failed:
            console.print(f"{name}: {result['case']}: {why(result)}", style="red", markup=False)
        for gap in sorted({result["gap"] for result in section.results if result["gap"]}):
            console.print(f"{name}: gap: {gap}", style="yellow", markup=False)
        if section.crash:
            console.print(f"{name}: {section.crash}", style="red", markup=False)
    for target in TARGETS:
        if target.missing:
            hint = f'not installed; run `pip install "{target.missing}"`.'
            console.print(f"{target.name}: {hint}", style="dim", markup=False)


def why(result: Result) -> str:
    """Why a case failed, in a few words."""
    if result["gap"]:
        return "passed, but the room lists it as a gap"
    return result.get("error") or f"off by {result['worst']:g}, allowed are {result['limit']:g}"


def _count(of: list[Result]) -> str | None:
    return f"{sum(result['passed'] for result in of)}/{len(of)}" if of else None


def _worst(results: list[Result], check: str) -> float | str | None:
    """The worst error of a check; "gap" where none of its cases can pass, None where it has none."""
    of = [result for result in results if result["check"] == check and not result["is_mode"]]
    able = [result.get("worst", math.inf) for result in of if not result["gap"]]
    if not able:
        return "gap" if of else None
    return math.inf if any(math.isnan(worst) for worst in able) else max(able)


def _without_infinities(value: Any) -> Any:
    """JSON has no infinity and no NaN: they become null."""
    if isinstance(value, dict):
        return {key: _without_infinities(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_infinities(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def cell(value: object) -> str:
    """What a table shows of a value of a row."""
    if value is None:
        return "–"
    return f"{value:.2g}" if isinstance(value, float) else str(value)
