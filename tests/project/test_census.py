"""What a framework has to bring: the names of the array API standard that the core uses."""

import ast
from pathlib import Path

import posenc_core

CENSUS = {
    "abs", "arange", "asarray", "astype", "broadcast_to", "concat", "cos", "cumulative_sum", "exp", "expand_dims", "float32", "full_like",
    "int32", "log", "matmul", "matrix_transpose", "max", "maximum", "minimum", "ones_like", "permute_dims", "reshape", "shape",
    "sin",
    "stack", "sum", "take", "where", "zeros_like",
}  # fmt: skip


def used():
    """Attributes taken of `xp`, and of a namespace where it is asked for."""
    for path in Path(posenc_core.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute):
                of = node.value
                asked = isinstance(of, ast.Call) and isinstance(of.func, ast.Name) and of.func.id == "namespace_of"
                if asked or (isinstance(of, ast.Name) and of.id == "xp"):
                    yield node.attr


def test_the_core_uses_these_names_and_no_others():
    names = set(used())
    print(f"{len(names)} names: {' '.join(sorted(names))}")  # noqa: T201
    assert names == CENSUS
    assert len(names) <= 30
