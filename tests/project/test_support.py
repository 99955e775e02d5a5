"""The page "What works where"."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from posenc_backends.conformance.known_failures import KNOWN_FAILURES

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "support.py"


@pytest.fixture(scope="module")
def sections():
    page = runpy.run_path(str(PAGE))["support"]()
    return {section.partition("\n")[0]: section for section in page.split("\n## ")[1:]}


def rows(section):
    return [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")]


def test_the_matrix_has_every_encoding_on_every_framework(sections):
    header, *cells = rows(sections["Encodings"])
    assert header == ["encoding", "PyTorch", "Keras", "Paddle", "MXNet", "JAX"]
    assert {"`Rotary`", "`Alibi`", "`Sinusoidal`", "attention without encoding"} <= {row[0] for row in cells}
    for row in cells:
        assert len(row) == len(header)
        assert all(re.fullmatch(r"✓ \d+|\d+ of \d+ [¹²³⁴⁵⁶⁷⁸⁹]+", cell) for cell in row[1:]), row


def test_the_matrix_counts_known_failures_and_gives_the_reason(sections):
    (rotary,) = (row for row in rows(sections["Encodings"]) if row[0] == "`Rotary`")
    passed, total, mark = re.fullmatch(r"(\d+) of (\d+) (.+)", rotary[4]).groups()  # MXNet has no bfloat16
    assert 0 < int(passed) < int(total)
    assert f"* {mark} {KNOWN_FAILURES['mxnet']['']['bfloat16']}" in sections["Encodings"]


def test_each_mode_has_a_sentence(sections):
    titles = ["PyTorch", "Keras", "Paddle", "MXNet", "JAX", "Keras on TensorFlow: further modes"]
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
    assert not {"torch", "jax", "paddle", "mxnet", "tensorflow"} & set(modules.split("\n"))
