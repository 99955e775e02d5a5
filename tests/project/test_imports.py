"""Folders import downwards, the core names no framework, and a backend names no other backend."""

import ast
import importlib
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import posenc_backends
import posenc_core

CORE = Path(posenc_core.__file__).parent
BACKENDS = Path(posenc_backends.__file__).parent
FRAMEWORKS = {*posenc_backends.NAMES, "tensorflow", "flax"}
COMPANIONS = {"flax": "jax"}  # a library on a framework: its modules lie in the framework's folder
CORE_LAYERS = [  # lowest first: each imports from itself and from those before it
    "_lazy", "_requirement", "_foreign_names", "_array_api", "_calls", "_values", "positions", "tables", "scaling",
    "rotation", "normalization", "addition", "attention",
    "encodings", "layers", "weights", "formats", "huggingface", "analysis", "transformer",
]  # fmt: skip
BACKEND_LAYERS = [  # likewise; the adapters stand on one level, and name each other only where `NEIGHBOURS` says so
    "_kernels", "adapters", "training", "conformance", "check", "cli",
]  # fmt: skip
ADAPTERS = [*posenc_backends.HOST_NAMES, *posenc_backends.NAMES, "tensorflow"]
NEIGHBOURS = {("strict", "numpy"), ("keras", "tensorflow"), ("keras", "torch"), ("keras", "jax")}

BACK = {  # an entry of a folder that imports one that imports it, with the reason
    (CORE / "huggingface" / "facts", CORE / "huggingface" / "config.py"):
        "A kind of fact reads its sizes with the checks of a config; the config knows its model's record.",
}  # fmt: skip


def imported(path):
    """Return the modules that a file imports, absolute, at its top or inside a function."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = path.relative_to(CORE.parent).parts[: -node.level] if node.level else ()
            module = ".".join((*base, *([node.module] if node.module else ())))
            yield from [module] if node.module else [f"{module}.{alias.name}" for alias in node.names]


def part(path_or_module, package):
    """Return the folder or the module directly below a package that a path or a dotted name belongs to."""
    if isinstance(path_or_module, Path):
        return path_or_module.relative_to(package).parts[0].removesuffix(".py")
    _, _, rest = path_or_module.partition(".")
    return rest.partition(".")[0]


@pytest.mark.parametrize("path", sorted(CORE.rglob("*.py")), ids=lambda path: str(path.relative_to(CORE)))
def test_the_core_imports_downwards_and_no_framework(path):
    for module in imported(path):
        assert module.split(".")[0] not in FRAMEWORKS | {"posenc_backends"}, module
        if module.startswith("posenc_core.") and path != CORE / "__init__.py":
            here, there = part(path, CORE), part(module, CORE)
            assert CORE_LAYERS.index(there) <= CORE_LAYERS.index(here), f"{here} must not import {module}"


@pytest.mark.parametrize("path", sorted(BACKENDS.rglob("*.py")), ids=lambda path: str(path.relative_to(BACKENDS)))
def test_backends_import_downwards_and_no_other_backend(path):
    here = part(path, BACKENDS)
    for module in imported(path):
        framework = module.split(".")[0]
        if here in ADAPTERS and framework in FRAMEWORKS:
            assert COMPANIONS.get(framework, framework) == here, module
        there = part(module, BACKENDS) if module.startswith("posenc_backends.") else ""
        if there and here not in ("__init__", "__main__"):
            if here in ADAPTERS and there in ADAPTERS:
                assert here == there or (here, there) in NEIGHBOURS, module
            else:
                above, below = (BACKEND_LAYERS.index("adapters" if x in ADAPTERS else x) for x in (here, there))
                assert below <= above, f"{here} must not import {module}"


def test_a_backend_is_one_folder_one_file_of_the_suite_one_extra_and_one_constraints_file():
    names = {*posenc_backends.NAMES, *posenc_backends.HOST_NAMES}
    folders = {name for name in ADAPTERS if (BACKENDS / name).is_dir() or (BACKENDS / f"{name}.py").is_file()}
    assert folders == names | {"tensorflow"}
    files = {path.stem for path in (BACKENDS / "conformance" / "frameworks").glob("*.py")}
    assert files >= names | {"tensorflow"}
    constraints = {path.stem for path in (Path(__file__).parents[2] / "constraints").glob("*.txt")}
    assert constraints >= set(posenc_backends.NAMES)


@pytest.mark.parametrize("package", ["posenc_core", "posenc_backends", "posenc_backends.__main__"])
def test_importing_loads_no_framework(package, tmp_path):
    program = f"import sys, {package}; print(*sorted(set({sorted(FRAMEWORKS)}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.strip() == ""


LAZY = [path for path in sorted(CORE.rglob("__init__.py")) if "attach(" in path.read_text(encoding="utf-8")]


def typed_names(package):
    """Return the module of each name that type checkers find in a package whose modules are imported lazily."""
    module_of = {}
    for node in ast.walk(ast.parse(Path(package.__file__).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            home = importlib.import_module(f"{'.' * node.level}{node.module or ''}", package.__name__)
            starred = [alias.name for alias in node.names] == ["*"]
            names = typed_names(home) if starred else [alias.asname for alias in node.names if alias.asname]
            module_of |= dict.fromkeys(names, home.__name__)
    return module_of


@pytest.mark.parametrize("path", LAZY, ids=lambda path: path.parent.name)
def test_names_are_imported_from_where_types_say(path):
    package = importlib.import_module(".".join(path.parent.relative_to(CORE.parent).parts))
    module_of = typed_names(package)
    assert sorted(module_of) == sorted(package.__all__) == sorted(set(package.__all__) & set(dir(package)))
    for public, home in module_of.items():
        assert getattr(package, public) is getattr(importlib.import_module(home), public)
    with pytest.raises(AttributeError, match=f"^module '{package.__name__}' has no attribute 'rotat'$"):
        _ = package.rotat


FOLDERS = {"encodings", "encodings.additive", "encodings.rotary", "encodings.scoring"}
OF_ROTARY = "encodings.base encodings.attention_encoding encodings.rotary.base encodings.rotary.caches"
LOWER = {*CORE_LAYERS[: CORE_LAYERS.index("encodings")]} - {"scaling"}  # which hold few classes


@pytest.mark.parametrize(
    ("statement", "needed", "unneeded"),
    [
        ("import posenc_core", FOLDERS, {"numpy"}),
        (
            "from posenc_core import Rotary",
            FOLDERS | {*OF_ROTARY.split(), "encodings.rotary.rotary", "scaling", "scaling.base", "scaling.ntk"},
            {"array_api_compat.numpy", "numpy.f2py", "numpy.testing"},  # which take longer than all the others
        ),
    ],
)
def test_a_name_imports_what_it_needs(statement, needed, unneeded, tmp_path):
    program = f"{statement}; import sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path)
    modules = {*done.stdout.split()}
    ours = {name.removeprefix("posenc_core.") for name in modules if name.startswith("posenc_core.")}
    assert {name for name in ours if name.partition(".")[0] not in LOWER} == needed
    assert not unneeded & modules


def test_a_text_of_an_encoding_imports_its_class(tmp_path):
    program = "from posenc_core.encodings.notation import parse; print(parse('Alibi(num_heads=1)').bias([1], [0]))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.strip() == "[[[-0.00390625]]]"


@pytest.mark.parametrize("package", [CORE, BACKENDS], ids=lambda path: path.name)
def test_no_two_files_import_each_other(package):
    """Not for types, not inside of functions, not by way of others; `__init__.py` only passes names on."""
    files = {path for path in package.rglob("*.py") if path.name not in ("__init__.py", "__main__.py")}
    graph = {path: set(imported_files(path)) & files - {path} for path in files}
    TopologicalSorter(graph).prepare()  # raises if there is a circle


@pytest.mark.parametrize("package", [CORE, BACKENDS], ids=lambda path: path.name)
def test_no_two_entries_of_a_folder_import_each_other(package):
    """Files and folders in one folder, at any depth, such as those of `posenc_backends/torch`."""
    files = {*package.rglob("*.py")}
    pairs = [(path, other) for path in files for other in imported_files(path) if other in files]
    for folder in sorted({path.parent for path in files}):
        graph = {}
        for path, other in pairs:
            if folder in path.parents and folder in other.parents and folder / "__init__.py" not in (path, other):
                here, there = (folder / each.relative_to(folder).parts[0] for each in (path, other))
                if here != there and (here, there) not in BACK:
                    graph.setdefault(here, set()).add(there)
        TopologicalSorter(graph).prepare()


def imported_files(path):
    """Yield the files that a file imports, inside of functions too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            base = path.parents[node.level - 1] if node.level else CORE.parent
            folder = base.joinpath(*(node.module or "").split("."))
            yield from [folder.with_suffix(".py"), *(folder / f"{alias.name}.py" for alias in node.names)]


def test_a_framework_without_this_python_says_which_it_needs():
    with pytest.raises(ImportError, match=r"^`nothing` needs Python 3\.2 or older, this is Python 3\.\d+\.$"):
        posenc_backends.require("nothing", newest=(3, 2))
