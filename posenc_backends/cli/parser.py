"""The argument parser of `posenc` and of its subcommands."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias


class Parser(argparse.ArgumentParser):
    """A parser with its own exit status for wrong arguments.

    A subcommand rejects unknown arguments itself, so that its own status is used.
    """

    status = 2

    def parse_known_args(self, *args: Any, **kwargs: Any) -> Any:
        """Parse arguments; exit if some are unknown."""
        known, unknown = super().parse_known_args(*args, **kwargs)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return known, unknown

    def error(self, message: str) -> NoReturn:
        """Print usage and message, and exit with `status`."""
        self.print_usage(sys.stderr)
        self.exit(self.status, f"{self.prog}: error: {message}\n")


if TYPE_CHECKING:
    Subparsers: TypeAlias = argparse._SubParsersAction[Parser]
