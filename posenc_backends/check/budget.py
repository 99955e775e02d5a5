"""The budget of a search: how many tries it may take, and no time, so that a verdict is the same on any machine."""

from __future__ import annotations

import time
from collections.abc import Callable

SHOWN_EVERY = 2.0  # seconds between two lines of progress


class Budget:
    """The tries that a search may take.

    Args:
        tries: how many there may be.
        progress: a function that takes a line of text every two seconds, or None.
    """

    def __init__(self, tries: int, progress: Callable[[str], None] | None = None):
        self.tries, self.progress, self.tried = tries, progress, 0
        self._shown = time.monotonic()

    @property
    def is_spent(self) -> bool:
        """Whether one try too many was wanted."""
        return self.tried > self.tries

    def take(self) -> bool:
        """Count a try; return whether it may be made."""
        self.tried += 1
        if self.progress is not None and time.monotonic() - self._shown >= SHOWN_EVERY:
            self._shown = time.monotonic()
            self.progress(f"searching for the mistake: {self.tried:,} hypotheses tried, of at most {self.tries:,}")
        return not self.is_spent
