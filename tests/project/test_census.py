"""The names of the array API standard that the core uses: a framework must provide them."""

import ast
from pathlib import Path

import posenc_core

CENSUS = {
    "abs", "arange", "asarray", "astype", "broadcast_to", "concat", "cos", "cumulative_sum", "exp", "expand_dims",
    "float32", "full_like", "int32", "log", "log1p", "matmul", "matrix_transpose", "max", "maximum", "minimum",
    "ones_like", "permute_dims", "reshape", "shape", "sin", "stack", "sum", "take", "where", "zeros_like",
}  # fmt: skip


def used_names():
    """Yield the attributes of `xp`, and of the results of `namespace_of`."""
    for path in Path(posenc_core.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute):
                owner = node.value.func if isinstance(node.value, ast.Call) else node.value
                name = "namespace_of" if isinstance(node.value, ast.Call) else "xp"
                if isinstance(owner, ast.Name) and owner.id == name:
                    yield node.attr


def test_the_core_uses_these_names_and_no_others():
    names = set(used_names())
    print(f"{len(names)} names: {' '.join(sorted(names))}")  # noqa: T201
    assert names == CENSUS
    assert len(names) <= 30
