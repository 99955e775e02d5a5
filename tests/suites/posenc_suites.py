"""The plugin of pytest that runs the tests of another project with posenc behind its names.

pytest loads it by `-p posenc_suites`, from this folder: a module of `tests` would hide the `tests` of the project.
`POSENC_SUITE` is the file of the project; with an empty `POSENC_SUITE_SHIM` its tests run as they are.
`POSENC_SUITE_REPORT` is the file to write. A function `prepare` of the project's file helps an old project to import
with the installed versions; it runs in both cases.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import pytest


@dataclass(frozen=True)
class Project:
    """A project, the commit that was tried, what its tests need, and why some of them fail with posenc.

    `tests` and `paths` are relative to its root; `paths` are where its packages lie. `failures` has a reason for parts
    of the names of tests.
    """

    repository: str
    commit: str
    framework: str
    tests: tuple[str, ...]
    replaced: str
    requires: tuple[str, ...] = ()
    paths: tuple[str, ...] = (".",)
    options: tuple[str, ...] = ()
    variables: dict[str, str] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)


def replace(module: ModuleType | type, **names: Any) -> None:
    """Put ours behind names of a module, wherever modules that are imported hold theirs; or of a class."""
    for name, ours in names.items():
        theirs = getattr(module, name)
        setattr(module, name, ours)
        for other in [*sys.modules.values()] if isinstance(module, ModuleType) else []:
            for key, value in [*getattr(other, "__dict__", {}).items()]:
                if value is theirs:
                    setattr(other, key, ours)


def skip_init(*packages: str) -> None:
    """Import packages without their `__init__`, from the root of the clone."""
    for name in packages:
        package = ModuleType(name)
        package.__path__ = [str(Path.cwd() / name.replace(".", "/"))]
        sys.modules[name] = package


class CallWatcher:
    """Watch whether Python enters a function of posenc, by a profiler that stops at the first call."""

    def __init__(self) -> None:
        import posenc_backends
        import posenc_core

        self.folders = tuple(os.path.dirname(one.__file__) + os.sep for one in (posenc_core, posenc_backends))  # noqa: PTH120
        self.found = False

    def __enter__(self) -> None:
        self.found = False
        sys.setprofile(self.look)

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def look(self, frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(self.folders):
            self.found = True
            sys.setprofile(None)


class Recorder:
    """Record the outcome of each test and whether it reached posenc."""

    def __init__(self) -> None:
        self.calls = CallWatcher()
        self.tests: dict[str, dict[str, Any]] = {}
        self.uncollected: dict[str, str] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        with self.calls:
            result = yield
        self.tests.setdefault(item.nodeid, {"outcome": "skipped", "said": ""})["reached"] = self.calls.found
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.outcome == "failed" or report.when == "call" or report.skipped:
            said = str(getattr(report, "wasxfail", "")) or self.last_line(report)
            self.tests[report.nodeid] = {"outcome": report.outcome, "said": said}

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.uncollected[report.nodeid] = self.last_line(report)

    def pytest_sessionfinish(self) -> None:
        found = {"tests": self.tests, "uncollected": self.uncollected}
        Path(os.environ["POSENC_SUITE_REPORT"]).write_text(json.dumps(found), encoding="utf-8")

    @staticmethod
    def last_line(report: pytest.TestReport | pytest.CollectReport) -> str:
        crash = getattr(report.longrepr, "reprcrash", None)
        lines = str(crash.message if crash else report.longrepr or "").strip().splitlines()
        return " ".join(lines[:3])[:400]


def pytest_configure(config: pytest.Config) -> None:
    """Prepare the project for the installed versions, and put posenc behind its names, before a test is imported."""
    config.pluginmanager.register(Recorder())
    found = runpy.run_path(os.environ["POSENC_SUITE"])
    found.get("prepare", lambda: None)()
    if os.environ["POSENC_SUITE_SHIM"]:
        found["shim"]()
