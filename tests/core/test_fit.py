"""What the command prints of a long answer."""

import pytest

from posenc_backends.cli.fit import fit_screen


@pytest.mark.parametrize(
    ("entries", "shown"),
    [
        (["a"], ["a"]),
        (["a"] * 10, ["a"] * 10),
        (["a"] * 11, ["a"] * 9 + ["  … 2 more lines with -v"]),
        (["a" * 81] * 6, ["a" * 81] * 4 + ["  … 2 more lines with -v"]),
        (["a" * 801, "b"], ["a" * 801, "  … 1 more line with -v"]),
        (["a", "b\n" * 8 + "b", "c"], ["a", "  … 10 more lines with -v"]),
        (["a", "b", "\n".join("c" * 9)], ["a", "b", "  … 9 more lines with -v"]),
    ],
)
def test_ten_lines_are_shown(entries, shown):
    assert fit_screen(entries).splitlines() == shown
    assert fit_screen(entries, verbose=True) == "\n".join(entries)
