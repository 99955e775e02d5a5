"""The tables of supported versions agree with `pyproject.toml` and with the constraints of the tests."""

import re
import runpy
from pathlib import Path

import pytest

import posenc_backends

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "explanation" / "versions.md").read_text(encoding="utf-8")
PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8").partition("[dependency-groups]")[0]
ROWS = {row[0]: row for row in re.findall(r"^\| (\S+) \| (\S+) \| (\d\S+) \| (\S+) \| .+ \|$", PAGE, re.MULTILINE)}


def test_each_framework_has_a_row():
    assert {*ROWS} == {"–", *posenc_backends.NAMES}


@pytest.mark.parametrize("extra", ["–", *posenc_backends.NAMES])
def test_the_versions_are_those_of_the_requirements(extra):
    _, package, oldest, newest = ROWS[extra]
    bounds = re.findall(rf'"{package}(?:\[\w+\])?[>=]=([\d.]+)', PROJECT)
    assert set(bounds) == {oldest}
    file = ROOT / "constraints" / f"{'core' if extra == '–' else extra}.txt"
    assert f"{package}=={newest}" in file.read_text(encoding="utf-8").splitlines()


def test_the_generated_table_has_the_same_versions_and_each_python(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    lines = runpy.run_path(str(ROOT / "docs" / "versions.py"))["versions"]().splitlines()[2:]
    found = {row[0]: row for row in (tuple(line.strip("| ").split(" | ")) for line in lines)}
    assert {extra: row[:4] for extra, row in found.items()} == ROWS
    classifiers = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', PROJECT)
    assert found["–"][4] == ", ".join(classifiers)
    assert found["mxnet"][4] == "3.10, 3.11"
    assert found["paddle"][4] == "3.10, 3.11, 3.12, 3.13"
