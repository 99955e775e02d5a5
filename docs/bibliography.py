"""Write the bibliography: the papers, and where each is cited, as found in sources and pages."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import posenc_core

ROOT = Path(__file__).parents[1]
CITED = re.compile(r"(?:arXiv:|arxiv\.org/(?:abs|pdf)/)(\d{4}\.\d{4,5})")
UNIT = re.compile(r"^(?:class|def) ([A-Za-z]\w*)", re.MULTILINE)
# by number on arXiv: authors, year, title
PAPERS: dict[str, tuple[str, int, str]] = json.loads(Path(__file__).with_name("papers.json").read_text("utf-8"))


def bibliography() -> str:
    """Return the table as Markdown: each paper, and what cites it."""
    places = citations()
    lines = ["```{table}", ":class: words", "| arXiv | paper | cited by |", "|---|---|---|"]
    for number, (authors, year, title) in PAPERS.items():
        cited = ", ".join(dict.fromkeys(places.get(number, ())))
        lines.append(f"| [{number}](https://arxiv.org/abs/{number}) | {authors} {year}: *{title}* | {cited} |")
    return "\n".join([*lines, "```", ""])


def citations() -> dict[str, list[str]]:
    """Return the numbers cited in the code and on the pages, each with the classes, functions and pages that do."""
    found: dict[str, list[str]] = {}
    for path in _files():
        text = path.read_text(encoding="utf-8")
        for match in CITED.finditer(text):
            found.setdefault(match[1], []).append(_place(path, text[: match.start()]))
    return found


def _files() -> Iterator[Path]:
    for folder in ("posenc_core", "posenc_backends", "tests", "benchmarks"):
        yield from sorted((ROOT / folder).rglob("*.py"))
    for folder in ("tutorial", "howto", "explanation", "reference"):
        yield from sorted((ROOT / "docs" / folder).glob("*.md"))


def _place(path: Path, before: str) -> str:
    """Return the class or function, module or page that a citation stands in."""
    if path.suffix == ".md":
        title = next(line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("# "))
        return f"[{title[2:].partition(':')[0]}](/{path.relative_to(ROOT / 'docs').as_posix()})"
    units = UNIT.findall(before)
    if path.is_relative_to(ROOT / "tests"):
        return "a test"
    if units and units[-1] in posenc_core.__all__:
        return f"{{py:obj}}`~posenc_core.{units[-1]}`"
    return f"`{units[-1]}`" if units else f"`{'.'.join(path.relative_to(ROOT).with_suffix('').parts)}`"
