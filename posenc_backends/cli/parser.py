"""How the command `posenc` reads its arguments."""

from __future__ import annotations

import argparse
import sys
from typing import Any, NoReturn


class Parser(argparse.ArgumentParser):
    """One whose exit status can be told, where arguments are wrong; a command refuses those that it does not know itself."""

    status = 2

    def parse_known_args(self, *given: Any, **options: Any) -> Any:
        known, unknown = super().parse_known_args(*given, **options)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return known, unknown

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(self.status, f"{self.prog}: error: {message}\n")
