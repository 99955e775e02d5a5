"""The command `posenc`: its help, its examples, and its completion."""

import os
import shlex
import shutil
import subprocess
import sys
from types import SimpleNamespace

import pytest

from posenc_backends.cli.completion import SHELLS
from posenc_backends.cli.main import main, make_parser
from posenc_core._requirement import requirement

COMMANDS = make_parser().commands


def test_alone_it_shows_its_help(capsys):
    with pytest.raises(SystemExit) as ended:
        main([])
    shown = capsys.readouterr().out
    assert ended.value.code == 0
    assert all(f"\n    {name}" in shown for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_of_the_help_are_parsed(name, capsys):
    """The arguments are parsed; many name files that only their reader has."""
    examples = COMMANDS[name].examples
    assert examples
    for line in examples:
        within = line[len('eval "$(') : -len(')"')] if line.startswith("eval ") else line
        words = shlex.split(within.partition(" > ")[0])
        assert words[:2] == ["posenc", name]
        assert make_parser().parse_args(words[1:]).run
        assert line in COMMANDS[name].format_help()


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_ends_with_the_exit_statuses(name, capsys):
    """The last of them is that of wrong arguments."""
    statuses = COMMANDS[name].format_help().partition("exit status:\n")[2].strip().splitlines()
    with pytest.raises(SystemExit) as ended:
        main([name, "--no-such-option"])
    assert ended.value.code == int(statuses[-1].split()[0])
    assert int(statuses[0].split()[0]) == 0


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_fits_a_terminal_of_80_columns(name, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert [line for line in COMMANDS[name].format_help().splitlines() if len(line) > 80] == []


def script_for(shell, capsys):
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_of_each_shell_has_every_command(shell, capsys):
    script = script_for(shell, capsys)
    assert [name for name in COMMANDS if name not in script] == []


@pytest.mark.parametrize(
    ("line", "completed"), [("posenc exp", {"explain", "explore"}), ("posenc same --any", {"--any-layout"})]
)
def test_bash_completes_commands_and_options(line, completed, tmp_path, capsys):
    ask = f"\nCOMP_WORDS=({line}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _shtab_posenc; echo ${{COMPREPLY[@]}}\n"
    asked = script_for("bash", capsys) + ask
    answer = subprocess.run(["bash"], input=asked, cwd=tmp_path, capture_output=True, check=True, text=True)
    assert set(answer.stdout.split()) == completed


@pytest.mark.parametrize(
    ("line", "completed"),
    [
        ("posenc exp", {"explain", "explore"}),
        ("posenc same --any", {"--any-layout"}),
        ("posenc explain conf", {"config.json"}),
    ],
)
def test_fish_completes_commands_options_and_files(line, completed, tmp_path, capsys):
    if shutil.which("fish") is None:
        pytest.skip("this machine has no fish")
    (tmp_path / "config.json").touch()
    asked = script_for("fish", capsys) + f"\ncomplete -C '{line}'\n"
    home = {**os.environ, "HOME": str(tmp_path)}
    answer = subprocess.run(["fish"], input=asked, cwd=tmp_path, env=home, capture_output=True, check=True, text=True)
    assert {one.split("\t")[0] for one in answer.stdout.splitlines()} == completed


def test_without_its_extra_the_completion_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["completion", "bash"]) == 2
    assert f'pip install "{requirement("completion")}"' in capsys.readouterr().err


def test_golden_says_first_that_onnx_is_missing(monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(sys.modules, "onnx", None)
    monkeypatch.delitem(sys.modules, "posenc_backends.cli.golden.onnx_models", raising=False)
    assert main(["golden", "-o", str(tmp_path / "golden"), "--onnx"]) == 2
    assert "pip install onnx" in capsys.readouterr().err
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "status", "nearest"),
    [
        (["explains", "config.json"], 2, "explain"),
        (["train", "dats"], 2, "dates"),
        (["checks", "mine:rope"], 2, "check"),
    ],
)
def test_a_typing_error_gets_the_nearest_choice(words, status, nearest, capsys):
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == status
    assert f"; did you mean '{nearest}'?" in capsys.readouterr().err


@pytest.mark.parametrize("backend", ["torch", "tensorflow", "keras"])
def test_a_training_without_its_framework_says_what_to_install(backend, monkeypatch, capsys):
    pytest.importorskip("rich")
    monkeypatch.setattr("posenc_backends.find_spec", lambda module: None)
    monkeypatch.setitem(sys.modules, f"posenc_backends.{backend}", None)
    monkeypatch.delitem(sys.modules, f"posenc_backends.{backend}")
    assert main(["train", "dates", "--backend", backend]) == 2
    assert f"`{backend}` is not installed; run `pip install " in capsys.readouterr().err


def test_a_reader_that_stops_gets_no_message():
    pytest.importorskip("shtab")
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "posenc_backends", "completion", "bash"]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (2, "")


@pytest.mark.parametrize("target", ["99", "-0.1", "nan"])
def test_a_target_that_is_no_share_is_refused_before_the_training(target, capsys):
    assert main(["train", "dates", "--backend", "torch", f"--target={target}"]) == 2
    assert capsys.readouterr().err == f"posenc: `--target` must be a share from 0 to 1, got {target}.\n"


@pytest.mark.parametrize("first", ["keras (tensorflow) 3.15.1", "numpy 2.4.6"])
def test_the_headings_of_a_report_fit_a_terminal_of_80_columns(first, monkeypatch, capsys):
    pytest.importorskip("rich")
    from rich.console import Console

    from posenc_backends.cli.report import backends
    from posenc_backends.cli.report.results import COLUMNS

    row = dict.fromkeys(COLUMNS) | {"encoding": "RandomFourierFeatures", "seconds": 100.26, "failed": 0}
    target = SimpleNamespace(name=first.rpartition(" ")[0], version=first.rpartition(" ")[2])
    monkeypatch.setattr(backends, "cell", lambda results: "85/85")
    Console(width=80).print(backends._table([SimpleNamespace(target=target, rows=lambda: [row])]))
    shown = capsys.readouterr().out
    assert " ".join((*COLUMNS, "sec")) in " ".join(shown.split())
    assert "\n RandomFourierFeatures " in shown


@pytest.mark.parametrize("wrong", [False, True])
def test_a_report_ends_with_one_sentence(wrong, monkeypatch, capsys):
    """What the framework cannot do is a dash, and listed on request."""
    pytest.importorskip("rich")
    from posenc_backends.cli.report import backends

    def run_backend(target, advance, *options):
        section = backends.Section(target, cases=2)
        for check, gap in (("forward", None), ("gradient", "It has no gradient.")):
            section.results.append({
                "case": check, "encoding": "Rotary", "check": check, "is_mode": False, "passed": not (gap or wrong),
                "gap": gap, "worst": 9.0, "limit": 4.0, "seconds": 0.5,
            })  # fmt: skip
        return section

    monkeypatch.setattr(backends, "TARGETS", backends.TARGETS[:1])
    monkeypatch.setattr(backends, "run_backend", run_backend)
    monkeypatch.setenv("COLUMNS", "80")
    for options in ([], ["-v"]):
        assert main(["report", *options]) == wrong
        *shown, last = capsys.readouterr().out.splitlines()
        meaning = "1: a case fails or is missing" if wrong else "0: no case fails"
        assert last == f"1 encoding, {int(wrong)} wrong, on numpy. Exit status {meaning}."
        assert ("numpy: known failure: It has no gradient." in shown) == bool(options)
        assert any(line.split()[:4] == ["Rotary", "–", "9", "–"] for line in shown)
        assert max(map(len, shown)) <= 80


def test_progress_is_shown_on_the_error_stream_of_a_terminal(monkeypatch, capsys):
    """So that a report can be piped; where no terminal is, there is no bar."""
    from posenc_backends.cli.report import backends

    target = backends.TARGETS[0]
    monkeypatch.setattr(backends, "TARGETS", [target])
    monkeypatch.setattr(backends, "run_backend", lambda target, advance, *options: advance(1, 7))
    for is_terminal in (True, False):
        monkeypatch.setenv("TTY_COMPATIBLE", str(int(is_terminal)))
        backends._run_installed()
        shown = capsys.readouterr()
        assert shown.out == ""
        assert (f"{target.name} " in shown.err) == is_terminal
