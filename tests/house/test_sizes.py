"""Files and functions stay short enough to read."""

import ast
from pathlib import Path

import pytest

import posenc_backends
import posenc_core

FILES = [path for package in (posenc_core, posenc_backends) for path in Path(package.__file__).parent.rglob("*.py")]


@pytest.mark.parametrize("path", FILES, ids=lambda path: "/".join(path.parts[-2:]))
def test_files_have_250_lines_and_functions_25_at_most(path):
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") <= 250
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            documented = ast.get_docstring(node) is not None
            body = node.body[documented:]
            if body:
                assert body[-1].end_lineno - body[0].lineno < 25, node.name
