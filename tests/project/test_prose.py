"""Check that the prose linter, which `nox -s lint` runs on all pages and docstrings, finds what it is for."""

import pytest

from .. import prose

BAD = {
    "A room per framework.": "backend",
    "The layer is told its length.": "given",
    "The five wishes.": "property",
    "What a layer has learned is saved.": "name the subject",
    "It loads. What is missing is computed.": "name the subject",
    "Who reports one of them reports half.": "name the subject",
    "Masks are checked, too.": "also",
    "A list is no array.": "is not a",
    "Models were trained so.": "end with",
    "It returns the the table.": "twice",
    "It is quite unique.": "unique",  # proselint's own
}
GOOD = """# What works where

What is a position? There is no other way to say it; if so, do so.

It is no longer "told", see `rooms` and $gaps$, and [the page](house.md).

```python
rooms = 1  # What holds the rungs.
```
"""


def write(folder, name, text):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("sentence", BAD)
def test_bad_sentences_are_found(tmp_path, sentence):
    around = {
        "paragraph.md": f"Some words first\nof all. {sentence}\n",
        "item.md": f"Some words\n\n* {sentence}\n",
        "cell.md": f"| a | b |\n|---|---|\n| {sentence} | 1 |\n",
        "tab.md": f":::{{note}}\nWords.\n\n{sentence}\n:::\n",
        "docstring.py": f'def f():\n    """Return words.\n\n    {sentence}\n    """\n',
        "message.py": f"def f(x):\n    raise ValueError(f'Some words, got {{x}}. {sentence}')\n",
    }
    for name, text in around.items():
        findings = prose.check(write(tmp_path, name, text))
        assert [BAD[sentence] in finding for finding in findings] == [True], (name, findings)


def test_the_line_is_named(tmp_path):
    path = write(tmp_path, "page.md", "One line\n\nTwo lines\nwith a room.\n")
    assert prose.check(path) == [f"{path}:4: say 'backend', not 'room'"]
    path = write(tmp_path, "module.py", 'x = 1\n\n\ndef f():\n    """Return it.\n\n    In a room.\n    """\n')
    assert prose.check(path) == [f"{path}:7: say 'backend', not 'room'"]


def test_plain_english_code_and_quotations_pass(tmp_path):
    assert prose.check(write(tmp_path, "page.md", GOOD)) == []


def test_the_program_fails_on_a_finding(tmp_path, monkeypatch, capsys):
    for sentence, status in (("In a room.", 1), ("In a backend.", 0)):
        monkeypatch.setattr("sys.argv", ["prose", str(write(tmp_path, "page.md", sentence))])
        assert prose.main() == status
        assert bool(capsys.readouterr().out) == bool(status)


def test_all_pages_and_modules_are_read():
    names = {path.relative_to(prose.ROOT).as_posix() for path in prose.files()}
    assert {"README.md", "CHANGELOG.md", "docs/index.md", "docs/tutorial/order.md", "posenc_core/rotation.py"} <= names
