"""What `benchmarks/architecture.py` counts: functions that are entered, lines of code, entries of a folder."""

import sys
from pathlib import Path

import pytest

from posenc_core import sequence

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
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


def test_lines_of_code_leave_out_docstrings_comments_and_blanks():
    from counting import code_lines

    assert code_lines(SOURCE) == 1 + 1 + 2 + 4 + 1
    assert code_lines('"""Nothing."""\n') == 0
    assert code_lines('x = 1; "not a docstring"\n') == 1


def test_the_adapter_that_is_the_model_of_a_new_one_stays_thin():
    from counting import code_lines, folder_of

    sources = (folder_of("posenc_backends") / "mlx").rglob("*.py")
    assert 100 < sum(code_lines(path.read_text(encoding="utf-8")) for path in sources) <= 320


def test_bodies_are_as_long_as_what_follows_the_docstring():
    from counting import body_lengths

    assert sorted(body_lengths(SOURCE)) == [0, 3]


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


def test_lines_of_both_packages_are_told():
    from counting import lines

    told = lines()
    assert set(told) == {"posenc_core", "posenc_backends"}
    for one in told.values():
        assert one["code lines"] == sum(one["code lines by part"].values())
        assert one["median body"] <= one["longest body"]
