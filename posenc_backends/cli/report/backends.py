"""Run every case of the conformance suite in every installed backend, each backend in its own process."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from posenc_backends._kernels import describe
from posenc_backends.conformance.own import cases_of_encoding

from ..modules import read_encoding
from ..output import write_text
from . import HELP
from .results import COLUMNS, LEGEND, TARGETS, Section, Target, cell, why


def report(
    path: Path | None, *, encoding: str = "", html: Path | None = None, modes: bool = False, verbose: bool = False
) -> int:
    """Run all installed backends and print the results; write them to `path` as JSON and to `html` as a page.

    Args:
        path: a JSON file.
        encoding: one to test alone, against NumPy in place of golden numbers; it may be in a module of one's own.
        html: an HTML file.
        modes: whether to test the framework's own tools too (compile, export, save, …), which takes minutes.
        verbose: whether to print what each framework cannot do.
    Returns:
        The exit status: 0 if no case failed, 1 otherwise.
    """
    if html is not None:
        from .html import page
    if encoding:
        if html or modes:
            raise ValueError("`--html` and `--modes` are for the golden numbers, which `--encoding` has none of.")
        list(cases_of_encoding(read_encoding(encoding)))  # raises before the backends run
    for file in filter(None, (path, html)):
        file.touch()  # report a wrong path before the backends run
    console = Console()
    program = ("cli.report.encoding", encoding) if encoding else ("conformance", *(["--modes"] if modes else []))
    sections = _run_installed(*program)
    console.print(_table(sections, *(["NumPy in float64"] if encoding else [])))
    console.print(f"kernel: {describe()}", highlight=False, markup=False, soft_wrap=True)
    _print_remarks(console, sections, verbose=verbose)
    if path is not None:
        rows = [row for section in sections for row in section.rows()]
        crashes = [{"backend": section.target.name, "crash": section.crash} for section in sections if section.crash]
        write_text(path, json.dumps(_without_infinities(rows + crashes), indent=1, allow_nan=False) + "\n")
    if html is not None:
        write_text(html, page(sections, [target for target in TARGETS if target.missing]))
    status = 0 if all(section.complete for section in sections) else 1
    console.print(f"{_summary(sections)} Exit status {status}: {HELP.statuses[status]}.", markup=False)
    return status


def run_backend(
    target: Target, advance: Callable[[int, int], object], module: str = "conformance", *options: str
) -> Section:
    """Run the cases of a backend in a new process.

    Args:
        target: the backend.
        advance: called after each case with the number of finished cases and of all cases.
        module: a module of `posenc_backends` that runs as a program, and takes the name of a backend.
        options: its other arguments.
    Returns:
        The results.
    """
    section = Section(target)
    command = [sys.executable, "-W", "ignore", "-m", f"posenc_backends.{module}", target.backend, *options]
    environment = os.environ | ({"KERAS_BACKEND": target.keras_backend} if target.keras_backend else {})
    with tempfile.TemporaryFile("w+") as errors:
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True) as process:
            for line in process.stdout or ():
                if line.startswith("{"):
                    content = json.loads(line)
                    if "cases" in content:  # the first line
                        section.cases = content["cases"]
                    else:
                        section.results.append(content)
                    advance(len(section.results), section.cases)
        errors.seek(0)
        last_line = errors.read().strip().rpartition("\n")[2]
    if process.returncode or not 0 < section.cases <= len(section.results):
        section.crash = f"ended with status {process.returncode} after {len(section.results)} cases: {last_line}"
    return section


def _run_installed(*program: str) -> list[Section]:
    """Run the cases of each backend that is installed; show a progress bar in a terminal meanwhile."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    sections = []
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        for target in TARGETS:
            if target.missing is None:
                task = progress.add_task(target.name, total=None)
                sections.append(run_backend(target, partial(_advance, progress, task), *program))
                progress.remove_task(task)
    return sections


def _advance(progress: Progress, task: TaskID, done: int, cases: int) -> None:
    progress.update(task, completed=done, total=cases)


def _table(sections: list[Section], reference: str = "golden numbers") -> Table:
    table = Table(
        title=f"Every backend against {reference}; errors in ulp",
        caption=f"{LEGEND}; `posenc report -v` says why.",
        caption_justify="left",
        box=SIMPLE_HEAD,
        padding=0,
        show_edge=False,
    )
    names = [f" {row['encoding']}" for section in sections for row in section.rows()]
    table.add_column("encoding", width=max(map(len, names), default=None))  # a longer name of a backend is wrapped
    for column in (*COLUMNS, "sec"):
        table.add_column(column, justify="right")
    for section in sections:
        table.add_row(f"[bold]{section.target.name} {section.target.version}")
        for row in section.rows():
            cells = [cell(row[check]) for check in COLUMNS]
            style = "red" if row["failed"] else None
            table.add_row(f" {row['encoding']}", *cells, f"{row['seconds']:.1f}", style=style)
        table.add_section()
    return table


def _print_remarks(console: Console, sections: list[Section], *, verbose: bool) -> None:
    """Print failures, one line each, known failures if `verbose`, and the frameworks that are not installed."""
    for section in sections:
        name = section.target.name
        for result in section.failed:
            console.print(f"{name}: {result['case']}: {why(result)}", style="red", markup=False)
        for reason in section.known_failures if verbose else ():
            console.print(f"{name}: known failure: {reason}", style="dim", markup=False)
        if section.crash:
            console.print(f"{name}: {section.crash}", style="red", markup=False)
    missing = {target.name: target.missing for target in TARGETS if target.missing}
    if missing:
        hint = f'for example `pip install "{next(iter(missing.values()))}"`'
        console.print(f"not installed: {', '.join(missing)}; {hint}.", style="dim", markup=False)


def _summary(sections: list[Section]) -> str:
    """Return how many encodings were tested, how many are wrong, and in which backends, as a sentence."""
    rows = [row for section in sections for row in section.rows()]
    wrong = {row["encoding"] for row in rows if row["failed"]}
    backends = ", ".join(section.target.name for section in sections)
    count = len({row["encoding"] for row in rows})
    return f"{count} encoding{'s' * (count != 1)}, {len(wrong)} wrong, on {backends}."


def _without_infinities(value: Any) -> Any:
    """Return the value with null for infinity and NaN, which JSON does not have."""
    if isinstance(value, dict):
        return {key: _without_infinities(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_infinities(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
