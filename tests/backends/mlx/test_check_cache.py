"""`posenc check --cache` of a decoder on MLX, with a cache like MLX-LM's."""

from pathlib import Path

from posenc_backends.cli.main import main

PROGRAM = Path(__file__).parents[3] / "docs" / "howto" / "programs" / "cache_mlx.py"


def test_the_cache_of_the_page_agrees(capsys):
    assert main(["check", "--cache", f"{PROGRAM}:Decoder"]) == 0
    assert "agrees: the same prompt again, decode, several tokens in a call, trim, reorder" in capsys.readouterr().out
