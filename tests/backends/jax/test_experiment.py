"""The command line of the experiment on length extrapolation, without its trainings."""

import json
import runpy
import sys
from pathlib import Path

import pytest

pytest.importorskip("rich")
SCRIPT = Path(__file__).parents[3] / "experiments" / "length_extrapolation.py"
ONE = {"task": "shift", "encoding": "ALiBi", "value": "Alibi(num_heads=4)", "accuracy": [[0.5]]}
OTHER = ONE | {"encoding": "T5"}


def result(name):
    return ONE | {"encoding": name}


@pytest.fixture
def main(monkeypatch):
    names = runpy.run_path(str(SCRIPT))
    monkeypatch.setitem(
        names["main"].__globals__, "results", lambda steps, seeds, positions: iter(map(result, positions))
    )

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", [SCRIPT.name, *map(str, arguments)])
        names["main"]()

    return run


def test_results_of_some_encodings_are_written_to_a_new_file_or_beside_the_others(main, tmp_path):
    path = tmp_path / "new.json"
    main("--only", "ALiBi", "-o", path)
    record = json.loads(path.read_text())
    assert record["results"] == [ONE]
    path.write_text(json.dumps({"results": [OTHER, ONE | {"accuracy": [[0.25]]}]}))
    main("--only", "ALiBi", "-o", path)
    assert json.loads(path.read_text())["results"] == [ONE, OTHER]


def test_an_unknown_encoding_is_rejected_before_the_trainings(main, tmp_path, capsys):
    with pytest.raises(SystemExit, match="2"):
        main("--only", "alibi", "-o", tmp_path / "new.json")
    assert "invalid choice: 'alibi'" in capsys.readouterr().err
    assert not (tmp_path / "new.json").exists()


def test_an_encoding_of_ones_own_is_trained(main, tmp_path, monkeypatch, capsys):
    (tmp_path / "mine.py").write_text("from posenc_core import Alibi\nclass Slopes(Alibi): pass\n")
    monkeypatch.chdir(tmp_path)
    main("--encoding", "mine.py:Slopes(num_heads=4)", "--only", "T5", "-o", "own.json")
    assert json.loads(Path("own.json").read_text())["results"] == [OTHER, result("Slopes(num_heads=4)")]
    with pytest.raises(SystemExit, match="2"):
        main("--encoding", "nowhere:Slopes(num_heads=4)")
    assert "`nowhere` cannot be imported" in capsys.readouterr().err
