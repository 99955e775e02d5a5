"""The runner of other projects' tests, on a small project, and the page of its results."""

import json
import re
import runpy
import sys
from pathlib import Path

import pytest

from ..suites import __main__ as runner

DOCS = Path(__file__).parents[2] / "docs"
THEIRS = """
import math
def angles(length): return [[math.cos(i), math.sin(i)] for i in range(length)]
def double(x): return 2 * x
"""
TESTS = """
import pytest
from theirs import angles, double
def test_passes(): assert abs(angles(3)[2][0] + 0.41614683) < 1e-6
def test_is_too_strict(): assert angles(3)[2][0] == -0.4161468365471424
def test_does_not_ask_us(): assert double(2) == 4
def test_fails_anyway(): assert double(2) == 5
@pytest.mark.skip
def test_is_skipped(): pass
"""
SHIM = """
from posenc_suites import Project, replace
PROJECT = Project("nobody/theirs", "0" * 40, "numpy", tests=("test_theirs.py",), replaced="`angles`")
def shim():
    import theirs
    from posenc_core import Sinusoidal
    replace(theirs, angles=lambda length: Sinusoidal(dim=2).table(range(length))[:, ::-1].tolist())
"""


@pytest.fixture
def compared(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "HERE", tmp_path)
    (tmp_path / "posenc_suites.py").write_text((Path(runner.__file__).parent / "posenc_suites.py").read_text("utf-8"))
    for name, text in (("clone/theirs", THEIRS), ("clone/test_theirs", TESTS), ("projects/theirs", SHIM)):
        path = tmp_path / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (project,) = runner.projects().values()
    runs = [runner.run_tests("theirs", project, tmp_path / "clone", shim=shim) for shim in (False, True)]
    return lambda failures: runner.compare(*runs, failures)


def test_only_tests_that_call_posenc_count(compared):
    found = compared({"too_strict": "float32"})
    assert found.pop("unexplained") == {}
    assert found == {
        "passed": 1,
        "failed": {"test_theirs.py::test_is_too_strict": "float32"},
        "others": {
            "does not reach what was replaced": 1,
            "fails without posenc as well": 1,
            "skipped by the project": 1,
        },
    }


def test_a_failure_needs_a_reason_and_a_reason_a_failure(compared):
    assert [*compared({"passes": "no"})["unexplained"]] == ["test_theirs.py::test_is_too_strict", "passes"]


def test_each_result_has_a_project_and_reasons_of_its_file():
    results, projects = json.loads(runner.RESULTS.read_text("utf-8")), runner.projects()
    assert {*results} <= {*projects}
    for name, result in results.items():
        project = projects[name]
        assert re.fullmatch("[0-9a-f]{40}", project.commit)
        assert (result["repository"], result["commit"]) == (project.repository, project.commit)
        assert {*result["failed"].values()} <= {*project.failures.values()}
        assert result["passed"] > 0


def test_the_page_adds_up(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS))
    monkeypatch.delitem(sys.modules, "suites", raising=False)
    page = runpy.run_path(str(DOCS / "suites.py"))["suites"]()
    counts = re.match(r"Of (\d+) tests of (\d+) projects that reach posenc, (\d+) pass and (\d+) fail", page)
    tests, number, passed, failed = map(int, counts.groups())
    results = json.loads(runner.RESULTS.read_text("utf-8"))
    assert (number, tests) == (len(results), passed + failed)
    assert passed == sum(result["passed"] for result in results.values())
    assert all(f"### {name}\n" in page for name in results)
