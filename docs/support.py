"""The page that says what each framework's tools do with the layers, and what they cannot: written from the rooms."""

from __future__ import annotations

import ast
import runpy
from collections.abc import Iterator
from pathlib import Path

BACKEND_NAMES = {
    "torch": "PyTorch",
    "keras": "Keras",
    "tensorflow": "Keras on TensorFlow, besides",
    "paddle": "Paddle",
    "mxnet": "MXNet",
    "jax": "JAX",
}
BACKENDS = Path(__file__).parents[1] / "posenc_backends"
KNOWN_FAILURES = runpy.run_path(str(BACKENDS / "conformance" / "known_failures.py"))["KNOWN_FAILURES"]
BEGINNING = """# What works where

Every layer with every encoding goes through each of these modes: in float32, and once more in half precision, from far positions on where the encoding has
them; at several lengths. What comes out is compared with golden numbers. This page is written from the rooms' `modes.py` and
`gaps.py` when the pages are built. A gap is a case that is expected to fail: the suite tells when it no longer does.
"""


def support() -> str:
    """The page, as Markdown."""
    return "\n".join(
        [BEGINNING, *(line for backend in BACKEND_NAMES if (BACKENDS / backend).is_dir() for line in _section(backend))]
    )


def _section(backend: str) -> Iterator[str]:
    yield from (f"## {BACKEND_NAMES[backend]}", "", "| mode | what is done |", "|---|---|")
    for name, sentence in _modes(backend, "MODES").items():
        yield f"| {name} | {sentence} |"
    gradients = _modes(backend, "GRADIENT_MODES")
    yield from ("", f"Gradients: {'; '.join(gradients)}." if gradients else "", "")
    for keras_backend, names in _left_out(backend).items():
        yield from (f"Not run on {keras_backend}: {'; '.join(names)}.", "") if names else ()
    gaps = KNOWN_FAILURES.get(backend, {})
    if any(gaps.values()):
        yield from ("| gap | where | why |", "|---|---|---|")
    for environment, told in gaps.items():
        yield from (f"| {case} | {environment or 'everywhere'} | {why} |" for case, why in told.items())
    yield ""


def _modes(backend: str, name: str) -> dict[str, str]:
    """The modes of a room, with the first sentence about the function that each one calls."""
    path = BACKENDS / "conformance" / "frameworks" / f"{backend}.py"
    tree, about = _parsed(path), _sentences(path)
    found: dict[str, str] = {}
    for node in tree.body:
        if name in _targets(node):
            for key, value in _entries(node):
                called = [each.id for each in ast.walk(value) if isinstance(each, ast.Name) and each.id in about]
                found[key] = about[called[0]] if called else ""
    return found


def _left_out(backend: str) -> dict[str, tuple[str, ...]]:
    """By backend, the modes that are not run there, for what they show is shown elsewhere."""
    nodes = [
        node
        for node in _parsed(BACKENDS / "conformance" / "frameworks" / f"{backend}.py").body
        if "LEFT_OUT" in _targets(node)
    ]
    return ast.literal_eval(nodes[0].value) if nodes else {}


def _sentences(path: Path) -> dict[str, str]:
    """The first sentences about the functions that a module has, or takes from those of ours that it imports."""
    about: dict[str, str] = {}
    for node in _parsed(path).body:
        if isinstance(node, ast.ImportFrom) and node.module:
            source = (path.parent if node.level else BACKENDS.parent) / f"{node.module.replace('.', '/')}.py"
            ours = source.is_relative_to(BACKENDS / "conformance") and source.is_file() and source != path
            theirs = _sentences(source) if ours else {}
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
