"""Count lines of code, functions, files and entries of the packages that Python would import."""

from __future__ import annotations

import ast
import io
import statistics
import tokenize
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

PACKAGES = ("posenc_core", "posenc_backends")
NO_CODE = frozenset(
    {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    | {tokenize.ENCODING, tokenize.ENDMARKER}
)
NO_ENTRIES = frozenset({"py.typed", "__pycache__"})
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def lines() -> dict[str, Any]:
    """Return the numbers of each of our packages."""
    return {package: _package(folder_of(package)) for package in PACKAGES}


def folder_of(package: str) -> Path:
    """Return the folder that Python imports a package from; the package is not imported."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"`{package}` is not on the path of Python.", name=package)
    return Path(spec.origin).parent


def _package(folder: Path) -> dict[str, Any]:
    sources = {path: path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*.py"))}
    bodies = [length for source in sources.values() for length in body_lengths(source)]
    largest = max(sources, key=lambda path: sources[path].count("\n"))
    by_part: Counter[str] = Counter()
    for path, source in sources.items():
        first, *rest = path.relative_to(folder).parts
        by_part[f"{first}/" if rest else first] += code_lines(source)
    return {
        "entries": sum(is_entry(path) for path in folder.iterdir()),
        "files": len(sources),
        "code lines": by_part.total(),
        "functions": len(bodies),
        "median body": float(statistics.median(bodies)),
        "longest body": max(bodies),
        "largest file": largest.relative_to(folder).as_posix(),
        "lines of the largest file": sources[largest].count("\n"),
        "code lines by part": dict(sorted(by_part.items())),
    }


def is_entry(path: Path) -> bool:
    """Return whether it is a part of the package: folders that hold no file but what Python has compiled are none."""
    if path.name in NO_ENTRIES or path.name.startswith("."):
        return False
    return path.is_file() or any(file.is_file() and "__pycache__" not in file.parts for file in path.rglob("*"))


def code_lines(source: str) -> int:
    """Return how many lines hold code: no docstring, no comment, not blank."""
    documents = _docstrings(source)
    text, numbers = source.splitlines(), set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        first, last = token.start[0], token.end[0]
        is_docstring = token.type == tokenize.STRING and any(start <= token.start < end for start, end in documents)
        if token.type not in NO_CODE and not is_docstring:
            numbers |= {number for number in range(first, last + 1) if text[number - 1].strip()}
    return len(numbers)


def _docstrings(source: str) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Return where docstrings begin and end, as line and column."""
    nodes = (node for node in ast.walk(ast.parse(source)) if isinstance(node, DOCUMENTED))
    found = (node.body[0] for node in nodes if ast.get_docstring(node, clean=False) is not None)
    return [((s.lineno, s.col_offset), (s.end_lineno or 0, s.end_col_offset or 0)) for s in found]


def body_lengths(source: str) -> Iterator[int]:
    """Yield for each function from how many lines its body goes on, docstring left out; 0 where that is all."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            body = node.body[ast.get_docstring(node) is not None :]
            yield (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0
