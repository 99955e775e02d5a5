"""Write each page of the tutorial as a notebook for each framework."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import nbformat
from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.colon_fence import colon_fence_plugin
from nbformat import NotebookNode, v4

FRAMEWORKS = {
    "torch": "PyTorch",
    "keras": "TensorFlow / Keras",
    "paddle": "Paddle",
    "mxnet": "MXNet",
    "jax": "JAX",
    "mlx": "MLX",
}
PAGES = Path(__file__).parent / "tutorial"
DRAWN = Path(__file__).parent / "_drawn"
MARKDOWN = MarkdownIt().use(colon_fence_plugin)
OPTIONS = re.compile(r"(?::[\w-]+:.*\n)+")
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!http)[^)]*\)")  # to another page, which a notebook has not beside it
ROLE = re.compile(r"\{[\w:]+\}(`[^`]+`)")


def write_notebooks(folder: Path) -> None:
    """Write the notebooks of all pages, as `order-torch.ipynb`, into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for page in sorted(PAGES.glob("*.md")):
        if page.stem != "index":
            for framework in FRAMEWORKS:
                nbformat.write(notebook(page, framework), folder / f"{page.stem}-{framework}.ipynb")


def notebook(page: Path, framework: str) -> NotebookNode:
    """Return a page as a notebook: its texts, the cells of one framework with their output, exercises and solutions."""
    needed = f'For {FRAMEWORKS[framework]}: `pip install ".[{framework}]"` in a copy of the repository of posenc.'
    cells = [v4.new_markdown_cell(needed), *_cells(page.read_text(encoding="utf-8"), framework)]
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"  # by default they are random
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3"}, "language_info": {"name": "python"}}
    return v4.new_notebook(cells=cells, metadata=kernel)


def _cells(text: str, framework: str) -> list[NotebookNode]:
    """Return the cells of a text; output becomes that of the cell above it."""
    cells: list[NotebookNode] = []
    for kind, content in _parts(text, framework):
        if kind == "output":
            above = next(cell for cell in reversed(cells) if cell["cell_type"] == "code")
            above["outputs"] = [v4.new_output("stream", name="stdout", text=content)]
        elif kind == "code":
            cells.append(v4.new_code_cell(content.rstrip("\n")))
        elif content.strip():
            cells.append(v4.new_markdown_cell(ROLE.sub(r"\1", LINK.sub(r"\1", content)).strip()))
    return cells


def _parts(text: str, framework: str) -> Iterator[tuple[str, str]]:
    """Yield texts, code and outputs in their order: the kind and the content."""
    lines, done = text.splitlines(keepends=True), 0
    for token in MARKDOWN.parse(text):
        if token.type in ("fence", "colon_fence") and token.map is not None:
            yield "text", "".join(lines[done : token.map[0]])
            done = token.map[1]
            yield from _fence(token, "".join(lines[slice(*token.map)]), framework)
    yield "text", "".join(lines[done:])


def _fence(token: Token, source: str, framework: str) -> Iterator[tuple[str, str]]:
    kind, _, title = token.info.strip().partition(" ")
    found = OPTIONS.match(token.content) if kind.startswith("{") else None
    options, content = (found[0], token.content[found.end() :]) if found else ("", token.content)
    if kind == "python":
        yield "code", content
    elif ":class: output" in options:
        yield "output", content
    elif kind == "{include}":
        yield "text", _caption(DRAWN / Path(title).name)
    elif kind in ("{tab-set}", "{tab-item}"):
        if kind == "{tab-set}" or f":sync: {framework}\n" in options:
            yield from _parts(content, framework)
    elif kind in ("{admonition}", "{dropdown}", "{note}", "{tip}", "{seealso}"):
        yield "text", f"**{title}**" if title else ""
        yield from _parts(content, framework)
    elif not kind.startswith("{"):
        yield "text", source


def _caption(picture: Path) -> str:
    """Return the caption of a picture, which itself is on the page only."""
    caption = picture.read_text(encoding="utf-8").rpartition("\n\n")[2].rpartition("\n```")[0]
    return f"*Figure on the page: {caption}*"
