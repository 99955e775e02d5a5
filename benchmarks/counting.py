"""Count the structure of the packages that Python would import: code, functions, `Any`, checks of classes, circles."""

from __future__ import annotations

import ast
import inspect
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

PACKAGES = ("posenc_core", "posenc_backends")
TESTS = Path(__file__).parents[1] / "tests"
ENCODINGS = "posenc_core/encodings/"  # where a check of an encoding's own class is at home
NO_ENTRIES = frozenset({"py.typed", "__pycache__"})
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def structure() -> dict[str, Any]:
    """Return the numbers of both packages, of their folders, and of the tests."""
    trees = {package: files(folder_of(package)) for package in PACKAGES}
    sources = [source for one in trees.values() for source in one]
    checks = list(class_checks(sources))
    return {
        "packages": {package: _package(package, one) for package, one in trees.items()},
        "folders": dict(sorted(_folders(sources).items())),
        "code lines of tests": sum(source.code_lines for source in files(TESTS)),
        "checks by class": dict(Counter(name for _, names in checks for name in names).most_common()),
        "checks by file": dict(Counter(place for place, _ in checks).most_common()),
        "circles of imports": circles(sources),
    }


@dataclass(frozen=True)
class File:
    """A file of Python.

    Attributes:
        path: where it stands.
        place: its path below the folder that holds the packages, with slashes.
    """

    path: Path
    place: str

    @cached_property
    def text(self) -> str:
        """Its source."""
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """The nodes of its syntax tree."""
        return list(ast.walk(ast.parse(self.text)))

    @cached_property
    def code_lines(self) -> int:
        """How many lines hold code: no docstring, no comment, not blank."""
        lines = self.text.splitlines()
        texts, documents = _strings(self.nodes), _docstrings(self.nodes, lines)
        return sum(
            bool(line.strip()) and number not in documents and (number in texts or not line.lstrip().startswith("#"))
            for number, line in enumerate(lines, start=1)
        )

    @cached_property
    def body_lengths(self) -> list[int]:
        """For each function, how many lines its body has without the docstring; 0 where that is all."""
        bodies = [
            node.body[ast.get_docstring(node) is not None :] for node in self.nodes if isinstance(node, FUNCTIONS)
        ]
        return [(body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0 for body in bodies]

    @cached_property
    def any_count(self) -> int:
        """How many times a type is `Any`."""
        return sum(isinstance(node, ast.Name) and node.id == "Any" for node in self.nodes)


def files(folder: Path) -> list[File]:
    """Return the files of Python below a folder, in order."""
    return [File(path, path.relative_to(folder.parent).as_posix()) for path in sorted(folder.rglob("*.py"))]


def folder_of(package: str) -> Path:
    """Return the folder that Python imports a package from; the package is not imported."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"`{package}` is not on the path of Python.", name=package)
    return Path(spec.origin).parent


def _package(package: str, sources: list[File]) -> dict[str, Any]:
    bodies = [length for source in sources for length in source.body_lengths]
    largest = max(sources, key=lambda source: source.text.count("\n"))
    return {
        "entries": sum(is_entry(path) for path in folder_of(package).iterdir()),
        "files": len(sources),
        "code lines": sum(source.code_lines for source in sources),
        "functions": len(bodies),
        "median body": float(statistics.median(bodies)),
        "longest body": max(bodies),
        "largest file": largest.place,
        "lines of the largest file": largest.text.count("\n"),
    }


def is_entry(path: Path) -> bool:
    """Return whether it is a part of the package: folders that hold no file but what Python has compiled are none."""
    if path.name in NO_ENTRIES or path.name.startswith("."):
        return False
    return path.is_file() or any(file.is_file() and "__pycache__" not in file.parts for file in path.rglob("*"))


def _folders(sources: Iterable[File]) -> dict[str, dict[str, Any]]:
    """Return the numbers of each folder of the first level, with all below it."""
    by_folder: dict[str, list[File]] = {}
    for source in sources:
        parts = source.place.split("/")
        by_folder.setdefault("/".join(parts[: min(2, len(parts) - 1)]) + "/", []).append(source)
    return {folder: _folder(one) for folder, one in by_folder.items()}


def _folder(sources: list[File]) -> dict[str, Any]:
    functions = sum(len(source.body_lengths) for source in sources)
    return {
        "files": len(sources),
        "code lines": sum(source.code_lines for source in sources),
        "functions": functions,
        "Any per function": round(sum(source.any_count for source in sources) / max(functions, 1), 2),
    }


def _strings(nodes: Iterable[ast.AST]) -> set[int]:
    """Return the lines that begin within a string."""
    return {
        number
        for node in nodes
        if isinstance(node, (ast.Constant, ast.JoinedStr))
        for number in range(node.lineno + 1, (node.end_lineno or 0) + 1)
    }


def _docstrings(nodes: Iterable[ast.AST], lines: list[str]) -> set[int]:
    """Return the lines of docstrings that hold nothing else."""
    owners = (node for node in nodes if isinstance(node, DOCUMENTED))
    texts = (node.body[0] for node in owners if ast.get_docstring(node, clean=False) is not None)
    return {
        number
        for text in texts
        if not lines[text.lineno - 1][: text.col_offset].strip()
        for number in range(text.lineno, (text.end_lineno or 0) + 1)
    }


def class_checks(sources: Iterable[File]) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield each check of concrete encodings outside of `ENCODINGS`: the place of its file, and the classes it names.

    Checks are `isinstance`, `issubclass`, `type(x) is …` and patterns of `match`; names of tuples of classes are
    followed within the file.
    """
    concrete = concrete_encodings()
    for source in sources:
        if source.place.startswith(ENCODINGS):
            continue
        tuples = {
            node.targets[0].id: node.value
            for node in source.nodes
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
            if isinstance(node.value, (ast.Tuple, ast.BinOp))
        }
        for node in source.nodes:
            for asked in _classes_asked(node):
                names = {name for inner in ast.walk(asked) for name in _names(inner)}
                names |= {
                    name for key in names & {*tuples} for inner in ast.walk(tuples[key]) for name in _names(inner)
                }
                if found := concrete & names:
                    yield source.place, frozenset(found)


def concrete_encodings() -> frozenset[str]:
    """Return the names of the encodings that a user can make."""
    from posenc_core import encodings

    classes = ((name, getattr(encodings, name)) for name in encodings.__all__)
    return frozenset(
        name
        for name, cls in classes
        if isinstance(cls, type) and issubclass(cls, encodings.Encoding) and not inspect.isabstract(cls)
    )


def _classes_asked(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the expression of the classes that a node compares a value with."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("isinstance", "issubclass"):
        yield node.args[1]
    elif isinstance(node, ast.MatchClass):
        yield node.cls
    elif isinstance(node, ast.Compare) and isinstance(node.left, ast.Call) and "type" in _names(node.left.func):
        yield from node.comparators


def _names(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.Attribute):
        yield node.attr


def circles(sources: Iterable[File]) -> list[list[str]]:
    """Return the groups of files that import each other, imports inside of functions included; types are left out."""
    places = {source.place: source for source in sources if source.path.name not in ("__init__.py", "__main__.py")}
    arrows = {place: set(_imports(source)) & places.keys() - {place} for place, source in places.items()}
    reach = {place: _reachable(place, arrows) for place in places}
    groups = {frozenset(other for other in reach[place] if place in reach[other]) for place in places}
    return sorted(sorted(group) for group in groups if len(group) > 1)


def _reachable(place: str, arrows: dict[str, set[str]]) -> set[str]:
    """Return the places that arrows lead to from here, at any distance."""
    found: set[str] = set()
    todo = [place]
    while todo:
        new = arrows[todo.pop()] - found
        found |= new
        todo.extend(new)
    return found


def _imports(source: File) -> Iterator[str]:
    """Yield the places of the files that a file may import."""
    for_types = {
        inner
        for node in source.nodes
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    folders = source.place.split("/")[:-1]
    for node in source.nodes:
        if isinstance(node, ast.ImportFrom) and node not in for_types:
            base = folders[: len(folders) + 1 - node.level] if node.level else []
            base = base + (node.module.split(".") if node.module else [])
            yield "/".join(base) + ".py"
            yield from ("/".join([*base, alias.name]) + ".py" for alias in node.names)
