"""`posenc relayout` and hostile files: no header costs more than reading it, nothing waits, nothing is left behind."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from posenc_backends.cli.main import main
from posenc_backends.cli.relayout import checkpoint
from posenc_backends.cli.relayout.checkpoint import relayout_checkpoint
from posenc_core.formats import safetensors
from posenc_core.formats.safetensors import read_header, read_shards

from ..errors import rejects
from .test_checkpoint import HELIUM, layer, save

LONG = 10**4000


def written(path, header, data=b""):
    """Write a safetensors file with this header."""
    content = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(content).to_bytes(8, "little") + content + data)
    return path


class Size(int):
    """A size of a tensor that lets itself be multiplied with one that fits the file, and with no other."""

    def __mul__(self, other):
        assert int(other) < 2**64, "a product was multiplied further"
        return Size(int(self) * int(other))

    __rmul__ = __mul__


@pytest.mark.parametrize("dtype", ["F32", "I64"])
def test_sizes_are_not_multiplied_further_than_the_file_goes(dtype, tmp_path, monkeypatch):
    """The product of 2,000 sizes of 4,000 digits takes over a minute."""

    class Tensor(safetensors.Tensor):
        def __new__(cls, name, dtype, shape, *bounds):
            return super().__new__(cls, name, dtype, tuple(map(Size, shape)), *bounds)

    monkeypatch.setattr(safetensors, "Tensor", Tensor)
    number = "9" * 4000
    entry = f'"dtype": "{dtype}", "shape": [{",".join([number] * 2000)}], "data_offsets": [0, 0]'
    source = written(tmp_path / "in", f'{{"self_attn.q_proj.weight": {{{entry}}}}}'.encode())
    with pytest.raises(ValueError, match=r"is quantized|do not fill") as raised:
        relayout_checkpoint(source, tmp_path / "out", config=HELIUM, to="half")
    assert len(str(raised.value)) < 1000


@pytest.mark.parametrize(
    ("shape", "size", "fits"),
    [
        ([2, 2], 16, True),
        ([0, LONG], 0, True),
        ([0, 3], 4, False),
        ([], 4, True),
        ([LONG, 0], 0, True),
        ([5], 16, False),
    ],
)
def test_shapes_fill_their_bytes(shape, size, fits, tmp_path):
    sys.set_int_max_str_digits(0)
    entry = {"dtype": "F32", "shape": shape, "data_offsets": [0, size]}
    try:
        source = written(tmp_path / "in", {"a": entry}, bytes(size))
    finally:
        sys.set_int_max_str_digits(4300)
    if fits:
        assert [tensor.name for tensor in read_header(source)] == ["a"]
    else:
        with pytest.raises(ValueError, match="do not fill"):
            read_header(source)


@pytest.mark.parametrize(
    "text",
    [
        '{"a":' * 10**5,
        '{"weight_map": {"a": "../b"}}',
        '{"weight_map": {"a": ""}}',
        '{"weight_map": {"a": "\\u0000"}}',
        "[]",
    ],
)
def test_an_index_that_is_none_is_refused(text, tmp_path):
    source = tmp_path / "model.index.json"
    source.write_text(text)
    with rejects(ValueError, "source", str(source)):
        read_shards(source)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no FIFOs in folders.")
@pytest.mark.parametrize("name", ["in.safetensors", "model.index.json"])
def test_pipes_are_refused(name, tmp_path):
    os.mkfifo(tmp_path / name)
    with rejects(ValueError, "source", str(tmp_path / name)):
        relayout_checkpoint(tmp_path / name, tmp_path / "out", config=HELIUM, to="half")


@pytest.mark.skipif(checkpoint.fcntl is None, reason="Windows locks no folders.")
def test_what_a_killed_run_left_is_removed(tmp_path):
    source, killed = save(tmp_path / "in", layer()), tmp_path / ".posenc-relayout-killed"
    young, running = tmp_path / ".posenc-relayout-young", tmp_path / ".posenc-relayout-running"
    for folder in (killed, young, running):
        folder.mkdir()
        (folder / "out").write_bytes(b"half")
    for folder in (killed, running):
        os.utime(folder, (0, 0))
    with checkpoint._locked(str(running)):
        relayout_checkpoint(source, tmp_path / "out", config=HELIUM, to="half")
    assert sorted(tmp_path.iterdir()) == sorted([source, tmp_path / "out", young, running])


@pytest.mark.skipif(checkpoint.fcntl is None, reason="Windows locks no folders.")
def test_a_run_locks_its_folder_as_long_as_it_writes(tmp_path, monkeypatch):
    def try_to_remove(_):
        (folder,) = tmp_path.glob(".posenc-*")
        os.utime(folder, (0, 0))
        checkpoint._remove_abandoned(tmp_path)
        assert folder.exists()

    monkeypatch.setattr(os, "fsync", try_to_remove)
    relayout_checkpoint(save(tmp_path / "in", layer()), tmp_path / "out", config=HELIUM, to="half")
    assert (tmp_path / "out").exists()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EFBIG, errno.EDQUOT])
def test_a_full_disk_is_told_with_the_file_and_the_fix(number, tmp_path, monkeypatch):
    def fail(_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fail)
    with rejects(OSError, "target", str(tmp_path / "out"), os.strerror(number)):
        relayout_checkpoint(save(tmp_path / "in", layer()), tmp_path / "out", config=HELIUM, to="half")
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit on the size of files.")
def test_a_limit_on_the_size_of_files_is_told(tmp_path):
    source, config = save(tmp_path / "in", layer()), tmp_path / "config.json"
    config.write_text(json.dumps(HELIUM))
    command = f"ulimit -f 1; exec {sys.executable} -m posenc_backends relayout in out --config config.json --to half"
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2]), "PYTHONDONTWRITEBYTECODE": "1"}
    options = {"cwd": tmp_path, "env": environment, "capture_output": True, "text": True, "check": False}
    done = subprocess.run(["bash", "-c", command], **options)  # noqa: PLW1510
    assert source.stat().st_size > 2048
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(
        "posenc: `target` must have space for as many bytes as `source`, got out: File too large;"
    )


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (MemoryError("Unable to allocate 5 PiB"), "Unable to allocate 5 PiB; ask for fewer positions or channels."),
        (MemoryError(), "no memory is left; ask for fewer positions or channels."),
        (RecursionError("maximum depth"), "the input is nested too deeply."),
        (
            FileNotFoundError(2, "No such file or directory", "no/x.png"),
            "`no/x.png` cannot be read or written: No such file or directory; name another.",
        ),
        (
            OSError(28, "No space left on device"),
            "a file cannot be read or written: No space left on device; name another, or free some space.",
        ),
        (OSError("a sentence of ours."), "a sentence of ours."),
        (ValueError("a sentence of ours."), "a sentence of ours."),
    ],
)
def test_the_command_says_one_sentence_and_ends_with_2(error, message, monkeypatch, capsys):
    def fail(_):
        raise error

    monkeypatch.setattr("posenc_backends.cli.plot.run", fail)
    assert main(["plot", "Integer(dim=4)", "-o", "x.png"]) == 2
    assert capsys.readouterr().err == f"posenc: {message}\n"


def test_the_command_ends_at_what_does_not_fit_into_memory(capsys):
    pytest.importorskip("matplotlib")
    assert main(["plot", "Sinusoidal(dim=1000000000)", "-o", "x.png"]) == 2
    assert main(["plot", "Binary(dim=9999999999)", "-o", "x.png"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert all(line.startswith("posenc: `dim` must be at most 65536, got ") for line in lines)
