"""Write each page of the tutorial as a notebook for each framework, in English and in Chinese."""

from __future__ import annotations

import os
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

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
BESIDE = {"keras": " tensorflow"}  # which the extra of a framework leaves to its user
PAGES = Path(__file__).parent / "tutorial"
CATALOGUES = Path(__file__).parent / "locale" / "zh_CN" / "LC_MESSAGES" / "tutorial"
DRAWN = Path(__file__).parent / "_drawn"
REPOSITORY = "POSENC_REPOSITORY"  # the variable of its address, as in hatch_metadata.py
MARKDOWN = MarkdownIt().enable("table").use(colon_fence_plugin)
OPTIONS = re.compile(r"(?::[\w-]+:.*\n)+")
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!http)[^)]*\)")  # to another page, which a notebook has not beside it
ROLE = re.compile(r"\{[\w:]+\}(`[^`]+`)")


NEEDED = {
    False: "For {}. The next cell installs posenc. Restart the kernel if it has replaced a package that was imported.",
    True: "用于 {}。下一个单元格安装 posenc。如果它替换了已经导入的包，请重启内核。",
}


def write_notebooks(folder: Path, *, in_chinese: bool = False) -> None:
    """Write the notebooks of all pages, as `order-torch.ipynb`, into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for page in sorted(PAGES.glob("*.md")):
        if page.stem != "index":
            words = catalogue(page.stem) if in_chinese else {}
            for framework in FRAMEWORKS:
                nbformat.write(notebook(page, framework, words), folder / f"{page.stem}-{framework}.ipynb")


def catalogue(page: str) -> dict[str, str]:
    """Return the Chinese for each text of a page of the tutorial."""
    from babel.messages.pofile import read_po  # which only the builds of the pages have

    with (CATALOGUES / f"{page}.po").open("rb") as file:
        return {" ".join(str(each.id).split()): str(each.string) for each in read_po(file) if each.id}


def notebook(page: Path, framework: str, words: Mapping[str, str]) -> NotebookNode:
    """Return a page as a notebook: its texts and pictures, the cells of one framework with their output, exercises.

    Args:
        page: a page of the tutorial.
        framework: one of `FRAMEWORKS`.
        words: the translation of each of its texts; those that are missing stay as they are.
    """
    needed = NEEDED[bool(words)].format(FRAMEWORKS[framework])
    install = f'%pip install --quiet "{requirement(framework)}"{BESIDE.get(framework, "")}'
    cells = [v4.new_markdown_cell(needed), v4.new_code_cell(install)]
    cells += _cells(page.read_text(encoding="utf-8"), framework, words)
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"  # by default they are random
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3"}, "language_info": {"name": "python"}}
    return v4.new_notebook(cells=cells, metadata=kernel)


def requirement(framework: str) -> str:
    """Return what pip installs: from the repository if its address is known, else from the copy that is built."""
    address = os.environ.get(REPOSITORY, "").rstrip("/")
    return f"posenc[{framework}] @ {f'git+{address}' if address else PAGES.parents[1].as_uri()}"


def _cells(text: str, framework: str, words: Mapping[str, str]) -> list[NotebookNode]:
    """Return the cells of a text; output becomes that of the cell above it."""
    cells: list[NotebookNode] = []
    for kind, content in _parts(text, framework):
        if kind == "output":
            above = next(cell for cell in reversed(cells) if cell["cell_type"] == "code")
            above["outputs"] = [v4.new_output("stream", name="stdout", text=content)]
        elif kind == "code":
            cells.append(v4.new_code_cell(content.rstrip("\n")))
        elif kind == "picture":
            cells.append(_picture(DRAWN / content, words))
        elif kind == "title" and content:
            cells.append(v4.new_markdown_cell(f"**{words.get(content, content)}**"))
        elif content.strip():
            said = ROLE.sub(r"\1", LINK.sub(r"\1", translate(content, words)))
            cells.append(v4.new_markdown_cell(said.strip()))
    return cells


def translate(text: str, words: Mapping[str, str]) -> str:
    """Return Markdown whose headings, paragraphs and cells of tables are translated where `words` has them."""
    lines, rows = text.splitlines(keepends=True), (0, 0)
    for token in MARKDOWN.parse(text):
        rows = (token.map[0], token.map[1]) if token.map else rows  # cells of a table have those of their row
        if token.type == "inline" and (said := words.get(" ".join(token.content.split()))):
            original = re.compile(r"\s+".join(map(re.escape, token.content.split())))
            source = "".join(lines[slice(*rows)])
            changed = original.sub(lambda _, said=said: said, source, count=1)
            lines[slice(*rows)] = [changed, *[""] * (rows[1] - rows[0] - 1)]
    return "".join(lines)


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
        yield "picture", Path(title).name
    elif kind in ("{tab-set}", "{tab-item}"):
        if kind == "{tab-set}" or f":sync: {framework}\n" in options:
            yield from _parts(content, framework)
    elif kind in ("{admonition}", "{dropdown}", "{note}", "{tip}", "{seealso}"):
        yield "title", title
        yield from _parts(content, framework)
    elif not kind.startswith("{"):
        yield "text", source


def _picture(page: Path, words: Mapping[str, str]) -> NotebookNode:
    """Return a cell that holds a picture, as PNG since Jupyter attaches no SVG, above its caption."""
    (drawn,) = (token for token in MARKDOWN.parse(page.read_text(encoding="utf-8")) if token.type == "fence")
    name = drawn.info.split()[1]
    option, _, caption = drawn.content.partition("\n\n")
    alt = translate(option.removeprefix(":alt: "), words)
    cell = v4.new_markdown_cell(f"![{alt}](attachment:{name}.png)\n\n*{translate(caption.strip(), words)}*")
    content: Any = b64encode((DRAWN / f"{name}.png").read_bytes()).decode()
    cell["attachments"] = {f"{name}.png": {"image/png": content}}
    return cell
