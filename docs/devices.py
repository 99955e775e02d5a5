"""Write the tables of "On many devices" from the marks `many_devices` of tests."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
FRAMEWORKS = ("PyTorch", "JAX", "Keras", "Paddle", "MXNet", "MLX")


def devices() -> str:
    """Return a table for each framework as Markdown."""
    rows: dict[str, list[str]] = {framework: [] for framework in FRAMEWORKS}
    for path in sorted((ROOT / "tests").rglob("*.py")):
        if "many_devices" in (source := path.read_text(encoding="utf-8")):
            for framework, row in _marks(ast.parse(source), path.relative_to(ROOT).as_posix()):
                rows[framework].append(row)
    lines = [":::::{tab-set}", ":sync-group: framework", ""]
    for framework, found in rows.items():
        lines += [f"::::{{tab-item}} {framework}", f":sync: {framework.lower()}", ""]
        lines += ["| what | | the line, or why not | test |", "|---|---|---|---|", *found, "", "::::", ""]
    return "\n".join([*lines, ":::::", ""])


def _marks(tree: ast.Module, file: str) -> Iterator[tuple[str, str]]:
    """Yield the framework and the row of each mark, in the order of the file."""
    for function in tree.body:
        for mark in getattr(function, "decorator_list", []):
            if isinstance(mark, ast.Call) and getattr(mark.func, "id", "") == "many_devices":
                framework, what = map(ast.literal_eval, mark.args)
                named = {keyword.arg: ast.literal_eval(keyword.value) for keyword in mark.keywords}
                fails, line = named.get("fails", ""), named.get("line", "")
                sign = "does not" if fails else "with this line" if line else "works"
                yield framework, f"| {what} | {sign} | {fails or line} | `{file}` |"
