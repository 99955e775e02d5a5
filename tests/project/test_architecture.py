"""What `benchmarks/architecture.py` counts: functions that are entered, lines of code, entries of a folder."""

import sys
from pathlib import Path

import pytest

from posenc_core import sequence

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
# The most that there may be: what was counted last. Lower a number with the commit that makes it smaller.
MOST_CODE = 36_866  # lines of both packages without docstrings, comments and blank lines
MOST_TESTS = 51_170  # likewise
MOST_ANY = 0.55  # in `posenc_core/layers`, for each function
MOST_CIRCLES = 0  # groups of files that import each other
FORMAT = "a format has keys of its own for each family, and none for the others"
CHECKS = {  # how many checks of concrete encodings a file has outside of `posenc_core/encodings`, and why
    "posenc_core/analysis/causes.py": (3, FORMAT),
    "posenc_core/formats/export.py": (2, FORMAT),
    "posenc_core/huggingface/export.py": (2, FORMAT),
    "posenc_core/huggingface/posenc_type.py": (2, FORMAT),
    "posenc_core/weights/rotary.py": (1, "the matrices of FoPE"),
}
SOURCE = '''"""A module."""

import sys  # a comment


class Thing:
    """A class.

    With more to say.
    """

    text = """a string

    on three lines"""

    def method(self):
        "A function."
        return [
            1,
        ]

    def documented(self):
        """Does nothing."""
'''


@pytest.fixture(autouse=True)
def modules(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))


@pytest.fixture(scope="module")
def found():
    """What is counted of our packages."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        from counting import structure

        return structure()


@pytest.fixture
def write(tmp_path):
    """A function that writes a file of Python below a folder `package`, and returns it as `counting` sees it."""
    from counting import File

    def write(text, place="package/module.py"):
        path = tmp_path / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return File(path, place)

    return write


def test_lines_of_code_leave_out_docstrings_comments_and_blanks(write):
    assert write(SOURCE).code_lines == 1 + 1 + 2 + 4 + 1
    assert write('"""Nothing."""\n').code_lines == 0
    assert write('x = 1; "not a docstring"\n').code_lines == 1
    assert write('x = """\n# no comment\n\n"""\n# a comment\n').code_lines == 3


def test_bodies_are_as_long_as_what_follows_the_docstring(write):
    assert sorted(write(SOURCE).body_lengths) == [0, 3]


def test_checks_of_concrete_encodings_are_found(write):
    from counting import class_checks

    source = write(
        "KINDS = (Alibi, T5Bias)\n"
        "def f(x):\n"
        "    if isinstance(x, (Rotary, int)) or type(x) is encodings.XPos or issubclass(x, KINDS): return\n"
        "    match x:\n"
        "        case PoPE(): return isinstance(x, Scoring)\n"
    )
    wanted = [{"Alibi", "T5Bias"}, {"PoPE"}, {"Rotary"}, {"XPos"}]
    assert sorted(sorted(names) for _, names in class_checks([source])) == sorted(map(sorted, wanted))
    assert list(class_checks([write("isinstance(x, Rotary)", "posenc_core/encodings/rotary/module.py")])) == []


def test_files_that_import_each_other_are_a_circle(write):
    from counting import circles

    texts = {
        "a": "from .b import x",
        "b": "def f():\n    from package.c import x",
        "c": "from . import a, d",
        "d": "if TYPE_CHECKING:\n    from .a import x",
    }
    sources = [write(text, f"package/{name}.py") for name, text in texts.items()]
    assert circles(sources) == [["package/a.py", "package/b.py", "package/c.py"]]


def test_the_adapter_that_is_the_model_of_a_new_one_stays_thin(found):
    assert 100 < found["folders"]["posenc_backends/mlx/"]["code lines"] <= 320


def test_the_code_stays_small(found):
    assert sum(package["code lines"] for package in found["packages"].values()) <= MOST_CODE
    assert 20_000 < found["code lines of tests"] <= MOST_TESTS


def test_each_check_of_the_class_of_an_encoding_has_a_reason(found):
    """Ask an encoding for a property instead, or say here why only its class can answer."""
    assert found["checks by file"] == {place: count for place, (count, _) in CHECKS.items()}


def test_the_types_of_layers_are_known(found):
    assert found["folders"]["posenc_core/layers/"]["Any per function"] <= MOST_ANY


def test_few_files_import_each_other(found):
    """Not by way of imports inside of functions either, but where the names of commands are completed."""
    assert len(found["circles of imports"]) <= MOST_CIRCLES, found["circles of imports"]


def test_functions_of_ours_are_counted_and_others_beside():
    from call_path import count_calls

    def call():
        return [sequence(number) for number in range(2)]

    def generated():
        yield from (1, 2, 3)

    found = count_calls(call)
    assert found["functions"] >= 1
    assert found["calls"] == sum(found["calls by file"].values()) < found["calls, all packages"]
    assert found["files"] == len(found["calls by file"]) <= found["changes of file"] + 1
    assert count_calls(lambda: list(generated())) == {
        "calls": 0,
        "calls, all packages": 2,
        "functions": 0,
        "files": 0,
        "changes of file": 0,
        "calls by file": {},
    }
    assert sys.getprofile() is None


def test_entries_are_files_and_folders_that_hold_some(tmp_path):
    from counting import is_entry

    for name in ("__init__.py", "py.typed", "part/module.py", "left/__pycache__/module.pyc"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("", encoding="utf-8")
    entries = [path.name for path in tmp_path.iterdir() if is_entry(path)]
    assert sorted(entries) == ["__init__.py", "part"]


def test_folders_hold_all_code(found):
    packages = [package["code lines"] for package in found["packages"].values()]
    assert sum(packages) == sum(folder["code lines"] for folder in found["folders"].values()) > 20_000
    assert all(package["median body"] <= package["longest body"] for package in found["packages"].values())
