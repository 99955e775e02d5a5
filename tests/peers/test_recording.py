"""The configs in `tests/core/published` are those of the installed libraries."""

import pytest

from .recording import FOLDER, files

FILES = files()


@pytest.mark.parametrize("name", FILES)
def test_recorded_configs_are_current(name):
    """Where it fails: `python -m tests.peers.recording`, then read the changes."""
    assert (FOLDER / name).read_text(encoding="utf-8") == FILES[name]
