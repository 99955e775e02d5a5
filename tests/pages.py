"""Read the pages of the tutorial and the how-to pages: their code, its output, and the framework of each tab."""

import io
import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

from markdown_it import MarkdownIt
from mdit_py_plugins.colon_fence import colon_fence_plugin

FOLDER = Path(__file__).parents[1] / "docs" / "tutorial"
PAGES = sorted(path for path in FOLDER.glob("*.md") if path.name != "index.md")
ELSEWHERE = {
    "check",
    "explore",
    "golden",
    "gpu",
    "migrate",
    "training",
    "transformers",
}  # run by tests of what they are about
LIBRARIES = sorted(FOLDER.with_name("howto").glob("replace_*.md"))  # run where the library of each is installed
HOWTO = sorted(
    path for path in FOLDER.with_name("howto").glob("*.md") if path.stem not in ELSEWHERE and path not in LIBRARIES
)
FRONT = FOLDER.with_name("index.md")
MARKDOWN = MarkdownIt().use(colon_fence_plugin)
OPTION = re.compile(r":([\w-]+): *(.*)")


class Block(NamedTuple):
    """A fence: code, text, or a directive with its options."""

    kind: str
    title: str
    options: dict[str, str]
    content: str
    line: int  # where the content begins, from 0
    within: tuple["Block", ...]  # the directives around it, outermost first

    @property
    def framework(self) -> str | None:
        """The framework of its tab; None outside of tabs."""
        return next((block.options.get("sync") for block in self.within if block.kind == "{tab-item}"), None)

    @property
    def is_output(self) -> bool:
        return self.options.get("class") == "output"


def blocks(text: str, line: int = 0, within: tuple[Block, ...] = ()) -> Iterator[Block]:
    """Yield all fences of a text in order, each before those inside it."""
    for token in MARKDOWN.parse(text):
        if token.type not in ("fence", "colon_fence"):
            continue
        kind, _, title = token.info.partition(" ")
        options = {}
        content, start = token.content, line + token.map[0] + 1
        while kind.startswith("{") and (found := OPTION.match(content)):
            options[found[1]] = found[2]
            content, start = content.partition("\n")[2], start + 1
        block = Block(kind, title, options, content, start, within)
        yield block
        if kind.startswith("{") and kind != "{code-block}":
            yield from blocks(content, start, (*within, block))


def has_tabs(page: Path) -> bool:
    """Return whether a page has tabs, so that it has to be run in each framework."""
    return any(block.framework for block in blocks(page.read_text(encoding="utf-8")))


def run(page: Path, framework: str | None = None) -> dict[str, Any]:
    """Run the cells of a page for a framework, and return their namespace.

    Raises:
        AssertionError: unless the output of cells is shown below them.
    """
    found: dict[str, Any] = {"__name__": page.stem}
    printed = io.StringIO()
    for block in blocks(page.read_text(encoding="utf-8")):
        if block.kind == "python" and block.framework in (None, framework):
            code = compile("\n" * block.line + block.content, str(page), "exec")
            with redirect_stdout(printed):
                exec(code, found)  # noqa: S102
        elif block.is_output:
            assert printed.getvalue() == block.content, f"{page.name}, line {block.line + 1}"
            printed = io.StringIO()
    assert not printed.getvalue(), f"{page.name} does not show what its last cells print"
    return found
