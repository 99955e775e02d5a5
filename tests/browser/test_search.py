"""The search of the pages: the words that readers type lead to the page that answers them, in both languages."""

import json
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
SEARCHES = json.loads(Path(__file__).with_name("searches.json").read_text(encoding="utf-8"))
KEYWORDS = json.loads((DOCS / "keywords.json").read_text(encoding="utf-8"))
HITS = "text => { const [query, ...words] = Search._parseQuery(text);"
HITS += " return Search._performSearch(query, ...words).reverse().map(hit => hit[0]) }"


@pytest.mark.parametrize(("language", "folder"), [("en", ""), ("zh", "zh/")])
def test_the_right_page_comes_first(opened, pages, language, folder):
    """Of 60 words, 55 lead there with the first hit, and all within three."""
    page = opened(f"{pages}{folder}search.html?q=rope")
    link = page.locator("#search-results li a").first
    link.wait_for()
    assert link.evaluate("link => link.href").startswith(f"{pages}{folder}tutorial/rotary.html")
    hits = {word: page.evaluate(HITS, word)[:3] for word in SEARCHES[language]}
    assert len(hits) == 60
    late = {word: pages for word, pages in hits.items() if SEARCHES[language][word] != pages[0]}
    assert len(late) <= 5, late
    assert all(SEARCHES[language][word] in pages for word, pages in hits.items()), late


def test_the_changelog_is_not_searched(opened, pages):
    page = opened(f"{pages}search.html?q=rope")
    page.locator("#search-results li a").first.wait_for()
    for word in ("changelog", "apply_rotary_pos_emb", "not yet published"):
        assert "changelog" not in page.evaluate(HITS, word)


def test_a_word_leads_to_one_page_of_a_kind():
    """Pages that exist; of two kinds, the one that teaches comes first."""
    places = [(word.lower(), page.split("/")[0]) for page, words in KEYWORDS.items() for word in words]
    assert len(places) == len(set(places))
    assert [page for page in KEYWORDS if not (DOCS / f"{page}.md").exists()] == []
