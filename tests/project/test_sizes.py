"""Files stay short enough to read: one topic, 400 lines at most. Functions are held by ruff's complexity rules."""

from pathlib import Path

import pytest

import posenc_backends
import posenc_core

FILES = [path for package in (posenc_core, posenc_backends) for path in Path(package.__file__).parent.rglob("*.py")]


@pytest.mark.parametrize("path", FILES, ids=lambda path: "/".join(path.parts[-2:]))
def test_files_have_400_lines_at_most(path):
    assert path.read_text(encoding="utf-8").count("\n") <= 400
