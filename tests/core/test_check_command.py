"""`posenc check`, its page, and the pytest plugin."""

import importlib.metadata
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from posenc_backends.cli.main import main
from posenc_core import Rotary

PLUGIN = "posenc.conformance"

MODULE = """
import numpy as np
from posenc_core import Rotary, rotate

class Model:
    def rope(self, q, k, positions):
        cos, sin = (t if t.ndim == 2 else t[:, None] for t in Rotary(head_dim=64, layout="half").cos_sin(positions))
        return rotate(q, cos, sin, layout="half"), rotate(k, cos, sin, layout="half")

model = Model()

def swapped(q, k, positions):
    cos, sin = (t if t.ndim == 2 else t[:, None] for t in Rotary(head_dim=64, layout="half").cos_sin(positions))
    return rotate(q, cos, sin, layout="interleaved"), rotate(k, cos, sin, layout="interleaved")

def broken(q, k, positions):
    raise KeyError("cache")

def leaving(q, k, positions):
    raise SystemExit(0)
"""


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    """Return a function that runs `posenc` in the folder of `mine.py` and returns its status and its output."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "mine", raising=False)

    def run(*arguments):
        try:
            status = main(arguments)
        except SystemExit as ended:
            status = ended.code
        captured = capsys.readouterr()
        return status, captured.err if status == 3 else captured.out

    yield run
    sys.modules.pop("mine", None)


def test_the_command_has_four_statuses(tmp_path, command):
    (tmp_path / "mine.py").write_text(MODULE)
    (tmp_path / "config.json").write_text(json.dumps({"head_dim": 64, "rope_theta": 5e5}))
    sparse = {"model_type": "deepseek_v32", "qk_rope_head_dim": 64, "index_head_dim": 64, "num_hidden_layers": 1}
    (tmp_path / "sparse.json").write_text(json.dumps(sparse))
    indexer = ("--config", "sparse.json", "--part", "indexer", "--layer", "0")
    norm = ("--qk-norm", "QKNorm(head_dim=64, weight=False)")
    for status, text, arguments in (
        (0, "mine:model.rope conforms (rounded once, worst ", ("mine:model.rope", "--json", "result.json")),
        (0, "conforms", ("mine.py:model.rope", "--form", "rotation", "--framework", "numpy")),
        (0, "conforms", ("mine:model.rope", "--takes", "negative,real")),
        (1, "base ignored: the base is 10000", ("mine:model.rope", "--config", "config.json", "--json", "wrong.json")),
        (0, "conforms", ("mine:model.rope", *indexer)),
        (1, "not conform: indexer rotated in the attention's layout;", ("mine:swapped", *indexer, "--no-gradient")),
        (1, "not conform: layout swapped;", ("mine:swapped", "--no-gradient")),
        (1, "not conform: norm missing;", ("mine:model.rope", *norm, "--no-gradient")),
        (3, "must be one of the 1 layers", ("mine:model.rope", *indexer[:-1], "1")),
        (2, "it raised KeyError: 'cache'", ("mine:broken",)),
        (2, "it raised SystemExit: 0", ("mine:leaving",)),
        (3, "`--json` must be in a folder that exists", ("mine:model.rope", "--json", "nowhere/result.json")),
        (3, "`nowhere` cannot be imported", ("nowhere:rope",)),
        (3, "has no `rope`", ("mine:rope",)),
        (3, "must be written like 'package.module:function'", ("mine",)),
        (3, "argument --longest: invalid int value", ("mine:model.rope", "--longest", "far")),
        (3, "unrecognized arguments: --far", ("mine:model.rope", "--far")),
        (3, "unrecognized arguments: twice", ("mine:model.rope", "twice")),
        (3, "one of `MODULE:FUNCTION`, `--exec`, `--model` and `--cache` must be given", ()),
        (3, "`encoding` must be written like", ("mine:model.rope", "--spec", "64")),
        (3, "give one of them", ("mine:model.rope", "--spec", "Sine(dim=2)", "--config", "config.json")),
        (3, "`framework` must be one of", ("mine:model.rope", "--framework", "caffe")),
        (3, "`takes` must be some of", ("mine:model.rope", "--takes", "complex")),
    ):  # fmt: skip
        done, out = command("check", *arguments)
        assert (done, text in out) == (status, True), out
    right, wrong = (json.loads((tmp_path / f"{name}.json").read_text()) for name in ("result", "wrong"))
    assert (right["status"], right["mistakes"], right["failure"]) == (0, [], None)
    assert right["worst"] < right["limit"]
    assert Rotary.from_dict(right["spec"]) == Rotary(head_dim=64, layout="half")
    assert wrong["mistakes"][0]["name"] == "base ignored"
    assert wrong["function"] == "mine:model.rope"


def test_an_error_of_the_library_is_not_reported_as_a_mistake_of_the_function(tmp_path, command, monkeypatch):
    (tmp_path / "mine.py").write_text(MODULE)
    monkeypatch.setattr("posenc_backends.cli.check.check", lambda *_, **__: {}["missing"])
    assert command("check", "mine:model.rope") == (3, "posenc: KeyError('missing')\n")


def test_a_file_imports_the_modules_beside_it(tmp_path, command):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "beside_it.py").write_text(MODULE)
    (tmp_path / "folder" / "mine.py").write_text("from beside_it import broken")
    assert command("check", str(tmp_path / "folder" / "mine.py") + ":broken")[0] == 2


def test_a_command_line_that_a_shell_refuses_names_its_option(command):
    status, text = command("check", "--exec", "'unclosed")
    assert (status, "`--exec`" in text) == (3, True)


def test_a_file_may_be_called_like_a_module(tmp_path, command):
    (tmp_path / "copy.py").write_text(MODULE)
    status, text = command("check", str(tmp_path / "copy.py") + ":model.rope")
    assert (status, "conforms" in text) == (0, True), text
    assert sys.modules["copy"].deepcopy


def test_other_commands_reject_unknown_arguments_with_status_two(command):
    assert command("report", "--far")[0] == 2


def test_the_command_of_a_process_ends_with_its_status(tmp_path):
    (tmp_path / "mine.py").write_text(MODULE)
    arguments = [sys.executable, "-m", "posenc_backends", "check", "mine:broken"]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, "")
    assert "it raised KeyError: 'cache'" in done.stdout


def test_a_framework_that_is_not_installed_gives_status_three(tmp_path):
    (tmp_path / "mine.py").write_text(MODULE)
    hidden = "import sys; sys.modules['torch'] = None\nfrom posenc_backends.__main__ import main; sys.exit(main())"
    command = [sys.executable, "-c", hidden, "check", "mine:model.rope", "--framework", "torch"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 3
    assert "Traceback" not in done.stderr


PAGE = Path(__file__).parents[2] / "docs" / "howto" / "check.md"
TESTS = """
from mine import model

def test_right(conforms): assert conforms(model.rope, "Rotary(head_dim=64, layout='half')").status == 0
def test_wrong(conforms): conforms(model.rope, "Rotary(head_dim=64, layout='interleaved')")
"""


def test_the_plugin_tests_in_one_line(tmp_path):
    points = importlib.metadata.entry_points(group="pytest11")
    named = [] if PLUGIN in points.names else ["-p", "posenc_backends.check.pytest_plugin"]
    (program,) = re.findall(r"```python\n(# mine\.py.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    with_base = program.replace("positions):", "positions, base):").replace("500000.0", "base")
    (tmp_path / "mine.py").write_text(MODULE + with_base)
    (tmp_path / "test_mine.py").write_text(TESTS)
    shutil.copy(PAGE.parent / "programs" / "test_rope.py", tmp_path)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *named, "."]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert "1 failed, 3 passed" in done.stdout, done.stdout + done.stderr
    assert "rope does not conform: layout swapped" in done.stdout
    assert "pairs are those of layout 'half'" in done.stdout


def test_the_page_shows_the_output_of_the_command(tmp_path, command):
    page = PAGE.read_text("utf-8")
    (program,) = re.findall(r"```python\n(# mine\.py.*?)```", page, re.DOTALL)
    (tmp_path / "mine.py").write_text(program)
    right, wrong, *_ = re.findall(r"^posenc (check .*)$", page, re.MULTILINE)
    status, text = command(*shlex.split(right))
    assert (status, re.search(r"`(conforms \(exact, worst .*? ulp\))`", page)[1] in text) == (0, True), text
    status, text = command(*shlex.split(wrong))
    assert status == 1
    for line in re.findall(r"^> (.*?)[;.] ", page, re.MULTILINE):
        assert line in text


@pytest.mark.parametrize("kind", ["--model", "--cache"])
@pytest.mark.parametrize("options", [["--raw"], ["--no-gradient"], ["--allow", "exact"], ["--part", "indexer"]])
def test_options_of_functions_are_refused_for_models_and_decoders(command, kind, options):
    status, text = command("check", kind, "mine:model", *options)
    assert (status, f"`{options[0][2:]}`" in text) == (3, True), text


OWN = """
from dataclasses import dataclass

import numpy as np
from posenc_core.encodings import Additive


@dataclass(frozen=True, kw_only=True, repr=False)
class Triangle{0}(Additive):
    def rows(self, positions, dtype=np.float32):
        turns = self._known(positions)[..., None] / 2.0 ** np.arange(2, self.dim + 2) % 1
        return {{"table": (np.abs(4 * turns - 2) - 1).astype(dtype)}}


def table(positions):
    return Triangle{0}(dim=3).table(positions)
"""


@pytest.mark.parametrize(("number", "module"), [(1, "own1"), (2, "own2.py")])
def test_an_encoding_of_ones_own_is_named_with_its_module(number, module, tmp_path, command):
    pytest.importorskip("matplotlib")
    (tmp_path / f"own{number}.py").write_text(OWN.format(number))
    spec = f"{module}:Triangle{number}(dim=3)"
    assert command("plot", spec, "-o", "own.png")[0] == 0
    assert (tmp_path / "own.png").stat().st_size > 1000
    status, text = command("check", f"{module}:table", "--spec", spec)
    assert status == 0, text
    assert command("check", f"{module}:table", "--spec", f"nowhere:Triangle{number}(dim=3)")[0] == 3
