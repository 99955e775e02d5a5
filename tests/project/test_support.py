"""The page "What works where"."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from posenc_backends import NAMES
from posenc_backends.conformance.known_failures import KNOWN_FAILURES

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "support.py"


@pytest.fixture(scope="module")
def sections():
    page = runpy.run_path(str(PAGE))["support"]()
    return {section.partition("\n")[0]: section for section in f"\n{page}".split("\n## ")[1:]}


def rows(section):
    return [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")]


@pytest.fixture(scope="module")
def tabs(sections):
    """The matrix of each framework: its header, its rows, and its footnotes."""
    return {tab.partition("\n")[0]: tab for tab in sections["Encodings"].split("::::{tab-item} ")[1:]}


def test_the_matrix_has_every_encoding_on_every_framework(tabs):
    assert list(tabs) == ["PyTorch", "Keras", "Paddle", "MXNet", "JAX", "MLX"]
    for tab in tabs.values():
        header, *cells = rows(tab.partition("\n| column |")[0])
        assert header[:5] == ["encoding", "eager", "gradients", "half", "compiled"]
        assert {"`Rotary`", "`Alibi`", "`Sinusoidal`", "no encoding"} <= {row[0] for row in cells}
        for row in cells:
            assert len(row) == len(header)
            assert all(re.fullmatch(r"·|✓|[✓✗][⁰¹²³⁴⁵⁶⁷⁸⁹]+( [⁰¹²³⁴⁵⁶⁷⁸⁹]+)*", cell) for cell in row[1:]), row
            assert row[1][0] == "✓"


def test_a_gap_has_its_reason_below(tabs):
    (xpos,) = (row for row in rows(tabs["MXNet"]) if row[0] == "`XPos`")
    assert xpos[3] == "✗¹"  # its cases in half precision are bfloat16
    assert f"\n1. {KNOWN_FAILURES['mxnet']['']['bfloat16']}\n" in tabs["MXNet"]


def test_every_mode_is_in_a_column():
    page = runpy.run_path(str(PAGE))
    for framework, columns in page["MODES_OF"].items():
        files = ("keras", "tensorflow") if framework == "keras" else (framework,)
        modes = {mode for name in files for mode in page["_modes"](name, "MODES")}
        assert set(columns) <= set(page["COLUMNS"])
        assert sorted(mode for of_column in columns.values() for mode in of_column) == sorted(modes)


def test_each_mode_has_a_sentence(sections):
    titles = ["PyTorch", "Keras", "Paddle", "MXNet", "JAX", "MLX", "Keras on TensorFlow: further modes"]
    assert list(sections) == ["Encodings", *titles]
    for title in titles:
        _, *modes = rows(sections[title].partition("\n| known failure |")[0])
        assert len(modes) > 1
        assert all(sentence.endswith(".") for _, sentence in modes), modes


def test_sentences_are_docstrings_of_the_functions_that_run(sections):
    source = (ROOT / "posenc_backends" / "conformance" / "frameworks" / "torch.py").read_text(encoding="utf-8")
    (cast,) = (row for row in rows(sections["PyTorch"]) if row[0] == "cast")
    assert cast[1] in source


def test_every_known_failure_is_listed(sections):
    for case, reason in KNOWN_FAILURES["paddle"][""].items():
        assert f"| {case} | everywhere | {reason} |" in sections["Paddle"]


def test_no_framework_is_imported():
    code = f"import runpy, sys; runpy.run_path({str(PAGE)!r})['support'](); print(*sys.modules, sep='\\n')"
    modules = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert not {"torch", "jax", "paddle", "mxnet", "mlx", "tensorflow"} & set(modules.split("\n"))


def test_the_workflow_of_the_tests_leaves_out_sessions_that_exist():
    workflow = (ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8")
    sessions = set(re.findall(r"^def (\w+)\(session", (ROOT / "noxfile.py").read_text(encoding="utf-8"), re.MULTILINE))
    left_out = re.findall(r"\{ session: (\w+)(?:\((\w+)\))?, system: (\S+) \}", workflow)
    assert workflow.count("{ session: ") == len(left_out) > 0
    for session, name, system in left_out:
        assert session in sessions
        assert name in ("", *NAMES)
        assert f"{system}," in workflow or f", {system}]" in workflow
