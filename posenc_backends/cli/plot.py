"""The command `posenc plot`."""

from __future__ import annotations

import argparse
from pathlib import Path

from .modules import read_encoding
from .output import replace_file
from .parser import Help

HELP = Help(
    "plot",
    help="draw an encoding",
    description="Draw the table, the waves or the bias of an encoding.",
    examples=(
        'posenc plot "Sinusoidal(dim=32)" -o waves.png',
        'posenc plot "Alibi(num_heads=8)" -o alibi.svg --length 100',
    ),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to its parser."""
    parser.add_argument(
        "encoding", metavar="ENCODING", help="for example 'Sinusoidal(dim=32)', 'mine:Window(num_heads=8)'"
    )
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="a PNG, SVG or PDF file")
    parser.add_argument("--length", type=int, default=60, help="number of positions (default: 60)")


def run(options: argparse.Namespace) -> int:
    """Draw the encoding; return the exit status 0."""
    from posenc_core.analysis.plots import plot

    figure = plot(read_encoding(options.encoding), length=options.length)
    with replace_file(options.output) as picture:
        figure.savefig(picture)
    return 0
