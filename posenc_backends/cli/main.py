"""Run the command `posenc`."""

from __future__ import annotations

import errno
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from posenc_core import __version__
from posenc_core._requirement import requirement

from . import check, completion, explain, explorer, extend, golden, plot, relayout, report, same, train
from .output import flush_output, safe_streams
from .parser import Parser

COMMANDS: tuple[Any, ...] = (report, plot, explain, extend, same, explorer, relayout, train, check, golden, completion)
DESCRIPTION = """\
Positional encodings, computed once, in every framework.
`posenc COMMAND --help` describes a command, with examples."""
EXTRAS = {
    "rich": "report",
    "jinja2": "report",
    "matplotlib": "plots",
    "shtab": "completion",
}  # extra that installs a package


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with these arguments; by default with those of the process.

    Returns:
        The exit status: 0; 1 if a report has failures, a training misses its target, or two configs differ; 2 if the
        command cannot run, as with wrong arguments, a file that cannot be read or written, or too little memory; 130 if
        it is interrupted. `posenc check` has its own.
    """
    with safe_streams():
        try:
            status = _run(arguments)
        except SystemExit:  # `--help`, or wrong arguments
            if flush_output():
                raise SystemExit(2) from None
            raise
        error = flush_output()
        if error is None or isinstance(error, BrokenPipeError):  # `posenc … | head` has read enough
            return 2 if error else status
        if status < 2:
            print(f"posenc: {sentence(error)}", file=sys.stderr)  # noqa: T201
        return max(status, 2)


def _run(arguments: Sequence[str] | None) -> int:
    """Run the command and return its exit status, after one sentence if it cannot run."""
    try:
        options = make_parser().parse_args((sys.argv[1:] if arguments is None else arguments) or ["--help"])
        with _warnings_as_lines():
            status: int = options.run(options)
    except BrokenPipeError:
        return 2
    except (ImportError, MemoryError, OSError, RecursionError, TypeError, ValueError) as error:
        print(f"posenc: {sentence(error)}", file=sys.stderr)  # noqa: T201
        return 2
    except KeyboardInterrupt:
        print("posenc: interrupted.", file=sys.stderr)  # noqa: T201
        return 130
    return status


def sentence(error: Exception) -> str:
    """Return one sentence that says what went wrong, and where the error does not say it, what to do."""
    if isinstance(error, ModuleNotFoundError) and error.name in EXTRAS:
        return f'`{error.name}` is not installed; run `pip install "{requirement(EXTRAS[error.name])}"`.'
    if isinstance(error, MemoryError):
        reason = str(error).rstrip(".") or "no memory is left"
        return f"{reason}; ask for fewer positions or channels."
    if isinstance(error, RecursionError):
        return "the input is nested too deeply."
    if isinstance(error, OSError) and error.strerror is not None:
        name = "a file" if error.filename is None else f"`{error.filename}`"
        fix = "name another, or free some space" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "name another"
        return f"{name} cannot be read or written: {error.strerror}; {fix}."
    return str(error)


def make_parser() -> Parser:
    """Return the parser of the command."""
    parser = Parser(prog="posenc", description=DESCRIPTION)
    parser.add_argument("--version", action="version", version=f"posenc {__version__}")
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in COMMANDS:
        described = command.HELP._asdict()
        added = subparsers.add_parser(described.pop("name"), **described)
        command.add_arguments(added)
        added.set_defaults(run=command.run, parser=parser)
    return parser


@contextmanager
def _warnings_as_lines() -> Iterator[None]:
    """Print each warning once, in one line."""
    printed: set[str] = set()

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        if str(message) not in printed:
            print(f"posenc: {message}", file=sys.stderr)  # noqa: T201
        printed.add(str(message))

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield
