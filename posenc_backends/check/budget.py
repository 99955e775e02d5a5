"""The budget of a part of a check: seconds and tries."""

from __future__ import annotations

import time
from collections.abc import Callable

TIMED = True  # tests set it to False: what they find must not depend on the speed of the machine
SHOWN_EVERY = 2.0  # seconds between two lines of progress


class Budget:
    """The seconds and the tries that a part of a check may take; seconds count inside of its `with` statements.

    Args:
        seconds: the time.
        tries: how many there may be.
        progress: a function that takes a line of text every two seconds, or None.
    """

    def __init__(self, seconds: float, tries: int, progress: Callable[[str], None] | None = None):
        self.seconds, self.tries, self.progress = seconds, tries, progress
        self.tried, self.spent, self.ended = 0, 0.0, ""
        self._began = self._shown = 0.0

    def __enter__(self) -> None:
        self._began = time.monotonic() - self.spent

    def __exit__(self, *_: object) -> None:
        self.spent = time.monotonic() - self._began

    def is_over(self) -> bool:
        """Count a try; return whether it is one too many, or the time is over, and note in `ended` which."""
        self.tried += 1
        spent = time.monotonic() - self._began
        if self.progress is not None and spent - self._shown >= SHOWN_EVERY:
            self._shown = spent
            text = f"{self.tried} hypotheses tried in {spent:.0f} s, of at most {self.seconds:.0f} s"
            self.progress(f"searching for the mistake: {text}")
        if self.tried > self.tries:
            self.ended = f"{self.tries} tries"
        elif TIMED and spent > self.seconds:
            self.ended = f"{self.seconds:g} s"
        return bool(self.ended)
