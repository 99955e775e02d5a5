"""The head of a page: its description, and for the tutorial its notebooks and a view of the explorer."""

from __future__ import annotations

from html import escape
from typing import Any

from docutils.nodes import Admonition, document, paragraph
from notebooks import FRAMEWORKS
from sphinx.application import Sphinx

LONGEST = 160  # characters that search engines show
VIEWS = {
    "order": "encoding=Learned&dim=64&length=64",
    "costs": "encoding=Rotary&head_dim=64&length=256",
    "ladder": "encoding=Binary&dim=8&length=64&with.encoding=Normalized",
    "waves": "encoding=Sinusoidal&dim=32&length=64&pair=3",
    "offsets": "encoding=Sinusoidal&dim=32&length=64&with.encoding=Rotary&with.head_dim=32",
    "rotary": "encoding=Rotary&head_dim=64&layout=half&length=128&pair=4&position=7",
    "biases": "encoding=Alibi&num_heads=8&length=64&with.encoding=T5Bias&with.num_heads=8",
    "context": (
        "encoding=Rotary&head_dim=128&base=500000&with.encoding=Rotary&with.head_dim=128&with.base=500000"
        "&with.scaling=Llama3"
    ),
    "images": "encoding=AxialRotary&side=12&cell=78&with.encoding=GridSinusoidal",
    "transformer": "encoding=Sinusoidal&dim=64&length=64",
    "experiment": "encoding=Rotary&head_dim=32&length=80",
}
WORDS = {
    False: ("Notebook:", "Explorer: run {command}, then open {link}.", "this page's view"),
    True: ("Notebook：", "交互界面：运行 {command}，再打开{link}。", "本页的视图"),
}


def describe(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: document | None) -> None:
    """Describe a page by its first paragraph, for search engines, unless it says its description itself."""
    if (
        doctree is None
        or 'name="description"' in context.get("metatags", "")
        or (first := _first_outside_boxes(doctree)) is None
    ):
        return
    text = " ".join(first.astext().split())
    if len(text) > LONGEST:
        text = text[:LONGEST].rpartition(" ")[0] + " …" if " " in text[:LONGEST] else text[:LONGEST] + "…"
    context["metatags"] = context.get("metatags", "") + f'<meta name="description" content="{escape(text)}">\n'


def _first_outside_boxes(doctree: document) -> paragraph | None:
    """Return the first paragraph of a page that is in no admonition: those of the tutorial begin with its time."""
    boxed = {id(each) for box in doctree.findall(Admonition) for each in box.findall(paragraph)}
    return next((each for each in doctree.findall(paragraph) if id(each) not in boxed), None)


def lead_to_notebooks(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object) -> None:
    """Put links to the notebooks of a page of the tutorial, and to its view in the explorer, at its top."""
    folder, _, name = page.partition("/")
    if folder != "tutorial" or name not in VIEWS:
        return
    notebook, explorer, view = WORDS[app.tags.has("translated")]
    links = " · ".join(
        f'<a href="../notebooks/{name}-{key}.ipynb" download>{title}</a>' for key, title in FRAMEWORKS.items()
    )
    address = f"http://127.0.0.1:8050/{'zh/' if app.tags.has('translated') else ''}?{escape(VIEWS[name])}"
    command = "<code>posenc explore</code>"
    words = explorer.format(command=command, link=f'<a href="{address}" rel="nofollow">{view}</a>')
    context["body"] = (
        f'<p class="notebooks"><span>{notebook} {links}</span> <span>{words}</span></p>\n{context["body"]}'
    )
