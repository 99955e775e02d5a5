"""Write the page "What works where" from the suite: its cases, the modes of each framework and its known failures."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import posenc_backends
from posenc_backends.conformance.cases import Case, cases, golden
from posenc_backends.conformance.known_failures import KNOWN_FAILURES, known_failures

FRAMEWORKS = {"torch": "PyTorch", "keras": "Keras", "paddle": "Paddle", "mxnet": "MXNet", "jax": "JAX"}
MODE_TITLES = FRAMEWORKS | {"tensorflow": "Keras on TensorFlow: further modes"}
BACKENDS = Path(posenc_backends.__file__).parent
FOOTNOTES = "¹²³⁴⁵⁶⁷⁸⁹"
BEGINNING = """# What works where

Every layer with every encoding is compared with golden numbers: eagerly, compiled, its gradients, and in the modes of
each framework. A mode is one of the framework's own tools applied to a layer (compile, export, save …), in float32 and
once more in half precision, at several lengths and at far positions if the encoding has them. A known failure is a case
that is expected to fail: the suite fails as soon as it passes.
This page is written from `posenc_backends/conformance` when the documentation is built.
"""


def support() -> str:
    """Return the page as Markdown."""
    sections = [line for name, title in MODE_TITLES.items() for line in _section(name, title)]
    return "\n".join([BEGINNING, *_matrix(), *sections])


def _matrix() -> Iterator[str]:
    """Yield a table of encodings by frameworks: how many cases each has, and how many of them pass."""
    by_framework = {name: list(_all_cases(name)) for name in FRAMEWORKS}
    encodings = dict.fromkeys(case.encoding for case in by_framework["torch"])
    footnotes: dict[str, str] = {}
    rows = []
    for encoding in sorted(encodings, key=lambda name: (name == "MultiHeadAttention", name)):
        cells = (_cell(framework, by_framework[framework], encoding, footnotes) for framework in FRAMEWORKS)
        name = "attention without encoding" if encoding == "MultiHeadAttention" else f"`{encoding}`"
        rows.append(f"| {name} | {' | '.join(cells)} |")
    yield from ("## Encodings", "", "✓ and the number of cases, if all of them pass; otherwise how many pass.", "")
    yield f"| encoding | {' | '.join(FRAMEWORKS.values())} |"
    yield "|---" * (len(FRAMEWORKS) + 1) + "|"
    yield from (*rows, "")
    yield from (f"* {mark} {reason}" for reason, mark in footnotes.items())
    yield ""


def _cell(framework: str, of_framework: list[Case], encoding: str, footnotes: dict[str, str]) -> str:
    known = known_failures(framework)
    of_encoding = [case for case in of_framework if case.encoding == encoding]
    reasons = Counter(reason for case in of_encoding if (reason := case.known_failure(known)))
    if not reasons:
        return f"✓ {len(of_encoding)}"
    marks = "".join(footnotes.setdefault(reason, FOOTNOTES[len(footnotes)]) for reason in reasons)
    return f"{len(of_encoding) - reasons.total()} of {len(of_encoding)} {marks}"


def _all_cases(framework: str) -> Iterator[Case]:
    """Yield the cases of a framework: the common ones, and every golden case in every mode."""
    yield from _common_cases()
    files = ("keras", "tensorflow") if framework == "keras" else (framework,)
    modes = [mode for file in files for mode in _modes(file, "MODES")]
    gradient_modes = [f"gradient, {mode}" for file in files for mode in _modes(file, "GRADIENT_MODES")]
    for golden_case in golden("modes"):
        encoding = golden_case["encoding"]["kind"] if golden_case["encoding"] else "MultiHeadAttention"
        for mode in modes + (gradient_modes if golden_case["gradient"] is not None else []):
            yield Case(mode, encoding, golden_case["name"], golden_case["dtype"], lambda on: None, is_mode=True)


@cache
def _common_cases() -> tuple[Case, ...]:
    return tuple(cases())


def _section(name: str, title: str) -> Iterator[str]:
    """Yield the modes of a framework and its known failures."""
    yield from (f"## {title}", "", "| mode | what it does |", "|---|---|")
    for mode, sentence in _modes(name, "MODES").items():
        yield f"| {mode} | {sentence} |"
    gradients = _modes(name, "GRADIENT_MODES")
    yield from ("", f"Gradients: {'; '.join(gradients)}." if gradients else "", "")
    for environment, modes in _left_out(name).items():
        yield from (f"Not run on {environment}: {'; '.join(modes)}.", "") if modes else ()
    failures = KNOWN_FAILURES.get(name, {})
    if any(failures.values()):
        yield from ("| known failure | where | why |", "|---|---|---|")
    for environment, reasons in failures.items():
        yield from (f"| {case} | {environment or 'everywhere'} | {reason} |" for case, reason in reasons.items())
    yield ""


@cache
def _modes(name: str, table: str) -> dict[str, str]:
    """Return the modes of a framework with the first line of the docstring of each; the framework is not imported."""
    path = _path(name)
    tree, sentences = _parse(path), _sentences(path)
    modes: dict[str, str] = {}
    for node in tree.body:
        if table in _targets(node):
            for mode, function in _items(node):
                names = [part.id for part in ast.walk(function) if isinstance(part, ast.Name) and part.id in sentences]
                modes[mode] = sentences[names[0]] if names else ""
    return modes


def _left_out(name: str) -> dict[str, tuple[str, ...]]:
    """Return the modes that are not run, by environment."""
    nodes = [node for node in _parse(_path(name)).body if "LEFT_OUT" in _targets(node)]
    return ast.literal_eval(nodes[0].value) if nodes else {}


def _sentences(path: Path) -> dict[str, str]:
    """Return the first lines of the docstrings of a module's functions and classes, its own and those it imports."""
    sentences: dict[str, str] = {}
    for node in _parse(path).body:
        if isinstance(node, ast.ImportFrom) and node.module:
            source = (path.parent if node.level else BACKENDS.parent) / f"{node.module.replace('.', '/')}.py"
            is_ours = source.is_relative_to(BACKENDS / "conformance") and source.is_file() and source != path
            imported = _sentences(source) if is_ours else {}
            sentences |= {alias.name: imported[alias.name] for alias in node.names if alias.name in imported}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            sentences[node.name] = (ast.get_docstring(node) or "").partition("\n")[0]
    return sentences


def _path(name: str) -> Path:
    return BACKENDS / "conformance" / "frameworks" / f"{name}.py"


def _parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _targets(node: ast.stmt) -> list[str]:
    targets = getattr(node, "targets", [getattr(node, "target", None)])
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _items(statement: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    """Yield the keys and values of the dictionary literals in a statement."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant):
                    yield key.value, value
