"""No statement stands twice in a row, which is what a merge of two edits leaves behind."""

import ast
from itertools import pairwise
from pathlib import Path

import pytest

import posenc_backends
import posenc_core

FILES = [path for package in (posenc_core, posenc_backends) for path in Path(package.__file__).parent.rglob("*.py")]


def repeated_lines(source):
    """Return the line numbers of statements that are equal to the statement before them in the same block."""
    blocks = (
        getattr(node, name, None) for node in ast.walk(ast.parse(source)) for name in ("body", "orelse", "finalbody")
    )
    return [
        second.lineno
        for block in blocks
        if isinstance(block, list)
        for first, second in pairwise(block)
        if ast.dump(first) == ast.dump(second)
    ]


@pytest.mark.parametrize("path", FILES, ids=lambda path: "/".join(path.parts[-3:]))
def test_no_statement_is_repeated(path):
    assert repeated_lines(path.read_text(encoding="utf-8")) == []


def test_repeated_statements_are_found_in_every_block():
    assert repeated_lines("x = 1\nx = 1\n") == [2]
    assert repeated_lines("def f():\n    if a:\n        b()\n    else:\n        c()\n        c()  # twice\n") == [6]
    assert repeated_lines("try:\n    a()\nfinally:\n    b()\n    b()\n") == [5]
    assert repeated_lines("x = 1\ny = 1\nx = 1\n") == []
