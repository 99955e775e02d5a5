"""The command `posenc`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from posenc_core import __version__


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit status: 0, 1 if a report has failures, 2 if the command cannot run."""
    options = _parser().parse_args(arguments)
    try:
        status: int = options.run(options)
    except (ImportError, OSError, TypeError, ValueError) as error:
        print(f"posenc: {error}", file=sys.stderr)  # noqa: T201
        return 2
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="posenc", description="Positional encodings, computed once, in every framework."
    )
    parser.add_argument("--version", action="version", version=f"posenc {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    report = commands.add_parser("report", help="test every encoding in every installed framework")
    report.add_argument("--json", type=Path, metavar="FILE", help="write the results there too")
    report.set_defaults(run=_report)
    plot = commands.add_parser("plot", help="draw an encoding")
    plot.add_argument("encoding", metavar="ENCODING", help="for example 'Sinusoidal(dim=32)'")
    plot.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="PNG, SVG or PDF")
    plot.add_argument("--length", type=int, default=60, help="number of positions (60)")
    plot.set_defaults(run=_plot)
    return parser


def _report(options: argparse.Namespace) -> int:
    try:
        from posenc_backends.report import report
    except ModuleNotFoundError as error:
        if error.name != "rich":
            raise
        raise ImportError('`rich` is not installed; run `pip install "posenc[report]"`.') from error
    return report(options.json)


def _plot(options: argparse.Namespace) -> int:
    from posenc_core.notation import parse
    from posenc_core.plots import plot

    plot(parse(options.encoding), length=options.length).savefig(options.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
