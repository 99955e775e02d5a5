"""Pages in two languages: the folder of message catalogues, and links from one language to the other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from docutils.nodes import Node, Text, TextElement, document, literal, math, reference
from sphinx.addnodes import desc, pending_xref, toctree
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.transforms.post_transforms import SphinxPostTransform

DOCS = Path(__file__).parent
CATALOGUES = DOCS / "locale" / "zh_CN" / "LC_MESSAGES"
OTHERS = ("sphinx", "figures")  # catalogues of the words of the theme, and of the labels of figures
PAGES = [path.relative_to(CATALOGUES).with_suffix("").as_posix() for path in sorted(CATALOGUES.rglob("*.po"))]
TRANSLATED = [page for page in PAGES if page not in OTHERS]
WORDS = "reference/words"  # names of one thing in papers and libraries, which readers of any page may need
LETTERS = re.compile(r"[^\W\d_]{2}")
CHINESE = "zh"  # the folder of the Chinese pages among the English ones


def others() -> list[str]:
    """Return the pages without a catalogue, which are not built in Chinese."""
    pages = {path.relative_to(DOCS).with_suffix("").as_posix() for path in DOCS.rglob("*.md")}
    return [f"{page}.md" for page in sorted(pages - set(TRANSLATED))]


def lead_elsewhere(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object) -> None:
    """Put links to the dictionary of words and to the other language at the top of a page."""
    if doctree is None:
        return
    up = "../" * page.count("/")
    is_chinese = app.tags.has("translated")
    links = []
    if is_chinese:
        links.append(f'<a href="../{up}{page}.html" lang="en" hreflang="en">English</a>')
    elif page in TRANSLATED:
        links.append(f'<a href="{up}{CHINESE}/{page}.html" lang="zh-CN" hreflang="zh-CN">中文</a>')
    if page != WORDS:
        links.append(f'<a href="{up}{WORDS}.html">{"词汇" if is_chinese else "Words"}</a>')
    context["body"] = f'<p class="language">{" · ".join(links)}</p>\n{context["body"]}'


def show_contents(app: Sphinx, doctree: document) -> None:
    """List the Chinese pages on their first page, where the English one has them in the sidebar alone."""
    if app.env.docname == app.config.root_doc:
        for contents in doctree.findall(toctree):
            contents["hidden"] = False


class OwnText(SphinxTransform):
    """Catalogues without docstrings, and without what has no words but code, such as the numbers of tables."""

    default_priority = 5  # before Sphinx looks for messages, by 10

    def apply(self, **_: object) -> None:
        """Mark it."""
        for text in self.document.findall(TextElement):
            if is_in(desc, text) or not any(
                LETTERS.search(part) for part in text.findall(Text) if not is_in((literal, math), part)
            ):
                text["translatable"] = False


def is_in(kinds: Any, node: Node | None) -> bool:
    """Return whether a node or one around it is of these kinds."""
    while node is not None and not isinstance(node, kinds):
        node = node.parent
    return node is not None


class Elsewhere(SphinxPostTransform):
    """Links of Chinese pages to pages that exist only in English."""

    default_priority = 8  # before MyST looks for pages, by 9

    def run(self, **_: object) -> None:
        """Point them to the English pages, and say so behind each."""
        up = "../" * (self.env.docname.count("/") + 1)
        for link in list(self.document.findall(pending_xref)):
            page, place = link["reftarget"], link.get("reftargetid")
            if link["refdomain"] == "doc" and page not in TRANSLATED and (DOCS / f"{page}.md").exists():
                address = f"{up}{page}.html" + (f"#{place}" if place else "")
                english = reference("", "", *link.children, refuri=address, internal=True, hreflang="en")
                link.replace_self([english, Text("（英文）")])
