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


@pytest.fixture
def main(monkeypatch):
    names = runpy.run_path(str(SCRIPT))
    monkeypatch.setitem(names["main"].__globals__, "results", lambda steps, seeds, only: iter([ONE]))

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
