import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def sections():
    page = runpy.run_path(str(ROOT / "docs" / "support.py"))["support"]()
    return {section.partition("\n")[0]: section for section in page.split("\n## ")[1:]}


def test_each_room_has_modes_with_a_sentence_of_their_own(sections):
    assert list(sections) == ["PyTorch", "Keras", "Keras on TensorFlow, besides", "Paddle", "MXNet", "JAX"]
    for section in sections.values():
        rows = [line.split(" | ") for line in section.partition("\n| gap |")[0].splitlines() if line.startswith("| ")]
        sentences = [sentence.strip(" |") for _, sentence in rows[1:]]
        assert len(sentences) > 1
        assert all(sentence.endswith(".") for sentence in sentences)


def test_sentences_are_those_of_the_functions_that_run(sections):
    modes = (ROOT / "posenc_backends" / "conformance" / "frameworks" / "torch.py").read_text(encoding="utf-8")
    (cast,) = (line for line in sections["PyTorch"].splitlines() if line.startswith("| cast |"))
    assert cast.split(" | ")[1].strip(" |") in modes


def test_every_gap_is_told(sections):
    told = runpy.run_path(str(ROOT / "posenc_backends" / "conformance" / "known_failures.py"))["KNOWN_FAILURES"][
        "paddle"
    ]
    for case, why in told[""].items():
        assert f"| {case} | everywhere | {why} |" in sections["Paddle"]


def test_no_framework_is_imported():
    before = set(sys.modules)
    runpy.run_path(str(ROOT / "docs" / "support.py"))["support"]()
    assert not {"torch", "jax", "paddle", "mxnet", "tensorflow"} & (set(sys.modules) - before)
