"""Check that the Chinese README has the code, links and headings of the English one, in the same order."""

import re
from pathlib import Path

import pytest

from posenc_core import __version__

ROOT = Path(__file__).parents[2]
ENGLISH, CHINESE = ((ROOT / name).read_text("utf-8") for name in ("README.md", "README.zh.md"))
BLOCK = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
PARTS = {
    "code blocks": BLOCK.findall,
    "levels of headings": lambda text: re.findall(r"^(#+) ", BLOCK.sub("", text), re.MULTILINE),
    "links": lambda text: re.findall(r"\]\((?!README)(.*?)\)", text),
}


@pytest.mark.parametrize("part", PARTS)
def test_both_have_the_same(part):
    english, chinese = map(PARTS[part], (ENGLISH, CHINESE))
    assert english
    assert english == chinese


def test_each_leads_to_the_other():
    assert "](README.zh.md)" in "".join(ENGLISH.splitlines()[:4])
    assert "](README.md)" in "".join(CHINESE.splitlines()[:4])


@pytest.mark.parametrize("section", ["Why posenc", "Compared with other libraries"])
def test_the_front_page_says_the_same(section):
    """In Chinese too: its catalogue has the words of the Chinese README."""
    heading = f"\n## {section}\n"
    english = ENGLISH.partition(heading)[2].partition("\n## ")[0].strip().replace("](docs/", "](")
    assert f"{heading}\n{english}\n" in (ROOT / "docs" / "index.md").read_text("utf-8")
    number = re.findall(r"^## .*", BLOCK.sub("", ENGLISH), re.MULTILINE).index(f"## {section}")
    chinese = re.split(r"^## .*\n", BLOCK.sub("", CHINESE), flags=re.MULTILINE)[number + 1]
    cells = re.split(r"\s*\|\s*|\n", re.sub(r"\n  ", " ", chinese).replace("](docs/", "]("))
    catalogue = (ROOT / "docs/locale/zh_CN/LC_MESSAGES/index.po").read_text("utf-8")
    for cell in (cell.removeprefix("* ") for cell in cells):
        has_words = re.search(r"[^\W\d_]{2}", re.sub("`[^`]*`", "", cell))  # else it has no translation
        assert not has_words or f'msgstr "{cell}"' in catalogue, cell


def test_each_claim_names_the_tests_that_prove_it():
    claims, _, proofs = ENGLISH.partition("\n## Why posenc\n")[2].partition("\n<!-- proved by\n")
    named = dict(line.split(": ") for line in proofs.partition("\n-->")[0].splitlines())
    assert [re.split(r"[.,]", claim)[0] for claim in re.findall(r"^\* \*\*(.*?)\*\*", claims, re.MULTILINE)] == [*named]
    for path in ", ".join(named.values()).split(", "):
        assert (ROOT / path).is_file(), path


def test_both_name_the_version():
    assert f"\nVersion {__version__} (alpha" in ENGLISH
    assert f"\n版本 {__version__}（alpha" in CHINESE
