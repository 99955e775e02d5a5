"""Write which class of precision other libraries reach, from the results of `tests/peers/scoreboard`."""

from __future__ import annotations

import json
from pathlib import Path

from drawn import table

FOLDER = Path(__file__).parents[1] / "tests" / "peers" / "scoreboard"


def scoreboard() -> str:
    """Return the class and the named defects of each implementation, as Markdown."""
    boards = [json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8")) for name in ("peers", "jax")]
    versions = {package: number for board in boards for package, number in board["versions"].items()}
    rows = [row for board in boards for row in board["rows"]]
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
    with_versions = f"torch {versions['torch']} and jax {versions['jax']}"
    return f"{len(rows)} implementations, with {with_versions}.\n\n{table(heads, lines)}"
