"""Write which versions of each framework and of Python are supported, from `pyproject.toml` and the constraints."""

from __future__ import annotations

import re
from pathlib import Path

import tomllib
from drawn import table
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.version import Version

import posenc_backends

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PYTHONS = [
    name.rpartition(" ")[2] for name in PROJECT["classifiers"] if re.search(r":: Python :: \d\.\d+$", name)
]  # as the classifiers name them


def versions() -> str:
    """Return the oldest and newest version of each framework, and the versions of Python, as a table in Markdown."""
    extras = PROJECT["optional-dependencies"]
    bounds = {"–": PROJECT["dependencies"][-1:], **{name: extras[name] for name in posenc_backends.NAMES}}
    rows = [_row(name, [Requirement(bound) for bound in given]) for name, given in bounds.items()]
    return table(("extra", "package", "oldest", "newest", "Python"), rows)


def _row(extra: str, given: list[Requirement]) -> tuple[str, ...]:
    """Return the row of an extra, whose first requirement is the framework."""
    package = given[0].name
    (oldest,) = {one.version for bound in given if bound.name == package for one in bound.specifier}
    file = ROOT / "constraints" / f"{'core' if extra == '–' else extra}.txt"
    pinned = dict(line.split("==") for line in file.read_text(encoding="utf-8").splitlines())
    pythons = [python for python in PYTHONS if _is_for(given[0], python)]
    return extra, package, oldest, pinned[package], ", ".join(sorted(pythons, key=Version))


def _is_for(bound: Requirement, python: str) -> bool:
    """Return whether a requirement holds on this version of Python, on Linux."""
    on = default_environment() | {"python_version": python, "platform_system": "Linux"}
    return bound.marker is None or bound.marker.evaluate(on)
