"""The notebooks: valid, with the cells of their page, and linked at its top; `test_book.py` runs the cells."""

import html
import re

import nbformat
import pytest

from posenc_backends.cli.explorer.links import read, texts_of, view_of

from ..pages import PAGES as TUTORIAL
from ..pages import blocks
from .conftest import PAGES as BUILT

ADDRESS = re.compile(r'href="http://127\.0\.0\.1:8050/\?([^"]*)"')
FRAMEWORKS = ("torch", "keras", "paddle", "mxnet", "jax", "mlx")


@pytest.mark.parametrize("page", TUTORIAL, ids=lambda page: page.stem)
def test_a_notebook_has_the_cells_of_the_page(page):
    found = list(blocks(page.read_text(encoding="utf-8")))
    for framework in FRAMEWORKS:
        notebook = nbformat.read(BUILT / "notebooks" / f"{page.stem}-{framework}.ipynb", as_version=4)
        nbformat.validate(notebook)
        cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
        kept = [block for block in found if block.framework in (None, framework)]
        assert [cell.source for cell in cells] == [each.content.rstrip("\n") for each in kept if each.kind == "python"]
        outputs = [output.text for cell in cells for output in cell.outputs]
        assert outputs == [each.content for each in kept if each.is_output]
        texts = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
        assert not any(mark in texts for mark in (":::", "```{", ":sync:", "{py:"))
        titles = [block.title for block in found if block.title.startswith(("Exercise", "Solution"))]
        assert titles
        assert all(f"**{title}**" in texts for title in titles)


@pytest.mark.parametrize("page", TUTORIAL, ids=lambda page: page.stem)
def test_a_page_leads_to_its_notebooks(page):
    for folder, up in (("tutorial", "../"), ("zh/tutorial", "../../")):
        built = BUILT / folder / f"{page.stem}.html"
        if built.exists():
            text = built.read_text(encoding="utf-8")
            assert all(f'href="{up}notebooks/{page.stem}-{framework}.ipynb"' in text for framework in FRAMEWORKS)
            assert '<meta name="description" content="' in text
            (query,) = ADDRESS.findall(text)
            values, wrong = read(texts_of(html.unescape(query)))
            assert wrong == ()
            asked = texts_of(html.unescape(query))
            assert view_of(values).length == int(asked.get("length", view_of(values).length))
