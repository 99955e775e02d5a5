"""The page of the models that load, and the results that it is written from."""

import runpy
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def page(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS))
    return runpy.run_path(str(DOCS / "covered.py"))["coverage"]()


def test_the_page_counts_the_rows_and_says_why_others_do_not_agree(page):
    counts = page.splitlines()[2].strip("| ").split(" | ")
    total, _, *verdicts = (int(cell) for cell in counts[1:])
    assert total == sum(verdicts)
    assert verdicts[-1] == 0
    why = page.partition("what does not agree")[2].partition("\n## ")[0].splitlines()[4:]
    lines = [line.strip("| ").split(" | ") for line in why if line]
    assert len(lines) == total - verdicts[0]
    assert all(reason for _, _, reason in lines)
