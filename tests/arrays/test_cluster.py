"""A local cluster of two workers: what is larger than any block is written, and never held."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROWS, COLUMNS, ENTRIES = 2_000_000, 16, 2**18
SCRIPT = Path(__file__).parents[2] / "benchmarks" / "blocks.py"


@pytest.fixture(scope="module")
def told():
    """What the benchmark tells at a small size; a process of its own tells its own memory."""
    command = [sys.executable, SCRIPT, *map(str, (ROWS, COLUMNS, ENTRIES))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", ["table", "rotation"])
def test_it_is_written_block_by_block_and_is_numpys(told, name):
    assert (told[name]["shape"], told[name]["bytes"]) == ([ROWS, COLUMNS], 4 * ROWS * COLUMNS)
    assert told[name]["blocks"] >= ROWS * COLUMNS / ENTRIES
    assert told[name]["equal to NumPy's"]


def test_nobody_held_a_quarter_of_it(told):
    quarter = ROWS * COLUMNS / 2**20  # MiB
    for name in ("table", "rotation"):
        assert max(told[name]["peak of each worker over before, MiB"]) < quarter
    assert told["peak of this process over before, MiB"] < quarter
