"""The page that says what each framework's tools do with the layers, and what they cannot: written from the rooms."""

from __future__ import annotations

import ast
import runpy
from collections.abc import Iterator
from pathlib import Path

ROOMS = {"torch": "PyTorch", "keras": "Keras", "paddle": "Paddle", "mxnet": "MXNet", "jax": "JAX"}
BACKENDS = Path(__file__).parents[1] / "posenc_backends"
BEGINNING = """# What works where

Every layer with every encoding goes through each of these modes, in float32 and in half precision, near position 0 and near
2²⁰, at several lengths; what comes out is compared with golden numbers. This page is written from the rooms' `modes.py` and
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
    gaps = runpy.run_path(str(BACKENDS / room / "gaps.py"))["GAPS_IN"]
    if any(gaps.values()):
        yield from ("| gap | where | why |", "|---|---|---|")
    for environment, told in gaps.items():
        yield from (f"| {case} | {environment or 'everywhere'} | {why} |" for case, why in told.items())
    yield ""


def _modes(room: str, name: str) -> dict[str, str]:
    """The modes of a room, with the first sentence about the function that each one calls."""
    paths = [BACKENDS / "modes.py", *(BACKENDS / room).glob("*.py")]
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in paths}
    nodes = [node for tree in trees.values() for node in tree.body]
    about = {
        node.name: (ast.get_docstring(node) or "").partition("\n")[0]
        for node in nodes
        if isinstance(node, (ast.FunctionDef, ast.ClassDef))
    }
    found: dict[str, str] = {}
    for node in trees[BACKENDS / room / "modes.py"].body:
        if name in _targets(node):
            for key, value in _entries(node):
                called = [each.id for each in ast.walk(value) if isinstance(each, ast.Name) and each.id in about]
                found[key] = about[called[0]] if called else ""
    return found


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
