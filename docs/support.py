"""Write the tables of "What works where" from the suite: its cases, the modes of each framework, its known failures."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import posenc_backends
from posenc_backends.conformance.cases import Case, cases, golden
from posenc_backends.conformance.known_failures import KNOWN_FAILURES, known_failures

FRAMEWORKS = {"torch": "PyTorch", "keras": "Keras", "paddle": "Paddle", "mxnet": "MXNet", "jax": "JAX", "mlx": "MLX"}
MODE_TITLES = FRAMEWORKS | {"tensorflow": "Keras on TensorFlow: further modes"}
BACKENDS = Path(posenc_backends.__file__).parent
SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
COMMON = {"eager": "table forward defect resized", "compiled": "compiled", "saved": "saved"}
COLUMNS = {  # what users ask for, and the modes that show it
    "eager": "a call, as Python runs it, in float32 and float64",
    "gradients": "gradients of tokens and parameters, in every mode that has some",
    "half": "float16 and bfloat16, in every check and mode",
    "compiled": "`torch.compile`, `tf.function`, `to_static`, `hybridize`, `jit`, `mx.compile`",
    "exported": "written as a program, and run without the layer",
    "saved": "files and configurations of the framework",
    "cast": "casts of a layer, autocast, mixed policies",
    "copied": "`deepcopy`, `pickle`, moves to a device",
    "vmap": "mapped over an axis, scanned",
}
MODES_OF: dict[str, dict[str, tuple[str, ...]]] = {
    "torch": {
        "eager": ("in inference mode, then training",),
        "compiled": ("compiled", "compiled, dynamic"),
        "exported": ("exported", "traced", "onnx"),
        "saved": ("saved", "saved, persistent"),
        "cast": ("autocast", "cast"),
        "copied": ("moved", "moved, assigned", "copied", "pickled"),
        "vmap": ("vmapped",),
    },
    "keras": {
        "eager": ("in a model",),
        "compiled": ("subclassed", "tf.function", "tf.data"),
        "exported": ("exported",),
        "saved": ("saved", "weights", "from config"),
        "cast": ("mixed_bfloat16", "mixed_float16"),
        "copied": ("copied", "pickled"),
    },
    "paddle": {
        "compiled": ("compiled", "compiled, SOT", "in a model"),
        "exported": ("exported", "predicted", "predicted, without oneDNN"),
        "saved": ("saved",),
        "cast": ("autocast", "cast"),
        "copied": ("copied", "pickled"),
    },
    "mxnet": {
        "compiled": ("hybridized", "hybridized, static", "in a model", "in a model, static"),
        "exported": ("exported", "symbolic"),
        "saved": ("saved",),
        "cast": ("cast",),
        "copied": ("copied", "pickled"),
    },
    "jax": {
        "compiled": (
            "compiled",
            "compiled ahead of time",
            "compiled, positions as argument",
            "compiled, 64 bits switched",
            "donated",
            "in a model",
        ),
        "exported": ("exported",),
        "saved": ("saved",),
        "copied": ("copied", "pickled"),
        "vmap": ("vmapped", "scanned"),
    },
    "mlx": {
        "compiled": ("compiled", "in a model"),
        "exported": ("exported",),
        "saved": ("saved",),
        "cast": ("cast",),
        "copied": ("copied", "pickled"),
        "vmap": ("vmapped",),
    },
}
LEGEND = """* **✓** all cases pass
* **✓¹** some cases are known failures, for the reason below; **✗¹** all are
* **·** the framework has no such tool, or the suite has no case

A known failure is strict: the suite fails as soon as it passes."""


def support() -> str:
    """Return the tables as Markdown."""
    sections = [line for name, title in MODE_TITLES.items() for line in _section(name, title)]
    return "\n".join([*_matrix(), *sections])


def _matrix() -> Iterator[str]:
    """Yield a tab for each framework: encodings by columns, and the reasons of known failures."""
    yield from ("## Encodings", "", LEGEND, "", ":::::{tab-set}", ":sync-group: framework", "")
    for framework, title in FRAMEWORKS.items():
        footnotes: list[str] = []
        yield from (f"::::{{tab-item}} {title}", f":sync: {framework}", "", "```{table}", ":class: matrix")
        yield f"| encoding | {' | '.join(COLUMNS)} |"
        yield "|---" * (len(COLUMNS) + 1) + "|"
        yield from _rows(framework, footnotes)
        yield from ("```", "")
        yield from (f"{number}. {reason}" for number, reason in enumerate(footnotes, start=1))
        yield from ("::::", "")
    yield from (":::::", "", "| column | what it is |", "|---|---|")
    yield from (f"| {column} | {meaning} |" for column, meaning in COLUMNS.items())
    yield ""


def _rows(framework: str, footnotes: list[str]) -> Iterator[str]:
    """Yield the row of each encoding in a framework; append the reasons of its known failures."""
    by_encoding: dict[str, list[Case]] = {}
    for case in _all_cases(framework):
        by_encoding.setdefault(case.encoding, []).append(case)
    for encoding in sorted(by_encoding, key=lambda name: (name == "MultiHeadAttention", name)):
        cells = (_cell(framework, by_encoding[encoding], column, footnotes) for column in COLUMNS)
        name = "no encoding" if encoding == "MultiHeadAttention" else f"`{encoding}`"
        yield f"| {name} | {' | '.join(cells)} |"


def _cell(framework: str, of_encoding: list[Case], column: str, footnotes: list[str]) -> str:
    found = [case for case in of_encoding if _is_in(framework, column, case)]
    known = known_failures(framework)
    reasons = [reason for case in found if (reason := case.known_failure(known))]
    footnotes += [reason for reason in dict.fromkeys(reasons) if reason not in footnotes]
    marks = " ".join(str(1 + footnotes.index(reason)).translate(SUPERSCRIPTS) for reason in dict.fromkeys(reasons))
    if not found:
        return "·"
    return f"{'✗' if len(reasons) == len(found) else '✓'}{marks}"


def _is_in(framework: str, column: str, case: Case) -> bool:
    """Return whether a case counts for a column; those in half precision have one of their own."""
    if (column == "half") != (case.dtype in ("float16", "bfloat16")):
        return False
    if column == "half":
        return True
    if column == "gradients":
        return case.check.startswith("gradient")
    return case.check in (MODES_OF[framework].get(column, ()) if case.is_mode else COMMON.get(column, "").split())


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
            root = path.parents[node.level - 1] if node.level else BACKENDS.parent
            source = root / f"{node.module.replace('.', '/')}.py"
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
