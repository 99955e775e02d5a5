"""Check the form of the tutorial's pages; `tests/backends/test_book.py` runs their code."""

import ast
import re

import pytest

from ..pages import FOLDER, FRONT, PAGES, blocks, run

TABS = [
    ("PyTorch", "torch"),
    ("TensorFlow / Keras", "keras"),
    ("Paddle", "paddle"),
    ("MXNet", "mxnet"),
    ("JAX", "jax"),
    ("MLX", "mlx"),
]
DRAWINGS = FOLDER.parent / "drawings"


@pytest.fixture(params=PAGES, ids=lambda page: page.stem)
def page(request):
    return request.param


@pytest.fixture
def found(page):
    return list(blocks(page.read_text(encoding="utf-8")))


def test_each_tab_set_has_all_frameworks_in_their_order(found):
    sets = [block for block in found if block.kind == "{tab-set}"]
    assert sets
    for each in sets:
        assert each.options == {"sync-group": "framework"}
        tabs = [block for block in found if block.kind == "{tab-item}" and block.within[-1:] == (each,)]
        assert [(tab.title, tab.options["sync"]) for tab in tabs] == TABS
        assert all(any(cell.kind == "python" and cell.within[-1:] == (tab,) for cell in found) for tab in tabs)


def test_what_is_printed_is_shown_once_for_all_frameworks(found):
    printers, prints = {"print"}, False
    for block in found:
        if block.kind == "python" and any(f"{name}(" in block.content for name in printers):
            printers |= set(re.findall(r"^def (\w+)", block.content, re.MULTILINE))
            prints = True
        elif block.is_output:
            assert block.kind == "{code-block}"
            assert block.framework is None
            assert prints, f"line {block.line + 1}: nothing has been printed"
            prints = False
    assert not prints


def test_code_is_no_wider_than_the_column_of_a_page(found):
    lines = [line for block in found if block.kind in ("python", "{code-block}") for line in block.content.splitlines()]
    assert [line for line in lines if len(line) > 80] == []


def test_the_front_page_has_a_tab_for_each_framework():
    test_each_tab_set_has_all_frameworks_in_their_order(list(blocks(FRONT.read_text(encoding="utf-8"))))


def test_exercises_have_a_solution(found):
    titles = [(block.kind, block.title) for block in found if re.match("Exercise|Solution", block.title)]
    numbers = range(1, len(titles) // 2 + 1)
    assert numbers
    pairs = [(("{admonition}", f"Exercise {number}"), ("{dropdown}", f"Solution {number}")) for number in numbers]
    assert titles == [title for pair in pairs for title in pair]


def test_pictures_have_alternative_text_and_exist(page, found):
    """Every drawing of a page is shown on it; its docstring has a caption, and then the alternative text."""
    assert not re.findall(r"!\[\]\(", page.read_text(encoding="utf-8"))
    assert all(block.options.get("alt") for block in found if block.kind in ("{image}", "{figure}"))
    shown = [block.title for block in found if block.kind == "{include}"]
    assert set(shown) >= {f"/_drawn/{page.stem}-{name}.md" for name in drawings(page.stem)}
    for name in shown:
        file, _, drawing = re.fullmatch(r"/_drawn/(\w+)(-)(\w+)\.md", name).groups()
        assert drawing in drawings(file)


def drawings(stem):
    """Return the names of the functions that draw the pictures of a page; all have docstrings."""
    file = DRAWINGS / f"{stem}.py"
    tree = ast.parse(file.read_text(encoding="utf-8") if file.exists() else "")
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")]
    for node in functions:
        caption, _, alternative = (ast.get_docstring(node) or "").partition("\n\n")
        assert caption.endswith("."), node.name
        assert alternative, node.name
    return [node.name for node in functions]


PAGE = """
```python
width = 2
```

::::{{tab-set}}
:sync-group: framework

:::{{tab-item}} PyTorch
:sync: torch
```python
width *= 2
```
:::

:::{{tab-item}} JAX
:sync: jax
```python
width *= 3
```
:::
::::

```python
print(width)
```
{output}
"""
OUTPUT = "```{{code-block}} text\n:class: output\n{}\n```"


@pytest.mark.parametrize(("framework", "output"), [("torch", "4"), ("jax", "6")])
def test_the_cells_of_one_framework_run(framework, output, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(PAGE.format(output=OUTPUT.format(output)))
    run(page, framework)
    page.write_text(PAGE.format(output=OUTPUT.format("5")))
    with pytest.raises(AssertionError, match=r"page.md, line 29"):
        run(page, framework)
    page.write_text(PAGE.format(output=""))
    with pytest.raises(AssertionError, match="does not show"):
        run(page, framework)


def test_every_page_is_in_the_table_of_contents():
    text = (FOLDER / "index.md").read_text(encoding="utf-8")
    (toctree,) = (block for block in blocks(text) if block.kind == "{toctree}")
    assert sorted(toctree.content.split()) == [page.stem for page in PAGES]


def test_the_tables_of_contents_agree_with_each_other_and_with_the_pages():
    """The table has the pages in the order of the toctree; the time of a page is the one that its first box gives."""
    text = (FOLDER / "index.md").read_text(encoding="utf-8")
    (toctree,) = (block for block in blocks(text) if block.kind == "{toctree}")
    rows = re.findall(r"^\| \[[^]]+\]\((\w+)\.md\) \|.*\| (\d+) min \|", text, re.MULTILINE)
    assert [name for name, _ in rows] == toctree.content.split()
    for name, minutes in rows:
        page = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
        assert re.findall(r"\*\*Time:\*\* (\d+) minutes", page) == [minutes], name
