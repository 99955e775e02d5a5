"""The command `posenc completion`."""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path

from .parser import Help, Parser

SHELLS = ("bash", "zsh", "fish", "tcsh")


HELP = Help(
    "completion",
    help="print the completion of commands, options and files for a shell",
    description="Print a script with which a shell completes commands, options and files.",
    examples=(
        'eval "$(posenc completion bash)"',
        "posenc completion bash > ~/.local/share/bash-completion/completions/posenc",
        "posenc completion zsh > ~/.zfunc/_posenc",
        "posenc completion fish > ~/.config/fish/completions/posenc.fish",
    ),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to its parser."""
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=f"one of {', '.join(SHELLS)}")


def run(options: argparse.Namespace) -> int:
    """Print the script; return the exit status 0."""
    shtab = importlib.import_module("shtab")
    parser: Parser = options.parser
    for command in parser.commands.values():
        for argument in command._actions:  # argparse offers no other way, and shtab reads the same list
            if argument.type is Path:
                argument.complete = shtab.FILE  # type: ignore[attr-defined]
    print(shtab.complete(parser, shell=options.shell))  # noqa: T201
    return 0
