"""Check types as an editor does: of the code on the README, the front page and the how-to pages, and of what is public.

Run `python -m tests.typed` where PyTorch and basedpyright are installed; of tabs, those of PyTorch are checked.
"""

import ast
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from .pages import FRONT, HOWTO, blocks

ROOT = Path(__file__).parents[1]
COMPLETE = ("posenc_core", "posenc_backends.torch")  # which have no public name without a type
PAGES = [ROOT / "README.md", FRONT, *(page for page in HOWTO if page.stem != "framework")]  # whose tensors are made up
SETTINGS = {
    "typeCheckingMode": "strict",
    "reportMissingTypeStubs": "none",
    "reportUnknownArgumentType": "none",  # NumPy returns an unknown type for `Any`
    "reportUnnecessaryTypeIgnoreComment": "error",
    "extraPaths": [str(ROOT)],  # the checkout, whatever is installed
}
MISTAKES = """
import torch
from posenc_backends.torch import MultiHeadAttention, RotaryEmbedding
from posenc_core import Rotary, Sinusoidal, rotate, shard
from posenc_core.huggingface import load_rope

x = torch.ones(1, 2, 8)
rotary = Rotary(head_dim=8, layout="half")
Rotary(head_dim=8, layout="halves")  # pyright: ignore[reportArgumentType]
Rotary(head_dim=8, layout="half", theta=500000.0)  # pyright: ignore[reportCallIssue]
Sinusoidal(dim="8")  # pyright: ignore[reportArgumentType]
rotary.frequencies("long")  # pyright: ignore[reportArgumentType]
rotary.cos_sin(range(2))[0].ndims  # pyright: ignore[reportUnknownMemberType, reportAttributeAccessIssue]
load_rope("config.json").theta  # pyright: ignore[reportUnknownMemberType, reportAttributeAccessIssue]
rotate(x, x, x, layout="halves")  # pyright: ignore[reportArgumentType]
rotate(x, x, x, layout="half").shapes  # pyright: ignore[reportUnknownMemberType, reportAttributeAccessIssue]
shard(x, 0, 2, order="zig")  # pyright: ignore[reportCallIssue, reportArgumentType]
RotaryEmbedding(rotary)(x, position=3)  # pyright: ignore[reportArgumentType]
MultiHeadAttention(8, 2)(x, x, x, causal="yes")  # pyright: ignore[reportArgumentType]
"""


def code_of(page: Path) -> str:
    """Return the cells of a page on their own lines, with annotations where its functions have none."""
    text = page.read_text(encoding="utf-8")
    lines = [""] * len(text.splitlines())
    for block in blocks(text):
        if block.kind == "python" and block.framework in (None, "torch"):
            cell = with_any(block.content).splitlines()
            lines[block.line : block.line + len(cell)] = cell
    code = "\n".join(lines) + "\n"
    return f"{code}from typing import Any\n" if "'Any'" in code else code


def with_any(cell: str) -> str:
    """Return a cell whose parameters and results of methods are `Any` where it does not say what they are."""
    lines, tree, annotations = cell.splitlines(), ast.parse(cell), []
    methods = {id(one) for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for one in node.body}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            parameters = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
            bare = [one for one in parameters if one.annotation is None and one.arg != "self"]
            annotations += [(one.end_lineno, one.end_col_offset, ": 'Any'") for one in bare]
            if id(node) in methods and node.returns is None and node.name != "__init__":
                annotations.append((node.lineno, len(lines[node.lineno - 1]) - 1, " -> 'Any'"))
    for row, column, annotation in sorted(annotations, reverse=True):
        line = lines[row - 1]
        lines[row - 1] = f"{line[:column]}{annotation}{line[column:]}"
    return "\n".join(lines)


def main() -> int:
    """Print what the checker finds, with the line of the page; return 0 if it finds nothing but the mistakes."""
    checker = [sys.executable, "-m", "basedpyright", "--pythonpath", sys.executable]
    with tempfile.TemporaryDirectory() as folder:
        for page in PAGES:
            Path(folder, f"{page.stem.lower()}.py").write_text(code_of(page), encoding="utf-8")
        Path(folder, "mistakes.py").write_text(MISTAKES, encoding="utf-8")
        Path(folder, "pyrightconfig.json").write_text(json.dumps(SETTINGS), encoding="utf-8")
        of_pages = subprocess.run(checker, cwd=folder, check=False, timeout=300).returncode
    return max(of_pages, *[untyped(package) for package in COMPLETE])


def untyped(package: str) -> int:
    """Print the public names of a package that have no type; return 0 if there is none."""
    command = [sys.executable, "-m", "basedpyright", "--verifytypes", package, "--ignoreexternal"]
    first = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}  # it looks for `python` there
    found = subprocess.run(command, cwd=ROOT, env=os.environ | first, check=False, capture_output=True, text=True)
    if found.returncode:
        sys.stdout.write(found.stdout.partition("Symbols used in public interface:")[2] or found.stdout)
    return found.returncode


if __name__ == "__main__":
    sys.exit(main())
