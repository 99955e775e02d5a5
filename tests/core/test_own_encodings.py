"""Encodings of one's own in `posenc explain` and `posenc report`."""

import json
import sys

import numpy as np
import pytest

from posenc_backends.cli.main import main
from posenc_backends.conformance.cases import backend_under_test
from posenc_backends.conformance.own import cases_of_encoding
from posenc_core.analysis.explain import explain
from posenc_core.encodings import NAMES, Additive
from posenc_core.encodings.examples import example

from ..pages import FOLDER, blocks

PAGE = FOLDER.with_name("howto") / "encoding.md"
HEADS = "mine:HeadRotary(head_dim=8, layout='half', bases=(100.0, 10000.0))"


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    """Return a function that runs `posenc` in the folder of `mine.py`, the classes of the page on encodings."""
    pytest.importorskip("rich")
    cells = [block.content for block in blocks(PAGE.read_text(encoding="utf-8")) if block.kind == "python"]
    code = "\n".join(cell for cell in cells if cell.startswith("from") and "\n@dataclass" in cell)
    (tmp_path / "mine.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")

    def run(*arguments):
        try:
            status = main(arguments)
        except SystemExit as ended:
            status = ended.code
        captured = capsys.readouterr()
        return status, captured.out + captured.err

    yield run
    sys.modules.pop("mine", None)


@pytest.mark.parametrize(
    ("encoding", "printed"),
    [
        (HEADS, "RotaryEmbedding cos (60, 8), sin (60, 8) pairs 0–7 628.3 6,283"),
        ("mine.py:Window(num_heads=8)", "AttentionBias no table rate (8,)"),
        ("mine:Triangle(dim=3)", "PositionalEncoding table (60, 3) none"),
        ("Cope(num_heads=2, head_dim=4, max_position=3)", "AttentionBias depends on queries or keys"),
    ],
)
def test_an_encoding_is_explained(command, encoding, printed):
    status, text = command("explain", encoding)
    assert status == 0
    words = iter(text.split())
    assert all(word in words for word in printed.split()), text


def test_files_are_written_for_rope_alone(command, tmp_path):
    assert command("explain", HEADS, "--json", "pairs.json")[0] == 0
    (layers,) = json.loads((tmp_path / "pairs.json").read_text(encoding="utf-8"))
    assert [pair["channels"] for pair in layers["regimes"][0]["pairs"]] == [[0, 4], [1, 5], [2, 6], [3, 7]] * 2
    status, text = command("explain", "mine:Window(num_heads=8)", "--json", "window.json")
    assert status == 2
    assert "use `posenc plot`" in text
    assert not (tmp_path / "window.json").exists()
    assert "`--layer-type` belongs to a config" in command("explain", HEADS, "--layer-type", "full_attention")[1]


@pytest.mark.parametrize("name", ["XPos", "LearnedRotary", "MixedRotary", "AxialRotary"])
def test_only_fixed_frequencies_on_one_axis_are_explained(name):
    with pytest.raises(ValueError, match="must have fixed frequencies on one axis"):
        explain(example(name, head_dim=8, layout="half", num_heads=2))


def test_an_encoding_is_tested_in_each_backend(command, monkeypatch):
    from posenc_backends.cli.report import backends

    monkeypatch.setattr(backends, "TARGETS", [target for target in backends.TARGETS if target.backend == "numpy"])
    status, text = command("report", "--encoding", HEADS)
    assert status == 0, text
    assert "against NumPy in float64" in text
    assert "1 encoding, 0 wrong, on numpy." in " ".join(text.split())
    for option in (["--modes"], ["--html", "x.html"]):
        assert "which `--encoding` has none of" in command("report", "--encoding", HEADS, *option)[1]
    rerope = "ReRoPE(rotary=Rotary(head_dim=8, layout='half'), window=4)"
    assert "not attention alone, got ReRoPE" in command("report", "--encoding", rerope)[1]


class Coarse(Additive):
    """Tenths of positions; for tokens of float32 they have the digits of float16."""

    def rows(self, positions, dtype=np.float32):
        rows = self._known(positions)[..., None] / 10
        return {"table": rows if dtype == np.float64 else rows.astype(np.float16).astype(dtype)}


def test_an_encoding_that_depends_on_the_dtype_fails():
    numpy = backend_under_test("numpy")
    found = {case.name: case.run(numpy).passed for case in cases_of_encoding(Coarse(dim=1)) if case.check == "forward"}
    assert found
    assert not any(found.values())


@pytest.mark.parametrize("name", NAMES)
def test_encodings_of_posenc_pass(name):
    encoding = example(name, dim=8, head_dim=8, num_heads=2, layout="half")
    if not encoding.needs_attention:
        numpy = backend_under_test("numpy")
        cases = [case for case in cases_of_encoding(encoding) if case.check == "forward"]
        assert [case.name for case in cases if not case.run(numpy).passed] == []
