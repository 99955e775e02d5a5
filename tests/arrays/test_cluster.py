"""A local cluster of two workers: what is larger than any block is written, and never in memory at once."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROWS, COLUMNS, ENTRIES = 2_000_000, 16, 2**18
SCRIPT = Path(__file__).parents[2] / "benchmarks" / "blocks.py"


@pytest.fixture(scope="module")
def measured():
    """Return the results of the benchmark at a small size; a separate process measures its own memory."""
    command = [sys.executable, SCRIPT, *map(str, (ROWS, COLUMNS, ENTRIES))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", ["table", "rotation"])
def test_it_is_written_block_by_block_and_is_numpys(measured, name):
    assert (measured[name]["shape"], measured[name]["bytes"]) == ([ROWS, COLUMNS], 4 * ROWS * COLUMNS)
    assert measured[name]["blocks"] >= ROWS * COLUMNS / ENTRIES
    assert measured[name]["equal to NumPy's"]


def test_no_process_has_a_quarter_of_it_in_memory(measured):
    quarter = ROWS * COLUMNS / 2**20  # MiB
    for name in ("table", "rotation"):
        assert max(measured[name]["peak of each worker over before, MiB"]) < quarter
    assert measured["peak of this process over before, MiB"] < quarter
