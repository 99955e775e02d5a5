"""The page of the models that load, and the results that it is written from."""

import json
import runpy
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
LIBRARIES = ("diffusers", "timm", "transformers")


@pytest.fixture
def page(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS))
    return runpy.run_path(str(DOCS / "covered.py"))["coverage"]()


def cells(line):
    return [cell.strip() for cell in line.strip("|").split(" | ")]


def test_the_page_counts_the_rows_and_says_why_others_do_not_agree(page):
    lines = [cells(line) for line in page.splitlines()[2 : 2 + len(LIBRARIES)]]
    for name, (versions, total, _, *verdicts) in zip(LIBRARIES, lines, strict=True):
        assert versions.startswith(f"{name} ")
        assert int(total) == sum(map(int, verdicts))
        assert verdicts[-1] == "0"
        why = page.partition(f"## {name}: what does not agree")[2].partition("\n## ")[0].splitlines()[4:]
        others = [cells(line) for line in why if line]
        assert len(others) == int(total) - int(verdicts[0])
        assert all(reason for _, _, reason in others)


def test_the_page_links_the_sources_of_configs_as_published(page):
    models = json.loads((DOCS.parent / "tests" / "core" / "published" / "models.json").read_text("utf-8"))
    rows = [cells(line) for line in page.partition("## Configs as published")[2].partition("\n## ")[0].splitlines()[6:]]
    assert [name for name, *_ in rows if name] == list(models)
    linked = [row for row in rows if len(row) > 4 and "](https://" in row[4]]
    assert (
        f"numbers of {len(linked)} are those of the linked sources; those of {len(models) - len(linked)} have" in page
    )
    assert len(linked) > 100


def test_the_readme_has_the_numbers_of_transformers():
    rows = json.loads((DOCS.parent / "tests" / "peers" / "coverage" / "transformers.json").read_text("utf-8"))["rows"]
    agree = sum(row["verdict"] == "agrees" for row in rows)
    readme = (DOCS.parent / "README.md").read_text("utf-8")
    assert f"[{agree} of {len(rows)}](docs/reference/coverage.md)" in readme
    assert f"the other {len(rows) - agree} are refused" in readme
