"""Run the tests of other projects with posenc behind their names: `nox -s suites -- --clones FOLDER [NAME ...]`.

Each project is run twice, as it is and with its shim of `projects`. A test counts if it passes as it is and enters a
function of posenc with the shim. A failure needs a reason in the project's file, and a reason a failure.
"""

from __future__ import annotations

import argparse
import json
import os
import runpy
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from .posenc_suites import Project

HERE = Path(__file__).parent
RESULTS = HERE / "results.json"


def projects(framework: str = "") -> dict[str, Project]:
    """Return the projects of a framework, or all, by the names of their files."""
    sys.path.insert(0, str(HERE))
    found = {path.stem: runpy.run_path(str(path))["PROJECT"] for path in sorted(HERE.glob("projects/*.py"))}
    return {name: one for name, one in found.items() if framework in ("", one.framework)}


def run_tests(name: str, project: Project, clone: Path, *, shim: bool) -> dict[str, Any]:
    """Run the tests of a project in its clone, with or without its shim, and return what the plugin recorded."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        ours = {
            "PYTHONPATH": os.pathsep.join([*(str(clone / path) for path in project.paths), str(HERE)]),
            "POSENC_SUITE": str(HERE / "projects" / f"{name}.py"),
            "POSENC_SUITE_SHIM": "1" if shim else "",
            "POSENC_SUITE_REPORT": str(report),
        }
        options = ("-q", "-p", "posenc_suites", "-p", "no:cacheprovider", "-o", "addopts=", "--import-mode=importlib")
        command = [sys.executable, "-m", "pytest", *options, *project.options, *project.tests]
        variables = os.environ | {"OMP_NUM_THREADS": "1"} | project.variables | ours
        done = subprocess.run(command, cwd=clone, env=variables, capture_output=True, text=True, check=False)
        if not report.exists():
            said = f"pytest ended without a report:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
            return {"tests": {}, "uncollected": {}, "said": said}
        return json.loads(report.read_text(encoding="utf-8"))


def compare(plain: dict[str, Any], shimmed: dict[str, Any], failures: dict[str, str]) -> dict[str, Any]:
    """Return how many tests passed, which failed and why, and why others do not count."""
    passed, failed, others = 0, {}, Counter[str]()
    unexplained, unused = {}, {*failures}
    for name, test in plain["tests"].items():
        ours = shimmed["tests"].get(name, {"outcome": "missing", "reached": True, "said": "not collected"})
        if test["outcome"] == "skipped":
            others["skipped by the project"] += 1
        elif test["outcome"] == "failed":
            others["fails without posenc as well"] += 1
        elif ours["outcome"] == "passed":
            passed += ours["reached"]
            others["does not reach what was replaced"] += not ours["reached"]
        else:
            reason = next((part for part in failures if part in name), None)
            unused.discard(reason)
            if reason is None:
                unexplained[name] = ours["said"]
            else:
                failed[name] = failures[reason]
    others["cannot be imported here"] += len(plain["uncollected"])
    for run in (plain, shimmed):
        unexplained |= {"pytest": run["said"]} if "said" in run else {}
        unexplained |= run["uncollected"] if run is shimmed and not plain["uncollected"] else {}
    return {
        "passed": passed,
        "failed": failed,
        "others": {reason: number for reason, number in others.items() if number},
        "unexplained": unexplained | dict.fromkeys(unused, "has a reason, and passes"),
    }


def main() -> None:
    """Run the projects that are named, print their counts, and write those that have a reason for each failure."""
    parser = argparse.ArgumentParser(prog="nox -s suites --", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="projects; by default all of the framework")
    parser.add_argument("--clones", type=Path, default=Path(), help="a folder with a clone of each repository")
    parser.add_argument("--framework", default="", help="run only the projects of a framework")
    parser.add_argument("--requirements", action="store_true", help="print what the projects need, and end")
    arguments = parser.parse_args()
    if arguments.requirements:
        print(*sorted({name for project in projects(arguments.framework).values() for name in project.requires}))
        return
    results = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    wrong = []
    for name, project in projects(arguments.framework).items():
        if name in arguments.names or not arguments.names:
            clone = arguments.clones.absolute() / project.repository.partition("/")[2]
            found = run_project(name, project, clone)
            unexplained, uncollected = found.pop("unexplained"), found.pop("uncollected")
            print(f"{name}: {found['passed']} passed, {len(found['failed'])} failed, others: {found['others']}")
            for test, said in unexplained.items():
                print(f"  no reason for {test}: {said}")
            for file, said in uncollected.items():
                print(f"  cannot import {file}: {said}")
            if unexplained or not found["passed"]:
                wrong.append(name)
            else:
                results[name] = found
    RESULTS.write_text(json.dumps(dict(sorted(results.items())), indent=1) + "\n", encoding="utf-8")
    if wrong:
        raise SystemExit(f"not written, since no test passed or a failure has no reason: {', '.join(wrong)}")


def run_project(name: str, project: Project, clone: Path) -> dict[str, Any]:
    """Return the counts of a project, with the commit of its clone."""
    if not clone.is_dir():
        raise SystemExit(f"{clone} is missing: git clone https://github.com/{project.repository} {clone}")
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=clone, capture_output=True, text=True, check=True)
    if commit.stdout.strip() != project.commit:
        print(f"{name}: the clone is at {commit.stdout.strip()}, tried was {project.commit}")
    about = {
        "repository": project.repository,
        "commit": commit.stdout.strip(),
        "framework": project.framework,
        "replaced": project.replaced,
    }
    plain, shimmed = (run_tests(name, project, clone, shim=shim) for shim in (False, True))
    return about | compare(plain, shimmed, project.failures) | {"uncollected": plain["uncollected"]}


if __name__ == "__main__":
    main()
