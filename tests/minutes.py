"""Write the table of minutes of CONTRIBUTING.md: `nox 2>&1 | tee nox.log; python -m tests.minutes nox.log`."""

import re
import sys
from pathlib import Path

PAGE = Path(__file__).parents[1] / "CONTRIBUTING.md"
TABLE = re.compile(r"(\| session \| minutes \|\n\|---\|---\|\n)((?:\| .+ \| [\d.]+ \|\n)+)")
TOOK = re.compile(r"\* (.+): success, took (an?|\d+) (second|minute|hour)s?$", re.MULTILINE)
UNITS = {"second": 1 / 60, "minute": 1, "hour": 60}


def minutes_in(log: str) -> dict[str, float]:
    """Return the minutes of each session by the lines that nox prints at its end.

    Raises:
        ValueError: if a session has failed, or none has run.
    """
    _, _, summary = log.rpartition(" sessions in ")
    found = TOOK.findall(summary)
    if not found or len(found) != summary.count("* "):
        raise ValueError(f"`log` must end with sessions that all succeeded, got {summary!r}.")
    return {name: round((1 if count in ("a", "an") else int(count)) * UNITS[unit], 1) for name, count, unit in found}


def minutes_on(page: str) -> dict[str, float]:
    """Return the minutes of each session that the table of the page has."""
    return {name: float(minutes) for name, minutes in re.findall(r"^\| (.+) \| ([\d.]+) \|$", page, re.MULTILINE)}


def with_minutes(page: str, minutes: dict[str, float]) -> str:
    """Return the page with these minutes in its table, the longest first."""
    rows = sorted(minutes.items(), key=lambda row: (-row[1], row[0]))
    return TABLE.sub(lambda found: found[1] + "".join(f"| {name} | {each:g} |\n" for name, each in rows), page)


if __name__ == "__main__":
    log = Path(sys.argv[1]).read_text(encoding="utf-8")
    PAGE.write_text(with_minutes(PAGE.read_text(encoding="utf-8"), minutes_in(log)), encoding="utf-8")
