import doctest
import importlib
import json
import pkgutil
import re
import subprocess
import sys
from importlib.metadata import metadata, version
from pathlib import Path

import pytest

import posenc_backends
import posenc_core
from posenc_backends import report
from posenc_backends.report import TARGETS

FACES = ["posenc_core", "posenc_core.encodings", "posenc_backends", "posenc_backends.numpy", "posenc_backends.strict"]


@pytest.mark.parametrize("name", FACES)
def test_all_lists_the_public_members(name):
    module = importlib.import_module(name)
    submodules = {found.name for found in pkgutil.iter_modules(module.__path__)}
    public = {member for member in vars(module) if not member.startswith("_")} - submodules
    imports = {"annotations", "import_module", "find_spec", "ModuleType", "Path", "require"}
    assert sorted(module.__all__, key=lambda member: (not member.isupper(), member)) == module.__all__
    assert set(module.__all__) - {"namespace"} == public - (imports - set(module.__all__)) - {"namespace"}


def test_there_is_one_extra_per_room():
    extras = set(metadata("posenc").get_all("Provides-Extra"))
    assert extras - {"plots", "report"} == {*posenc_backends.NAMES, "strict"}
    assert {target.room for target in TARGETS} == {*posenc_backends.NAMES, *posenc_backends.HOST_NAMES}


def test_the_version_is_the_installed_one():
    assert version("posenc") == posenc_core.__version__


@pytest.mark.parametrize("package", [posenc_core, posenc_backends])
def test_the_packages_are_typed_and_their_examples_run(package):
    assert (Path(package.__file__).parent / "py.typed").exists()
    for module in [package, *modules(package)]:
        failed, _ = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
        assert failed == 0, module


def modules(package):
    """The modules of a package that need no framework."""
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not re.match(rf"posenc_backends\.({'|'.join(posenc_backends.NAMES)}|tensorflow|__main__)\b", found.name):
            yield importlib.import_module(found.name)


@pytest.mark.parametrize("name", posenc_backends.NAMES)
def test_a_framework_that_is_not_installed_is_named(name, monkeypatch):
    monkeypatch.setattr(posenc_backends, "find_spec", lambda module: None)
    monkeypatch.setitem(sys.modules, f"posenc_backends.{name}", None)
    monkeypatch.delitem(sys.modules, f"posenc_backends.{name}")
    with pytest.raises(ImportError, match=re.escape(f'is not installed; run `pip install "posenc[{name}]"`.')):
        posenc_backends.load(name)


def test_an_unknown_room_is_answered_with_the_known_ones():
    with pytest.raises(ValueError, match=r"`name` must be one of .*'numpy', 'strict', got 'caffe'"):
        posenc_backends.load("caffe")


def test_importing_the_core_costs_little_more_than_numpy(tmp_path):
    """Counted in modules, which do not depend on how busy the machine is; `benchmarks/` has the seconds."""
    program = "import sys, {0}; print(len(sys.modules))"
    counts = [
        int(subprocess.run([sys.executable, "-c", program.format(name)], stdout=-1, check=True, cwd=tmp_path).stdout)
        for name in ("numpy", "posenc_core")
    ]
    assert counts[1] < 1.5 * counts[0]


def posenc(*arguments, cwd):
    """The command, as a user runs it."""
    command = [sys.executable, "-m", "posenc_backends", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)


def test_the_report_is_complete_with_numpy_alone(tmp_path):
    done = posenc("report", "--json", "report.json", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads((tmp_path / "report.json").read_text())
    kinds = {row["encoding"] for row in rows if row["room"] == "numpy"}
    assert kinds == {
        "Integer", "Normalized", "Binary", "Sine", "Sinusoidal", "Learned", "Rotary", "Alibi", "MultiHeadAttention",
        "AxialRotary", "LearnedRotary", "MultimodalRotary", "XPos",
    }  # fmt: skip
    for target in TARGETS:
        assert target.name in done.stdout
        if target.missing:
            assert f'pip install "{target.missing}"' in done.stdout.replace("\n", "")


def rewritten(tmp_path, source):
    """The report on NumPy alone, after some lines of Python; it runs in a process of its own."""
    program = f"import sys, posenc_backends.report as r; r.TARGETS = r.TARGETS[:1]\n{source}\nsys.exit(r.report(None))"
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=tmp_path)


def test_the_report_tells_failures(tmp_path):
    source = (
        "original = r.run\n"
        "def run(*given):\n"
        "    section = original(*given)\n"
        "    section.results[0] |= {'passed': False, 'worst': 3.0}\n"
        "    return section\n"
        "r.run = run"
    )
    done = rewritten(tmp_path, source)
    assert done.returncode == 1, done.stderr
    assert "table: Integer, dim 2: off by 3, allowed are 0" in done.stdout


def test_the_report_tells_a_crash(tmp_path):
    done = rewritten(tmp_path, "r.sys.executable = '/bin/true'")
    assert done.returncode == 1, done.stderr
    assert "numpy: ended with status 0 after 0 cases" in done.stdout


def test_the_report_says_what_to_install(monkeypatch):
    monkeypatch.setattr(report, "find_spec", lambda module: None if module == "tensorflow" else object())
    missing = {target.name: target.missing for target in TARGETS}
    assert missing.get("keras (tensorflow)", "tensorflow") == "tensorflow"
    assert set(missing.values()) <= {None, "tensorflow"}
    monkeypatch.setattr(report, "find_spec", lambda module: None)
    assert all(target.missing == f"posenc[{target.room}]" for target in TARGETS)


@pytest.mark.parametrize(
    "encoding", ["Sinusoidal(dim=32)", "Binary(dim=3)", "Rotary(head_dim=16, layout='half')", "Alibi(num_heads=4)"]
)
def test_plot_writes_a_picture(encoding, tmp_path):
    done = posenc("plot", encoding, "-o", "picture.png", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("plot", "Sinusoidal", "-o", "x.png"),
            "`encoding` must be written like 'Sinusoidal(dim=32)', got 'Sinusoidal'",
        ),
        (("plot", "Sinus(dim=2)", "-o", "x.png"), "`kind` must be one of Alibi, AxialRotary, Binary"),
        (("plot", "Learned(dim=2, length=4)", "-o", "x.png"), "`encoding` must have a fixed table to draw"),
        (("plot", "Sinusoidal(dim=0)", "-o", "x.png"), "`dim` must be at least 1, got 0."),
        (("plot", "Sinusoidal(dim=4)", "-o", "missing/x.png"), "missing/x.png"),
        (("plot", "Sinusoidal(dim=4)", "--length", "0", "-o", "x.png"), "`length` must be at least 1, got 0."),
        (("report", "--json", "missing/x.json"), "missing/x.json"),
    ],
)
def test_mistakes_on_the_command_line_are_told_in_a_sentence(arguments, message, tmp_path):
    done = posenc(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
