"""Imports go down: roof, catalogue, stages, ground. The core names no framework, a room no other room."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import posenc_backends
import posenc_core

CORE = Path(posenc_core.__file__).parent
BACKENDS = Path(posenc_backends.__file__).parent
FRAMEWORKS = {"torch", "tensorflow", "keras", "paddle", "mxnet", "jax", "flax"}
GROUND = {
    "_arrays", "_blocked", "_blocks", "_checks", "_drafts", "_exact", "_kernels", "_softmax", "_sums_of_angles", "_values",
}  # fmt: skip
STAGES = {
    "positions", "grids", "frequencies", "scaling", "angles", "tables", "sums", "resampling", "addition", "rotation", "bias", "buckets", "relative", "masks",
    "attention",
}  # fmt: skip
ROOF = {
    "holder", "lookup", "layers", "notation", "huggingface", "weights", "resizing", "pairs", "precision", "explanation", "plots", "curves",
    "architecture", "placing", "writing", "transformer", "decoding", "tasks", "attention_plot", "blockwise",
}  # fmt: skip
FLOORS = [GROUND, STAGES, {"encodings"}, ROOF]
NEIGHBOURS = {("strict", "numpy"), ("keras", "tensorflow"), ("keras", "torch"), ("keras", "jax")}
BESIDE = {("flax", "jax", "modes.py")}  # in whose models layers are tried, if it is there
NO_ROOMS = {"explorer", "kernels", "verdict"}  # shared by rooms, or apart from them
FOLDERS = {path.name for path in BACKENDS.iterdir() if path.is_dir() and (path / "__init__.py").exists()}
ROOMS = sorted(FOLDERS - NO_ROOMS)


def imported(path):
    """The modules that a file imports, absolute, whether at its top or inside a function."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from relative(path, node) if node.level else [node.module]


def relative(path, node):
    """The modules of a relative import: `from .. import a` names them, `from ..a import b` is one."""
    root = CORE.parent
    base = path.relative_to(root).parts[: -node.level]
    names = [node.module] if node.module else [alias.name for alias in node.names]
    return [".".join((*base, name)) for name in names]


def floor(module):
    """How high a module of the core lies, and its name there."""
    name = module.split(".")[1]
    return next(number for number, names in enumerate(FLOORS) if name in names), name


@pytest.mark.parametrize("path", sorted(CORE.rglob("*.py")), ids=lambda path: str(path.relative_to(CORE)))
def test_the_core_imports_downwards_and_no_framework(path):
    for module in imported(path):
        assert module.split(".")[0] not in FRAMEWORKS | {"posenc_backends"}, module
        if module.startswith("posenc_core.") and path.name != "__init__.py":
            here = floor(".".join(("posenc_core", path.relative_to(CORE).parts[0].removesuffix(".py"))))
            there = floor(module)
            allowed = there[0] < here[0] or here == there or (there[0] == here[0] and here[0] != 1)
            assert allowed, f"{here[1]} must not import {module}"


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_the_core_and_its_framework_only(room):
    for path in sorted((BACKENDS / room).rglob("*.py")):
        for module in imported(path):
            parts = module.split(".")
            if parts[0] in FRAMEWORKS:
                assert parts[0] == room or (parts[0], room, path.name) in BESIDE, f"{path}: {module}"
            if parts[0] == "posenc_backends" and len(parts) > 1 and parts[1] in ROOMS:
                assert parts[1] == room or (room, parts[1]) in NEIGHBOURS, f"{path}: {module}"


def test_all_rooms_have_the_same_files():
    for room in set(ROOMS) - {"tensorflow"}:
        files = {path.name for path in (BACKENDS / room).glob("*.py")}
        assert files >= {
            "__init__.py",
            "arrays.py",
            "layers.py",
            "attention.py",
            "harness.py",
            "modes.py",
            "gaps.py",
        }, room


def test_all_rooms_define_the_same_layers_in_the_same_order():
    files = {"layers": ["PositionalEncoding", "RotaryEmbedding", "AttentionBias"], "attention": ["MultiHeadAttention"]}
    for room in set(ROOMS) - {"tensorflow"}:
        for file, wanted in files.items():
            tree = ast.parse((BACKENDS / room / f"{file}.py").read_text(encoding="utf-8"))
            assert [
                node.name for node in tree.body if isinstance(node, ast.ClassDef) and node.name in wanted
            ] == wanted, room


@pytest.mark.parametrize("package", ["posenc_core", "posenc_backends", "posenc_backends.__main__"])
def test_importing_loads_no_framework(package, tmp_path):
    program = f"import sys, {package}; print(*sorted(set({sorted(FRAMEWORKS)}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.strip() == ""


def test_names_are_imported_from_where_types_say(tmp_path):
    """All of them, none twice, and nothing before it is asked for."""
    tree = ast.parse((CORE / "__init__.py").read_text(encoding="utf-8"))
    typed = {
        node.module: [alias.name for alias in node.names] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)
    }
    homes = {home: names.split() for home, names in posenc_core._HOMES.items()}
    assert homes == {home: names for home, names in typed.items() if home not in ("importlib", "typing")}
    assert sorted(name for names in homes.values() for name in names) == sorted(posenc_core.__all__)
    for home, names in homes.items():
        module = importlib.import_module(f"posenc_core.{home}")
        assert [getattr(posenc_core, name) for name in names] == [getattr(module, name) for name in names]
    program = "import sys, posenc_core; print('numpy' in sys.modules, 'Rotary' in dir(posenc_core)); posenc_core.rotat"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.stdout.strip() == "False True"
    assert "module 'posenc_core' has no attribute 'rotat'" in done.stderr
