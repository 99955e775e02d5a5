"""Which tests run which lines, and runs of those tests alone, each in a forked process."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import re
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

PRELOADED = ("mpmath", "numpy.testing", "decimal")  # not what is mutated
SOURCES = ("posenc_core", "posenc_backends")
LEFT_OUT = ("test_check_command", "test_benchmarks", "test_book", "test_readme", "test_reference", "test_threads")
KERNEL = ("tests/backends/test_kernels.py", "tests/backends/test_compiled_kernel.py")
XLA = ("tests/backends/jax/test_kernel.py",)
FAST = 0.05  # seconds of a test
FIRST = 30  # tests, of few files, so that most mutants are noticed before the others are collected
DEFINITIONS = (
    "tests/core/test_recorded_ranges.py::test_the_defaults_of_each_function_and_class"  # reads what imports make
)
ONE_RUN = ("-q", "-p", "no:cacheprovider", "-n", "0")


class Suite(NamedTuple):
    """The seconds of each test, for each file of the core and each line the tests that run it, and digests of files."""

    seconds: dict[str, float]
    tests: dict[str, dict[str, list[str]]]
    digests: dict[str, str]

    def tests_of(self, path: str, lines: Iterable[int], budget: float, entry: Iterable[str] = ()) -> list[str]:
        """Return the tests that run these lines, for about `budget` seconds, those that likely notice first.

        Lines that only an import runs have the tests of the whole file, or of those that import it, and the test of
        all defaults. `entry` has the words that name an entry of a table, as the parameters of a test may.
        """
        by_line = self.tests.get(path, {})
        running = {test for line in lines for test in by_line.get(str(line), ())}
        chosen: list[str] = []
        if not running:
            chosen = [DEFINITIONS]
            files = [path] if any(by_line.values()) else importers(path, self.tests)
            running = {test for file in files for tests in self.tests[file].values() for test in tests} - {*chosen}
        for test in self._in_turn(running, {*entry}):
            budget -= self.seconds.get(test, 0)
            if budget < 0:
                break
            chosen.append(test)
        return chosen

    def without(self, files: Iterable[str]) -> Suite:
        """Return the suite without the tests of some files."""
        gone = {test for test in self.seconds if test.partition("::")[0] in files}
        tests = {
            path: {line: [test for test in some if test not in gone] for line, some in by_line.items()}
            for path, by_line in self.tests.items()
        }
        return Suite({test: spent for test, spent in self.seconds.items() if test not in gone}, tests, self.digests)

    def _in_turn(self, tests: Iterable[str], entry: set[str]) -> list[str]:
        """Sort tests: those of the entry, a fast case of each, then fast ones of files that run these lines most."""
        ranks: Counter[str] = Counter()
        running, all_tests = (Counter(test.partition("::")[0] for test in some) for some in (tests, self.seconds))
        keys = {}
        for test in sorted(tests, key=lambda test: (self.seconds.get(test, 0), test)):
            file, function, seconds = test.partition("::")[0], test.partition("[")[0], self.seconds.get(test, 0)
            parameters = test.partition("[")[2].removesuffix("]")
            other = entry.isdisjoint((parameters, *re.split(r"[- ]", parameters)))
            later = ranks[function] > 0 or seconds > 1
            keys[test] = other, later, seconds > FAST, -running[file] / all_tests[file], seconds
            ranks[function] += 1
        return sorted(keys, key=lambda test: (keys[test], test))


def importers(path: str, files: Iterable[str]) -> list[str]:
    """Return those of some files that import the module of another."""
    name = re.compile(rf"(from|import) [\w.]*\b{Path(path).stem}\b")
    return [file for file in files if file != path and name.search(Path(file).read_text(encoding="utf-8"))]


class _Recorder:
    """A plugin of pytest that says to coverage which test runs."""

    def __init__(self, coverage: Any) -> None:
        self.coverage, self.seconds = coverage, defaultdict(float)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        self.coverage.switch_context(item.nodeid)
        result = yield
        self.coverage.switch_context("")
        return result

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self.seconds[report.nodeid] = float("inf")  # it says nothing about mutants
        self.seconds[report.nodeid] += report.duration


class _Selected:
    """A plugin of pytest that runs these tests alone, in this order."""

    def __init__(self, tests: list[str]) -> None:
        self.order = {test: number for number, test in enumerate(tests)}

    def pytest_collection_modifyitems(self, items):
        items[:] = sorted(
            (item for item in items if item.nodeid in self.order), key=lambda item: self.order[item.nodeid]
        )


def preload() -> None:
    """Import what tests need besides the project, once for all forked processes."""
    for name in PRELOADED:
        importlib.import_module(name)


def suite_of(backend: str) -> tuple[str, ...]:
    """Return the files and folders of tests that run on a backend: those of the core on NumPy."""
    return ("tests/core", "tests/backends", "posenc_core") if backend == "numpy" else ("tests/backends",)


def recorded(root: Path, file: Path, backend: str, chosen: tuple[str, ...]) -> Suite:
    """Return what `file` says, after running the `chosen` tests that changed since; all if one of the packages did."""
    suite = Suite(**json.loads(file.read_text(encoding="utf-8"))) if file.exists() else Suite({}, {}, {})
    digests = digests_of(root, chosen)
    changed = {name for name in {*digests, *suite.digests} if digests.get(name) != suite.digests.get(name)}
    if any(name.startswith(SOURCES) for name in changed):
        suite, again = Suite({}, {}, {}), list(chosen)
    else:
        suite, again = suite.without(changed), sorted(changed & digests.keys())
    if again:
        code = forked(lambda: _record(root, file, suite._replace(digests=digests), again, backend), limit=3600)
        if code not in (0, 1):
            raise SystemExit(f"The suite could not be recorded: pytest ended with {code}.")
        suite = Suite(**json.loads(file.read_text(encoding="utf-8")))
    return suite


def digests_of(root: Path, chosen: Iterable[str]) -> dict[str, str]:
    """Return the digest of each file of both packages and of each file of tests that is recorded."""
    paths = [path for package in SOURCES for path in (root / package).rglob("*.py")]
    for some in chosen:
        paths += [root / some] if some.endswith(".py") else (root / some).rglob("test_*.py")
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in paths
        if path.stem not in LEFT_OUT
    }


def _record(root: Path, file: Path, suite: Suite, chosen: list[str], backend: str) -> int:
    """Add to a suite what these files or folders of tests run, and write it."""
    import coverage

    measured = coverage.Coverage(source=[str(root / package) for package in SOURCES], data_file=None, config_file=False)
    recorder = _Recorder(measured)
    measured.start()
    ignored = [f"--ignore-glob=*/{name}.py" for name in LEFT_OUT]
    code = pytest.main([*chosen, *ignored, *ONE_RUN, "--backend", backend], plugins=[recorder])
    measured.stop()
    data = measured.get_data()
    for path in data.measured_files():
        by_line = suite.tests.setdefault(str(Path(path).relative_to(root)), {})
        for line, contexts in data.contexts_by_lineno(path).items():
            by_line[str(line)] = sorted({*by_line.get(str(line), ()), *contexts} - {""})
    suite.seconds.update({test: min(spent, 1e9) for test, spent in recorder.seconds.items()})
    file.write_text(json.dumps(suite._asdict()), encoding="utf-8")
    return int(code)


def passes(tests: list[str], limit: float, backend: str) -> bool:
    """Return whether these tests pass within so many seconds: the first few alone, then the others."""
    return all(_passes(some, limit, backend) for some in (tests[:FIRST], tests[FIRST:]) if some)


def files_pass(files: Iterable[str], limit: float, backend: str) -> bool:
    """Return whether all tests of these files pass within so many seconds."""
    return forked(lambda: int(pytest.main([*files, "-x", *ONE_RUN, "--backend", backend])), limit=limit) == 0


def _passes(tests: list[str], limit: float, backend: str) -> bool:
    files = sorted({test.split("::")[0] for test in tests})
    arguments = [*files, "-x", *ONE_RUN, "--backend", backend]
    return forked(lambda: int(pytest.main(arguments, plugins=[_Selected(tests)])), limit=limit) == 0


def forked(function: Callable[[], int], *, limit: float) -> int:
    """Return what a function returns in a process of its own; -1 if it takes more than `limit` seconds."""
    child = os.fork()
    if child == 0:
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(1, 2)
        code = 99
        try:
            code = function()
        finally:
            os._exit(code)
    end = time.monotonic() + limit
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -1


def forget(path: Path) -> None:
    """Remove the compiled file of a source, which Python would take for the changed one within the same second."""
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.{sys.implementation.cache_tag}*.pyc"):
        compiled.unlink()
