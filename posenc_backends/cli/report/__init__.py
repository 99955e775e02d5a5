"""The command `posenc report`."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..parser import CANNOT_RUN, Help

HELP = Help(
    "report",
    help="test every encoding in every installed framework",
    description=(
        "Test every encoding in every installed framework against numbers computed at 50 digits, or one of your own "
        "against NumPy."
    ),
    examples=(
        "posenc report",
        "posenc report --html report.html --modes",
        'posenc report --encoding "mine:Window(num_heads=8)"',
    ),
    statuses={0: "no case fails", 1: "a case fails or is missing", 2: CANNOT_RUN},
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to its parser."""
    parser.add_argument(
        "--encoding", default="", metavar="ENCODING", help="test only this one, such as 'mine:Window(num_heads=8)'"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results as JSON")
    parser.add_argument("--html", type=Path, metavar="FILE", help="also write them as a page: sortable, with pictures")
    parser.add_argument(
        "--modes", action="store_true", help="also compile, export, save, … every encoding: takes minutes"
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="also print what each framework cannot do")


def run(options: argparse.Namespace) -> int:
    """Run the report; return the exit status: 0 if no case failed, 1 otherwise."""
    from .backends import report

    wanted = {"encoding": options.encoding, "html": options.html, "modes": options.modes}
    return report(options.json, **wanted, verbose=options.verbose)
