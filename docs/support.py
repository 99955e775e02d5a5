"""The page that says what each framework's tools do with the layers, and what they cannot: written from the rooms."""

from __future__ import annotations

import ast
import runpy
from collections.abc import Iterator
from pathlib import Path

ROOMS = {
    "torch": "PyTorch",
    "keras": "Keras",
    "tensorflow": "Keras on TensorFlow, besides",
    "paddle": "Paddle",
    "mxnet": "MXNet",
    "jax": "JAX",
}
BACKENDS = Path(__file__).parents[1] / "posenc_backends"
BEGINNING = """# What works where

Every layer with every encoding goes through each of these modes: in float32, and once more in half precision, from far positions on where the encoding has
them; at several lengths. What comes out is compared with golden numbers. This page is written from the rooms' `modes.py` and
`gaps.py` when the pages are built. A gap is a case that is expected to fail: the suite tells when it no longer does.
"""


def support() -> str:
    """The page, as Markdown."""
    return "\n".join([BEGINNING, *(line for room in ROOMS if (BACKENDS / room).is_dir() for line in _section(room))])


def _section(room: str) -> Iterator[str]:
    yield from (f"## {ROOMS[room]}", "", "| mode | what is done |", "|---|---|")
    for name, sentence in _modes(room, "MODES").items():
        yield f"| {name} | {sentence} |"
    gradients = _modes(room, "GRADIENT_MODES")
    yield from ("", f"Gradients: {'; '.join(gradients)}." if gradients else "", "")
    for backend, names in _left_out(room).items():
        yield from (f"Not run on {backend}: {'; '.join(names)}.", "") if names else ()
    path = BACKENDS / room / "gaps.py"
    gaps = runpy.run_path(str(path))["GAPS_IN"] if path.is_file() else {}
    if any(gaps.values()):
        yield from ("| gap | where | why |", "|---|---|---|")
    for environment, told in gaps.items():
        yield from (f"| {case} | {environment or 'everywhere'} | {why} |" for case, why in told.items())
    yield ""


def _modes(room: str, name: str) -> dict[str, str]:
    """The modes of a room, with the first sentence about the function that each one calls."""
    path = BACKENDS / "conformance" / "frameworks" / f"{room}_tooling.py"
    tree, about = _parsed(path), _sentences(path)
    found: dict[str, str] = {}
    for node in tree.body:
        if name in _targets(node):
            for key, value in _entries(node):
                called = [each.id for each in ast.walk(value) if isinstance(each, ast.Name) and each.id in about]
                found[key] = about[called[0]] if called else ""
    return found


def _left_out(room: str) -> dict[str, tuple[str, ...]]:
    """By backend, the modes that are not run there, for what they show is shown elsewhere."""
    nodes = [
        node
        for node in _parsed(BACKENDS / "conformance" / "frameworks" / f"{room}_tooling.py").body
        if "LEFT_OUT" in _targets(node)
    ]
    return ast.literal_eval(nodes[0].value) if nodes else {}


def _sentences(path: Path) -> dict[str, str]:
    """The first sentences about the functions that a module has, or takes from those of ours that it imports."""
    about: dict[str, str] = {}
    for node in _parsed(path).body:
        if isinstance(node, ast.ImportFrom) and node.module:
            source = (path.parent if node.level else BACKENDS.parent) / f"{node.module.replace('.', '/')}.py"
            theirs = _sentences(source) if source.is_relative_to(BACKENDS) and source.is_file() else {}
            about |= {alias.name: theirs[alias.name] for alias in node.names if alias.name in theirs}
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            about[node.name] = (ast.get_docstring(node) or "").partition("\n")[0]
    return about


def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _targets(node: ast.stmt) -> list[str]:
    targets = getattr(node, "targets", [getattr(node, "target", None)])
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _entries(node: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    """The keys and values of the dictionaries that a statement spells out."""
    for each in ast.walk(node):
        if isinstance(each, ast.Dict):
            for key, value in zip(each.keys, each.values, strict=True):
                if isinstance(key, ast.Constant):
                    yield key.value, value
