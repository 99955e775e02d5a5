"""Write how many classes of other libraries agree with `load_rope`, from the results of `tests/peers/coverage`."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from drawn import table

RESULTS = Path(__file__).parents[1] / "tests" / "peers" / "coverage"
PUBLISHED = Path(__file__).parents[1] / "tests" / "core" / "published" / "models.json"
VERDICTS = ("agrees", "refused", "no rotation", "cannot be built", "disagrees")
Row = dict[str, Any]


def coverage() -> str:
    """Return the counts, the reasons and the classes that agree, of each library, as Markdown."""
    results = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(RESULTS.glob("*.json"))}
    published = results.pop("published")
    heads = ("library", "classes", "folders", *VERDICTS)
    counts = [_counts(name, result) for name, result in results.items()]
    parts = (part for one in results.items() for part in _parts(*one))
    return "\n".join([table(heads, counts), *_published(published), *parts])


def _published(result: dict[str, Any]) -> Iterator[str]:
    """Yield how many configs as published load, warn or are refused, and the sources of their numbers."""
    models = json.loads(PUBLISHED.read_text(encoding="utf-8"))
    counts = Counter(one["verdict"] for one in models.values())
    sources = sum(bool(one["source"]) for one in models.values())
    compared = {row["name"]: row["verdict"] for row in result["rows"]}
    agree = sum(verdict == "agrees" for verdict in compared.values())
    yield "## Configs as published\n"
    yield (
        f"Of {len(models)} configs with the keys that published models of 2023 to 2026 have about positions, "
        f"{counts['loads']} load, {counts['warns']} load with a warning, and {counts['refuses']} are refused. The "
        f"numbers of {sources} are those of the linked sources; those of {len(models) - sources} have none. For "
        f"{agree}, transformers {result['versions']['transformers']} has a class with the same frequencies, the same "
        "factor and the same rotation; it does not have the others, or reads other keys of them.\n"
    )
    heads = ("model", "`model_type`", "verdict", "in transformers", "sources", "what is said")
    yield table(heads, [_published_row(name, one, compared[name]) for name, one in models.items()])


def _published_row(name: str, model: Row, compared: str) -> tuple[str, ...]:
    links = (f"[{'/'.join(address.split('/')[2:5])}]({address})" for address in model["source"])
    kind, there = f"`{model['config']['model_type']}`", compared if compared in ("agrees", "no rotation") else "–"
    return (name, kind, model["verdict"], there, ", ".join(links) or "none", " ".join(model["words"]))


def _counts(name: str, result: dict[str, Any]) -> tuple[Any, ...]:
    rows, verdicts = result["rows"], Counter(row["verdict"] for row in result["rows"])
    named = ", ".join(f"{package} {version}" for package, version in result["versions"].items())
    return (named or name, len(rows), len({row["folder"] for row in rows}), *(verdicts[one] for one in VERDICTS))


def _parts(name: str, result: dict[str, Any]) -> Iterator[str]:
    """Yield the tables of a library: what does not agree, what a default config needs, and what agrees."""
    rows = result["rows"]
    others = [(f"`{row['name']}`", row["verdict"], row["note"]) for row in rows if row["verdict"] != "agrees"]
    needs = [(f"`{row['config']}`", f"`{json.dumps(row['fields'])}`") for row in rows if row["fields"]]
    if others:
        yield f"## {name}: what does not agree\n"
        yield table(("class", "verdict", "why"), others)
    if needs:
        yield f"## {name}: configs with more than the defaults\n"
        yield table(("config", "fields"), list(dict.fromkeys(needs)))
    yield f"## {name}: what agrees\n"
    folders: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row["verdict"] == "agrees":
            folders[row["folder"]].append(row)
    yield table(("folder", "config", "our encoding"), [line for one in folders.items() for line in _lines(*one)])


def _lines(folder: str, rows: list[Row]) -> Iterator[tuple[str, str, str]]:
    """Yield a line for each class of a folder: its config, and the encoding of each layer type."""
    for index, row in enumerate(rows):
        ours = (f"{name}: `{text}`" if name else f"`{text}`" for name, text in row["ours"].items())
        yield ("" if index else folder, f"`{row['config']}`", "<br>".join(ours))
