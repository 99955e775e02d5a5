"""The notebooks: valid, with the cells and pictures of their page, linked at its top; `test_book.py` runs the cells."""

import base64
import html
import os
import re
import shlex
import subprocess
import sys
import venv
from pathlib import Path

import nbformat
import pytest
import tomllib
from babel.messages.pofile import read_po

from posenc_backends.cli.explorer.links import read, texts_of, view_of

from ..pages import PAGES as TUTORIAL
from ..pages import blocks
from .conftest import PAGES as BUILT

ADDRESS = re.compile(r'href="http://127\.0\.0\.1:8050/(?:zh/)?\?([^"]*)"')
FRAMEWORKS = ("torch", "keras", "paddle", "mxnet", "jax", "mlx")
LANGUAGES = pytest.mark.parametrize("language", [BUILT, BUILT / "zh"], ids=["English", "Chinese"])
ROOT = Path(__file__).parents[2]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
INSTALL = re.compile(r'%pip install --quiet "posenc\[(\w+)\] @ (.+)"( tensorflow)?')
IMAGE = re.compile(r"!\[([^\]]+)\]\(attachment:(.+\.png)\)")


@LANGUAGES
@pytest.mark.parametrize("page", TUTORIAL, ids=lambda page: page.stem)
def test_a_notebook_has_the_cells_of_the_page(page, language):
    source = page.read_text(encoding="utf-8")
    found = list(blocks(source))
    for framework in FRAMEWORKS:
        notebook = nbformat.read(language / "notebooks" / f"{page.stem}-{framework}.ipynb", as_version=4)
        nbformat.validate(notebook)
        install, *cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
        extra, address, _ = INSTALL.fullmatch(install.source).groups()
        assert (extra, address) == (framework, ROOT.as_uri())
        assert extra in EXTRAS
        kept = [block for block in found if block.framework in (None, framework)]
        assert [cell.source for cell in cells] == [each.content.rstrip("\n") for each in kept if each.kind == "python"]
        outputs = [output.text for cell in cells for output in cell.outputs]
        assert outputs == [each.content for each in kept if each.is_output]
        texts = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
        assert not any(mark in texts for mark in (":::", "```{", ":sync:", "{py:"))
        for cell in notebook.cells:
            pictures = [(name, alt) for alt, name in IMAGE.findall(cell.source)]
            assert [name for name, _ in pictures] == list(cell.get("attachments", {}))
            for name, alt in pictures:
                assert len(alt) > 20
                assert base64.b64decode(cell.attachments[name]["image/png"]).startswith(b"\x89PNG")
        assert texts.count("](attachment:") == source.count("{include} /_drawn/")
        if language != BUILT:
            continue
        titles = [block.title for block in found if block.title.startswith(("Exercise", "Solution"))]
        assert titles
        assert all(f"**{title}**" in texts for title in titles)


@pytest.mark.parametrize("page", TUTORIAL, ids=lambda page: page.stem)
def test_a_chinese_notebook_has_the_words_of_the_page(page):
    with (ROOT / "docs/locale/zh_CN/LC_MESSAGES/tutorial" / f"{page.stem}.po").open("rb") as file:
        titles = [str(each.string) for each in read_po(file) if each.id and "](" not in each.id]
    files = [BUILT / "zh" / "notebooks" / f"{page.stem}-{framework}.ipynb" for framework in FRAMEWORKS]
    cells = [cell for file in files for cell in nbformat.read(file, as_version=4).cells]
    texts = " ".join(" ".join(cell.source for cell in cells if cell.cell_type == "markdown").split())
    assert [each for each in titles if not {"\\", "{"} & {*each} and " ".join(each.split()) not in texts] == []


def test_a_notebook_runs_in_a_fresh_environment(tmp_path):
    """As `%pip` does, the Python of the kernel runs pip; MLX is the smallest framework."""
    notebook = nbformat.read(BUILT / "notebooks" / "waves-mlx.ipynb", as_version=4)
    install, *cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    venv.create(tmp_path / "fresh", with_pip=True)
    python = str(tmp_path / "fresh" / ("Scripts" if sys.platform == "win32" else "bin") / "python")
    variables = os.environ | {"PIP_CONSTRAINT": str(ROOT / "constraints" / "mlx.txt"), "POSENC_BUILD_KERNEL": "off"}
    variables.pop("PYTHONPATH", None)
    command = [python, "-m", *shlex.split(install.source.removeprefix("%"))]
    subprocess.run(command, check=True, cwd=tmp_path, env=variables)
    program = "\nprint(end=chr(0))\n".join(cell.source for cell in cells)
    run = [python, "-c", program]
    shown = subprocess.run(run, check=True, cwd=tmp_path, env=variables, capture_output=True, text=True).stdout
    assert shown.split("\0") == ["".join(output.text for output in cell.outputs) for cell in cells]


@pytest.mark.parametrize("page", TUTORIAL, ids=lambda page: page.stem)
def test_a_page_leads_to_its_notebooks(page):
    for folder in ("tutorial", "zh/tutorial"):
        built = BUILT / folder / f"{page.stem}.html"
        if built.exists():
            text = built.read_text(encoding="utf-8")
            assert all(f'href="../notebooks/{page.stem}-{framework}.ipynb"' in text for framework in FRAMEWORKS)
            assert '<meta name="description" content="' in text
            (query,) = ADDRESS.findall(text)
            values, wrong = read(texts_of(html.unescape(query)))
            assert wrong == ()
            asked = texts_of(html.unescape(query))
            assert view_of(values).length == int(asked.get("length", view_of(values).length))
