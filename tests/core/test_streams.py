"""Streams and file systems that are not ours: full, closed, not UTF-8, read-only, without locks.

Each command ends with the status that `docs/explanation/trust.md` promises and one sentence; no earlier file is lost.
"""

import errno
import fcntl
import io
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from posenc_backends.check import program
from posenc_backends.check.program import Program
from posenc_backends.check.result import CheckResult
from posenc_backends.cli import check as checking
from posenc_backends.cli.golden import publish
from posenc_backends.cli.main import main
from posenc_core import Rotary

CONFIG = {"model_type": "llama", "head_dim": 8, "num_attention_heads": 1, "hidden_size": 8, "rope_theta": 1e4}
HEADER = {
    f"layers.0.self_attn.{name}.weight": {"dtype": "F32", "shape": [8, 8], "data_offsets": [256 * at, 256 * at + 256]}
    for at, name in enumerate(("q_proj", "k_proj"))
}
PRINTING = {  # each with the status that it has, and with the status if it cannot print
    "--help": (0, 2), "--version": (0, 2), "explain llama": (0, 2), "extend llama --to 256 --trained-length 64": (0, 2),
    "same llama other": (1, 2), "check json:loads": (0, 3), "completion bash": (0, 2), "report --help": (0, 2),
    "relayout in.safetensors out.safetensors --config llama --to interleaved": (0, 2),
}  # fmt: skip
WRITING = [
    "plot Sinusoidal(dim=4) --output x.svg", "explain llama -o x.svg", "explain llama --json x.json",
    "extend llama --to 256 --trained-length 64 -o x.svg", "extend llama --to 256 --trained-length 64 --json x.json",
    "same llama other --json x.json", "check json:loads --json x.json",
]  # fmt: skip


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return the current folder, with two configs, whose model has letters of another alphabet, and a checkpoint."""
    monkeypatch.chdir(tmp_path)
    for name, config in ("llama", CONFIG), ("other", CONFIG | {"rope_theta": 5e5, "旋转": "位置"}):
        Path(name).mkdir()
        Path(name, "config.json").write_text(json.dumps(config), encoding="utf-8")
    header = json.dumps(HEADER).encode()
    Path("in.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(512))
    monkeypatch.setattr("posenc_core.analysis.precision.first_off", lambda *_, **__: None)  # which takes its time
    result = CheckResult(encoding=Rotary(head_dim=2, layout="half"), framework="numpy", form="rotation")
    result = CheckResult(encoding=Rotary(head_dim=2, layout="half"), framework="numpy", form="rotation")
    monkeypatch.setattr(checking, "check", lambda *_, **__: result)
    return tmp_path


class Full(io.RawIOBase):
    """A stream on a disk that is full until its end, when Python flushes what is left."""

    def writable(self):
        return True

    def write(self, data):
        if sys.stdout is self.text or sys.stderr is self.text or getattr(sys.stderr, "_stream", None) is self.text:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return len(data)


def full_stream():
    raw = Full()
    raw.text = io.TextIOWrapper(io.BufferedWriter(raw), encoding="utf-8")
    return raw.text


def status_of(words):
    """Return the exit status of a command."""
    try:
        return main(words.split())
    except SystemExit as end:
        return end.code


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("words", PRINTING)
def test_a_command_that_cannot_print(words, folder, monkeypatch, capsys):
    """A full disk is an error of one sentence; a stream that was closed, or says no word of errors, is none."""
    status, failed = PRINTING[words]
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", full_stream())
        assert status_of(words) == failed
    lines = [line for line in capsys.readouterr().err.splitlines() if os.strerror(errno.ENOSPC) in line]
    assert len(lines) == (words not in ("--help", "--version", "report --help"))
    for name, stream in ("stdout", None), ("stderr", None), ("stderr", full_stream()):
        Path("out.safetensors").unlink(missing_ok=True)
        with monkeypatch.context() as patch:
            patch.setattr(sys, name, stream)
            assert status_of(words) == status
            assert getattr(sys, name) is stream


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("encoding", ["cp1252", "cp936", "latin-1", "ascii"])
def test_a_command_whose_output_is_not_utf_8(encoding, folder, monkeypatch):
    """What the encoding lacks is a question mark, and the status is that of the command."""
    for words, (status, _) in PRINTING.items():
        Path("out.safetensors").unlink(missing_ok=True)
        printed = io.BytesIO()
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", io.TextIOWrapper(printed, encoding=encoding))
            assert status_of(words) == status
            assert len(printed.getvalue().decode(encoding).split()) > 1


@pytest.mark.parametrize("words", WRITING)
def test_a_disk_that_fills_destroys_no_earlier_file(words, folder, monkeypatch, capsys):
    (earlier,) = (Path(word) for word in words.split() if word.startswith("x."))
    earlier.write_text("earlier")

    def fill(self, *_, **__):
        (self if isinstance(self, Path) else _[0]).open("w").close()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", fill)
        patch.setattr(Figure, "savefig", lambda _, path: fill(path))
        assert status_of(words) == (3 if words.startswith("check") else 2)
    assert "x." in capsys.readouterr().err
    with monkeypatch.context() as patch:
        patch.setattr(tempfile, "mkdtemp", lambda *_: (_ for _ in ()).throw(OSError(errno.EROFS, "Read-only")))
        assert status_of(words) == (3 if words.startswith("check") else 2)
    assert "Read-only" in capsys.readouterr().err
    assert earlier.read_text() == "earlier"
    assert {path.name for path in folder.iterdir()} == {"llama", "other", "in.safetensors", earlier.name}
    assert status_of(words) in (0, 1)
    assert earlier.read_text() != "earlier"


def test_golden_vectors_replace_files_whole(tmp_path):
    (tmp_path / "a").write_bytes(b"earlier")
    publish.__globals__["_write"](tmp_path / "a", b"later")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"later"]


def test_a_checkpoint_is_written_where_there_are_no_locks(folder, monkeypatch):
    def without(*_):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(fcntl, "flock", without)
    (folder / ".posenc-relayout-old").mkdir()
    os.utime(folder / ".posenc-relayout-old", (0, 0))
    assert status_of("relayout in.safetensors out.safetensors --config llama --to interleaved") == 0
    assert (folder / ".posenc-relayout-old").exists()  # it may be another run's


@pytest.mark.parametrize(("words", "status"), [("--version", 2), ("check mine:rope", 3)])
def test_a_process_on_a_full_disk_ends_with_its_status(words, status, tmp_path):
    """Python itself would end with 120, for what it could not flush."""
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "posenc_backends", *words.split()]
        buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, env=buffered)
    assert (done.returncode, done.stderr.count("\n") <= 1) == (status, True), done.stderr


def call(code):
    """Return what a program writes."""
    command = (sys.executable, "-c", code)
    return Program(command=command, encoding=Rotary(head_dim=2, layout="half"), form="turn", raw=True)._run([], b"")


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_program_that_floods_is_ended(stream, monkeypatch):
    monkeypatch.setattr(program, "MOST_BYTES", 2**16)
    with pytest.raises(RuntimeError, match="more than 65536 bytes"):
        call(f"import sys\nwhile True: sys.{stream}.write('x' * 4096)")


def test_what_a_program_started_ends_with_it():
    """The process that it leaves behind holds its output, whose end is waited for."""
    assert call("import subprocess\nsubprocess.Popen(['sleep', '3600'])\nprint('done', end='')") == b"done"
