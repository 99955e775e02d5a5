"""Write which class of precision other libraries reach, from the results of `tests/peers/scoreboard`."""

from __future__ import annotations

import json
from pathlib import Path

from drawn import table

RESULTS = Path(__file__).parents[1] / "tests" / "peers" / "scoreboard" / "scoreboard.json"


def scoreboard() -> str:
    """Return the class and the named defects of each implementation, as Markdown."""
    result = json.loads(RESULTS.read_text(encoding="utf-8"))
    versions, rows = result["versions"], result["rows"]
    heads = ("library", "implementation", "encoding", "class", "off by 1e-3 from", "named defects")
    lines = [
        (
            f"{row['package']} {versions[row['package']]}",
            f"`{row['name']}`",
            f"`{row['spec']}`",
            row["class"],
            "" if row["first_off"] is None else f"{row['first_off']:,}",
            ", ".join(row["mistakes"]) or row["failure"] or "",
        )
        for row in rows
    ]
    return f"{len(rows)} implementations, with torch {versions['torch']}.\n\n{table(heads, lines)}"
