"""`posenc check --cache` of the caches of transformers."""

from pathlib import Path

import pytest

from posenc_backends.cli.main import main

PROGRAM = Path(__file__).parents[2] / "docs" / "howto" / "programs" / "cache_transformers.py"


@pytest.mark.parametrize(
    ("name", "mistakes", "not_asked"),
    [
        ("Llama", 24, "past the window (no `window`)"),
        ("Static", 18, "past the window (no `window`), trim (no `trim`), move (no `move`)"),
        ("Mistral", 20, "trim (a window of less than 10 tokens has lost what `trim` needs), move (no `move`)"),
    ],
)
def test_caches_agree_and_mistakes_would_show(name, mistakes, not_asked, capsys):
    assert main(["check", "--cache", f"{PROGRAM}:{name}"]) == 0
    out = capsys.readouterr().out
    assert f"would show: {mistakes} of the {mistakes} named mistakes" in out, out
    assert f"not asked: {not_asked}\n" in out
