"""The reference: what its pages show, their descriptions, and the papers."""

import re
import runpy
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
REFERENCE = sorted((DOCS / "reference").glob("*.md"))
DESCRIBED = sorted(page for folder in ("reference", "howto", "explanation") for page in (DOCS / folder).glob("*.md"))
FRONT_MATTER = re.compile(r'---\nmyst:\n  html_meta:\n    description: "(.+)"\n(?:no-search: true\n)?---\n# (.+)\n')


def text_of(page):
    return page.read_text(encoding="utf-8")


@pytest.mark.parametrize("page", DESCRIBED, ids=lambda page: f"{page.parent.name}/{page.stem}")
def test_a_page_has_a_description_for_search_engines(page):
    found = FRONT_MATTER.match(text_of(page))
    assert found, "The page must begin with a description, as the others do."
    assert 40 <= len(found[1]) <= 160  # longer ones are cut in results


def test_no_description_stands_twice():
    descriptions = [FRONT_MATTER.match(text_of(page))[1] for page in DESCRIBED]
    assert len(set(descriptions)) == len(descriptions)


@pytest.mark.parametrize("page", REFERENCE, ids=lambda page: page.stem)
def test_titles_are_words_and_what_is_shown_is_chosen(page):
    """A module whose members are all shown shows its internals."""
    text = text_of(page)
    assert not re.search(r"^#+ `?posenc_", text, re.MULTILINE)
    assert "automodule" not in text
    assert not re.search(r":members:\s*$", text, re.MULTILINE)


@pytest.mark.parametrize("page", sorted((DOCS / "reference").glob("encodings-*.md")), ids=lambda page: page.stem)
def test_a_family_has_a_row_for_each_class(page):
    text = text_of(page)
    classes = set(re.findall(r"^\.\. autoclass:: posenc_core\.(\w+)$", text, re.MULTILINE)) - {"Encoding", "Scaling"}
    assert set(re.findall(r"^\| \[`(\w+)`\]\(#posenc_core\.\1\)", text, re.MULTILINE)) == classes


def test_every_encoding_and_scaling_is_in_a_family():
    import posenc_core
    from posenc_core.encodings import Encoding

    names = {name for name in posenc_core.__all__ if isinstance(getattr(posenc_core, name), type)}
    values = {name for name in names if issubclass(getattr(posenc_core, name), Encoding | posenc_core.Scaling)}
    shown = set(re.findall(r"autoclass:: posenc_core\.(\w+)", "".join(text_of(page) for page in REFERENCE)))
    assert values <= shown


def test_the_bibliography_has_the_papers_that_are_cited():
    module = runpy.run_path(str(DOCS / "bibliography.py"))
    assert sorted(module["citations"]()) == sorted(module["PAPERS"])


def test_the_bibliography_says_where():
    lines = runpy.run_path(str(DOCS / "bibliography.py"))["bibliography"]().splitlines()
    (rope,) = (line for line in lines if "2104.09864" in line)
    assert "RoFormer" in rope
    assert "`~posenc_core.Rotary`" in rope
    assert "(/tutorial/rotary.md)" in rope


def test_a_symbol_has_one_meaning():
    rows = re.findall(r"^\| ([^|]+) \| [^|]+ \|", text_of(DOCS / "reference" / "notation.md"), re.MULTILINE)
    symbols = [symbol for row in rows for symbol in row.split(", ") if symbol not in ("symbol", "---")]
    assert len(set(symbols)) == len(symbols) > 20


def test_the_files_of_tests_that_pages_name_exist():
    named = {path for page in DESCRIBED for path in re.findall(r"`(tests/[\w/]+\.py)`", text_of(page))}
    assert {path for path in named if not (DOCS.parent / path).exists()} == set()


def test_each_promise_of_the_page_on_trust_names_its_tests():
    _, *rows = [line for line in text_of(DOCS / "explanation" / "trust.md").splitlines() if line.startswith("| ")]
    for row in rows:
        files = re.findall(r"`(tests/[\w/]+\.py)`", row.split(" | ")[-1])
        assert files, row
        assert all("\ndef test_" in text_of(DOCS.parent / file) for file in files), row


def test_the_pages_stay_short():
    """Words of all pages and the README, code included, as `wc -w` counts them; what docstrings add is not counted."""
    pages = [path for path in DOCS.rglob("*.md") if not {"_build", "_drawn"} & {*path.parts}]
    assert len(pages) > 90
    assert (
        sum(len(path.read_text(encoding="utf-8").split()) for path in (*pages, DOCS.with_name("README.md"))) <= 95_000
    )
