"""A long answer on a small screen."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import ceil

COLUMNS = 80
MOST = 10  # lines of a terminal


def fit_screen(entries: Sequence[str], *, verbose: bool = False) -> str:
    """Return as many entries as fit 10 lines of 80 columns, and how many lines `-v` adds.

    Args:
        entries: texts of one or more lines, the most important first; the first is always there.
        verbose: whether to return all of them.
    """
    heights = [sum(max(1, ceil(len(line) / COLUMNS)) for line in entry.splitlines()) for entry in entries]
    if verbose or sum(heights) <= MOST:
        return "\n".join(entries)
    shown = max(1, sum(height < MOST for height in accumulate(heights)))
    hidden = sum(entry.count("\n") + 1 for entry in entries[shown:])
    return "\n".join([*entries[:shown], f"  … {hidden} more {'line' if hidden == 1 else 'lines'} with -v"])
