"""Check that the Chinese README has the code, links and headings of the English one, in the same order."""

import re
from pathlib import Path

import pytest

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
