"""The exercise sheets of the page on teaching: empty they fail, filled in they conform, by the commands they name."""

import ast
import shlex
from pathlib import Path

import pytest

from posenc_backends.cli.main import main

SHEETS = Path(__file__).parents[2] / "docs" / "howto" / "exercises"


def exercises():
    """Yield the sheet and the command of each function."""
    for sheet in ("additive", "attention"):
        for node in ast.parse((SHEETS / f"{sheet}.py").read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef):
                _, _, command = ast.get_docstring(node).partition("Mark it:")
                yield pytest.param(sheet, shlex.split(command), id=f"{sheet}:{node.name}")


@pytest.mark.parametrize(("sheet", "command"), [*exercises()])
def test_an_exercise_is_marked(sheet, command, monkeypatch, capsys):
    monkeypatch.chdir(SHEETS)
    assert command[:2] == ["posenc", "check"]
    assert main(command[1:]) == 2
    assert "failed" in capsys.readouterr().out
    solution = command[2].replace(f"{sheet}.py", f"{sheet}_solution.py")
    assert main(["check", solution, *command[3:]]) == 0
    assert "conforms" in capsys.readouterr().out


MISTAKES = {  # of `halves`, as the page lists them
    "layout swapped": ("x[..., :32], x[..., 32:]", "x[..., 0::2], x[..., 1::2]"),
    "sign flipped": (
        "cos, sin = np.cos(angles), np.sin(angles)",
        "cos, sin = np.cos(angles), -np.sin(angles)",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_has_its_name(name, tmp_path, monkeypatch, capsys):
    right = (SHEETS / "attention_solution.py").read_text(encoding="utf-8")
    wrong = right.replace(*MISTAKES[name])
    if name == "layout swapped":
        wrong = wrong.replace("np.concatenate(both, axis=-1)", "np.stack(both, axis=-1).reshape(x.shape)")
    (tmp_path / "attention.py").write_text(wrong)
    monkeypatch.chdir(tmp_path)
    assert main(["check", "attention.py:halves", "--spec", "Rotary(head_dim=64, layout='half')"]) == 1
    assert f"does not conform: {name}" in capsys.readouterr().out
    assert f"does not conform: {name}" in (SHEETS.parent / "teach.md").read_text(encoding="utf-8")
