"""The words that lead to a page: main entries of the index, which the search puts first."""

from __future__ import annotations

import json
from pathlib import Path

from docutils.nodes import document
from sphinx.addnodes import index
from sphinx.application import Sphinx

KEYWORDS = Path(__file__).with_name("keywords.json")  # words of a page, in English and in Chinese


def add_keywords(app: Sphinx, doctree: document) -> None:
    """Enter the words of a page into the index: all of them in Chinese, whose readers type both languages."""
    app.env.note_dependency(str(KEYWORDS))
    words = json.loads(KEYWORDS.read_text(encoding="utf-8")).get(app.env.docname, ())
    entries = [("single", word, "", "main", None) for word in words if word.isascii() or app.tags.has("translated")]
    doctree.insert(0, index(entries=entries))
