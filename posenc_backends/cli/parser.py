"""The argument parser of `posenc` and of its subcommands."""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple, NoReturn

CANNOT_RUN = "it cannot run: wrong arguments, or a file that cannot be read or written"
DONE = {0: "done", 2: CANNOT_RUN}


class Help(NamedTuple):
    """The help of a command: its name, and the texts that `Parser` takes."""

    name: str
    help: str
    description: str
    examples: tuple[str, ...]
    statuses: Mapping[int, str] = DONE


class Parser(argparse.ArgumentParser):
    """A parser whose help ends with examples and exit statuses.

    A subcommand rejects unknown arguments itself, so that its own status is used.

    Args:
        examples: lines of a shell.
        statuses: the meaning of each exit status; the last one is that of wrong arguments.
    """

    def __init__(
        self, *, description: str, examples: Sequence[str] = (), statuses: Mapping[int, str] = DONE, **kwargs: Any
    ) -> None:
        meanings = [f"{status}  {meaning}" for status, meaning in statuses.items()]
        epilog = "\n  ".join(("examples:", *examples)) + "\n\n" + "\n  ".join(("exit status:", *meanings))
        super().__init__(
            description="\n".join(textwrap.fill(line, 79) for line in description.splitlines()),
            epilog=epilog if examples else None,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            **kwargs,
        )
        self.examples, self.status = tuple(examples), max(statuses)

    def parse_known_args(self, *args: Any, **kwargs: Any) -> Any:
        """Parse arguments; exit if some are unknown."""
        known, unknown = super().parse_known_args(*args, **kwargs)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return known, unknown

    @property
    def commands(self) -> dict[str, Parser]:
        """The parsers of the subcommands by name."""
        found = (action for action in self._actions if isinstance(action, argparse._SubParsersAction))
        return {name: parser for action in found for name, parser in action.choices.items()}

    def _print_message(self, message: str, file: Any = None) -> None:
        """Print a help or a version; unlike argparse's own method, raise if it cannot be written."""
        (file or sys.stderr).write(message)

    def error(self, message: str) -> NoReturn:
        """Print usage and message, with the nearest choice for one that is unknown, and exit with `status`."""
        self.print_usage(sys.stderr)
        wrong = re.search(r"invalid choice: '(.*?)' \(choose from (.*)\)", message)
        near = get_close_matches(wrong[1], re.findall(r"[^\s',]+", wrong[2]), n=1) if wrong else []
        hint = f"; did you mean {near[0]!r}?" if near else ""
        self.exit(self.status, f"{self.prog}: error: {message}{hint}\n")
