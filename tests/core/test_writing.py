"""Tables written block by block: the same bytes, in little memory."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from posenc_core import Alibi, Binary, Learned, Rotary, Sinusoidal, XPos, write_tables
from posenc_core.encodings import write as writing


class Chunked:
    """What zarr's arrays look like: written in slices, some rows at a time."""

    dtype = np.dtype("float32")

    def __init__(self, shape, chunk):
        self.shape, self.chunks, self.made, self.cuts = shape, (chunk, shape[1]), np.zeros(shape, np.float32), []

    def __setitem__(self, rows, block):
        self.made[rows] = block
        self.cuts.append((rows.start, len(block)))


@pytest.fixture
def small(monkeypatch):
    """Blocks of 300 rows of 7."""
    monkeypatch.setattr(writing, "_BLOCK", 2100)


def test_blocks_are_the_rows_of_the_table(small, tmp_path):
    encoding = Sinusoidal(dim=7)
    out = np.lib.format.open_memmap(tmp_path / "table.npy", "w+", np.float32, (1000, 7))
    write_tables(encoding, out, start=2**20)
    out.flush()
    np.testing.assert_array_equal(np.load(tmp_path / "table.npy"), encoding.table(np.arange(2**20, 2**20 + 1000)))


def test_whole_chunks_are_written(small):
    out = Chunked((1000, 7), chunk=120)
    write_tables(Sinusoidal(dim=7), out)
    assert out.cuts == [(0, 240), (240, 240), (480, 240), (720, 240), (960, 40)]
    np.testing.assert_array_equal(out.made, Sinusoidal(dim=7).table(range(1000)))


@pytest.mark.parametrize("encoding", [Rotary(head_dim=6, layout="half"), XPos(head_dim=6, layout="half")])
def test_every_table_has_its_array(small, encoding):
    rows = encoding.rows(np.arange(-500, 500))
    out = [np.zeros((1000, 3), np.float32) for _ in rows]
    write_tables(encoding, *out, start=-500)
    for table, wanted in zip(out, rows.values(), strict=True):
        np.testing.assert_array_equal(table, wanted)


def test_no_rows():
    write_tables(Sinusoidal(dim=2), np.empty((0, 2), np.float32))


HALF, FULL = np.empty((4, 3), np.float32), np.empty((4, 6), np.float32)
SIX = Rotary(head_dim=6, layout="half")


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: write_tables(SIX, HALF), ValueError, "must be 2 arrays, got 1."),
        (lambda: write_tables(SIX, HALF, FULL), ValueError, r"`out` must have shape \(4, 3\), got \(4, 6\)."),
        (lambda: write_tables(SIX, HALF, HALF[:3]), ValueError, r"`out` must have shape \(4, 3\), got \(3, 3\)."),
        (lambda: write_tables(SIX, FULL[:, :3], FULL[:, 2:5]), ValueError, "`out` must be arrays that do not overlap"),
        (lambda: write_tables(SIX, HALF, HALF.astype("f2")), TypeError, "`out` must be float32, got float16; round"),
        (lambda: write_tables(SIX, HALF, HALF, start=2**31 - 3), ValueError, "below 2"),
        (lambda: write_tables(Binary(dim=6), FULL, start=62), ValueError, "must lie from 0 to 63, got 65"),
        (lambda: write_tables(Binary(dim=6), FULL, start=1.5), TypeError, "`start` must be an integer, got 1.5."),
        (
            lambda: write_tables(Learned(dim=6, length=9), FULL),
            TypeError,
            "must have a table that is fixed, got Learned",
        ),
        (lambda: write_tables(Alibi(num_heads=2), FULL), TypeError, "`encoding` must be additive or rotary, got Alibi"),
    ],
)
def test_bad_calls(call, error, message):
    HALF[...] = FULL[...] = 7
    with pytest.raises(error, match=message):
        call()
    assert (HALF == 7).all()
    assert (FULL == 7).all()


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="tells its memory elsewhere")
def test_ten_million_rows_are_written_in_little_memory(tmp_path):
    """Measure peak memory beside the mapped file, which can be given back at any time, while 305 MiB are written."""
    program = (
        "import numpy as np\n"
        "from posenc_core import Sinusoidal, write_tables\n"
        "def own():\n"
        "    line = next(line for line in open('/proc/self/status') if line.startswith('RssAnon'))\n"
        "    return int(line.split()[1])\n"
        "encoding, most, before = Sinusoidal(dim=8), 0, own()\n"
        "rows = type(encoding).rows\n"
        "def watched(self, positions):\n"
        "    global most\n"
        "    made = rows(self, positions)\n"
        "    most = max(most, own())\n"
        "    return made\n"
        "type(encoding).rows = watched\n"
        "out = np.lib.format.open_memmap('table.npy', 'w+', np.float32, (10_000_000, 8))\n"
        "write_tables(encoding, out)\n"
        "print((most - before) // 1024)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert int(done.stdout) < 64
