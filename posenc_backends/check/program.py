"""A program in any language as a checked function: arrays go to a process and come back."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from posenc_core.analysis.precision import ROUNDED
from posenc_core.encodings import Additive, ContentScoring, Encoding, QueryEncoding, RotaryEncoding
from posenc_core.encodings.attention_encoding import QueryKeyEncoding
from posenc_core.formats.safetensors import read_header

from .frameworks import Framework

SECONDS = 60  # for one call
MOST_BYTES = 2**26  # that a call returns or prints: some fifty times the largest that is wanted
STORED = {  # the name of each dtype in safetensors files, and that of NumPy for its bytes
    "float64": ("F64", "<f8"),
    "float32": ("F32", "<f4"),
    "float16": ("F16", "<f2"),
    "bfloat16": ("BF16", "<u2"),
    "float8_e4m3fn": ("F8_E4M3", "u1"),  # sign, 4 bits of exponent, 3 of mantissa; 448 is the largest number
    "int64": ("I64", "<i8"),
}
INPUTS = {
    "rotation": ("q", "k", "positions"),
    "turn": ("x", "positions"),
    "table": ("positions",),
    "addition": ("x", "positions"),
    "scale": ("x", "positions"),
    "bias": ("query_positions", "key_positions"),
    "scores": ("q", "k", "query_positions", "key_positions"),
    "products": ("q", "k", "query_positions", "key_positions"),
}
OUTPUTS = {"rotation": ("q", "k"), "turn": ("x",), "addition": ("x",), "scale": ("x",)} | {
    name: (name,) for name in ("bias", "scores", "products")
}


class Numbers(NamedTuple):
    """An array of a dtype that NumPy may lack.

    Attributes:
        values: the numbers, float64 or int64.
        dtype: the name of their dtype, one of `STORED`.
    """

    values: npt.NDArray[Any]
    dtype: str

    def to_bytes(self) -> bytes:
        """Return the numbers in their dtype, little-endian, in the order of C."""
        if self.dtype == "bfloat16":
            bits = ROUNDED["bfloat16"](self.values).view(np.uint32) >> 16
            return bits.astype(STORED[self.dtype][1]).tobytes()
        if self.dtype == "float8_e4m3fn":
            codes = np.searchsorted(FLOAT8, np.abs(self.values)) + 128 * np.signbit(self.values)
            return codes.astype(STORED[self.dtype][1]).tobytes()
        return self.values.astype(STORED[self.dtype][1]).tobytes()


FLOAT8 = np.array(
    [
        *(code % 8 * 2.0**-9 for code in range(8)),
        *((8 + code % 8) * 2.0 ** (code // 8 - 10) for code in range(8, 127)),
        np.nan,
    ]
)


def from_bytes(data: bytes, dtype: str, shape: Sequence[int]) -> Numbers:
    """Return the array of these bytes."""
    values = np.frombuffer(data, STORED[dtype][1]).reshape(shape)
    if dtype == "bfloat16":
        return Numbers((values.astype(np.uint32) << 16).view(np.float32).astype(np.float64), dtype)
    if dtype == "float8_e4m3fn":
        return Numbers(np.where(values < 128, 1, -1) * FLOAT8[values % 128], dtype)
    return Numbers(values.astype(np.int64 if dtype == "int64" else np.float64), dtype)


class _Arrays:
    """The operations of a framework that a check needs: make `Numbers`, cast them, and read them."""

    @staticmethod
    def from_numpy(array: npt.NDArray[Any]) -> Numbers:
        return Numbers(array, "int64" if array.dtype.kind == "i" else "float32")

    @staticmethod
    def to_numpy(numbers: Numbers) -> npt.NDArray[Any]:
        return numbers.values

    @staticmethod
    def cast(numbers: Numbers, dtype: str) -> Numbers:
        return Numbers(ROUNDED[dtype](numbers.values).astype(np.float64), dtype)


FRAMEWORK = Framework("program", _Arrays, _Arrays)


@dataclass(frozen=True, kw_only=True)
class Program:
    """A program that is started once for each call, see `docs/howto/check.md`.

    Args:
        command: the program and its first arguments.
        encoding: the encoding that it must compute, which it may read as JSON.
        form: what it takes and returns, a key of `INPUTS`.
        raw: whether arrays go to its standard input and come from its standard output, without a header; by default
            it is given the paths of two safetensors files.
    Raises:
        ValueError: if the form is unknown.
        FileNotFoundError: in a call, if there is no such program.
    """

    command: tuple[str, ...]
    encoding: Encoding
    form: str
    raw: bool = False

    def __post_init__(self) -> None:
        if self.form not in INPUTS:
            raise ValueError(f"`form` of a program must be one of {', '.join(map(repr, INPUTS))}, got {self.form!r}.")

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the arrays that it returns."""
        if self.form == "table":
            return ("cos", "sin") if isinstance(self.encoding, RotaryEncoding) else ("table",)
        return OUTPUTS[self.form]

    def __call__(self, *arrays: Numbers) -> tuple[Numbers, ...]:
        """Return the arrays that the program returns.

        Raises:
            RuntimeError: if it ends with another status than 0.
            TimeoutError: if it takes longer than `SECONDS`.
            ValueError: if it does not return the arrays of `outputs`.
        """
        given = dict(zip(INPUTS[self.form], arrays, strict=True))
        return self._by_streams(given) if self.raw else self._by_files(given)

    def _by_files(self, given: dict[str, Numbers]) -> tuple[Numbers, ...]:
        with tempfile.TemporaryDirectory() as folder:
            source, target = (Path(folder, f"{name}.safetensors") for name in ("in", "out"))
            metadata = {"form": self.form, "spec": json.dumps(self.encoding.to_dict())}
            source.write_bytes(safetensors(given, metadata))
            self._run([str(source), str(target)], b"")
            if not target.is_file():
                raise ValueError("it must write the file that its last argument names, and wrote none")
            if target.stat().st_size > MOST_BYTES:
                raise ValueError(f"it must write at most {MOST_BYTES} bytes, got {target.stat().st_size}")
            return tuple(_read(target, name) for name in self.outputs)

    def _by_streams(self, given: dict[str, Numbers]) -> tuple[Numbers, ...]:
        described = [f"{name}={each.dtype}:{','.join(map(str, each.values.shape))}" for name, each in given.items()]
        data = self._run([self.form, *described], b"".join(each.to_bytes() for each in given.values()))
        first = next(iter(given.values()))
        dtype = "float32" if first.dtype == "int64" else first.dtype
        itemsize = np.dtype(STORED[dtype][1]).itemsize
        shapes = self._shapes(given, len(data) // itemsize)
        sizes = [int(np.prod(shape)) * itemsize for shape in shapes]
        if sum(sizes) != len(data):
            raise ValueError(f"it must write {sum(sizes)} bytes, {dtype} of {shapes}, got {len(data)}")
        ends = np.cumsum([0, *sizes]).tolist()
        return tuple(from_bytes(data[ends[i] : ends[i + 1]], dtype, shape) for i, shape in enumerate(shapes))

    def _shapes(self, given: dict[str, Numbers], count: int) -> list[tuple[int, ...]]:
        """Return the shapes of the outputs, which together have `count` numbers."""
        if self.form == "table":
            (positions,) = given.values()
            columns = count // (len(self.outputs) * max(positions.values.size, 1))
            return [(*positions.values.shape, columns)] * len(self.outputs)
        if self.form == "bias":
            queries, keys = (each.values.size for each in given.values())
            return [(count // (queries * keys), queries, keys)]
        if self.form in ("scores", "products"):
            return [(*given["q"].values.shape[:-1], given["k"].values.shape[-2])]
        shapes = [given[name].values.shape for name in self.outputs]
        return [(*lead, self.encoding.widening * width) for *lead, width in shapes]

    def _run(self, arguments: list[str], data: bytes) -> bytes:
        status, output, errors = _run_bounded([*self.command, *arguments], data)
        if status:
            lines = errors.decode(errors="replace").strip().splitlines()
            said = next((line for line in lines if "error: " in line.lower()), lines[-1] if lines else "no message")
            raise RuntimeError(f"it ended with status {status}: {said[:200]}")
        return output


def _run_bounded(command: list[str], data: bytes) -> tuple[int, bytes, bytes]:
    """Run a program and return its status, its output and what it says on standard error.

    The processes that it started end with it.

    Raises:
        RuntimeError: if it writes more than `MOST_BYTES`.
        TimeoutError: if it takes longer than `SECONDS`.
    """
    pipe, written = subprocess.PIPE, {"stdout": b"", "stderr": b""}
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True)

    def end() -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL) if hasattr(os, "killpg") else process.kill()

    def give() -> None:
        with suppress(OSError), process.stdin as stream:  # type: ignore[union-attr]
            stream.write(data)

    def take(name: str) -> None:
        with getattr(process, name) as stream:
            written[name] = stream.read(MOST_BYTES + 1)
        if len(written[name]) > MOST_BYTES:
            end()

    threads = [threading.Thread(target=give), *(threading.Thread(target=take, args=(name,)) for name in written)]
    try:
        for thread in threads:
            thread.start()
        status = process.wait(SECONDS)
    except subprocess.TimeoutExpired as error:
        raise TimeoutError(f"it took longer than {SECONDS} seconds") from error
    finally:
        end()
        process.wait()
        for thread in threads:
            thread.join()
    if max(map(len, written.values())) > MOST_BYTES:
        raise RuntimeError(f"it wrote more than {MOST_BYTES} bytes")
    return status, written["stdout"], written["stderr"]


def default_form(encoding: Encoding) -> str:
    """Return the form of a program for this encoding: it cannot be asked for the number of its arguments."""
    if isinstance(encoding, QueryKeyEncoding):
        return "products" if encoding.needs_attention else "rotation"
    if isinstance(encoding, QueryEncoding):
        return "scale"
    if isinstance(encoding, ContentScoring):
        return "scores"
    return "table" if isinstance(encoding, Additive) else "bias"


def safetensors(tensors: dict[str, Numbers], metadata: dict[str, str]) -> bytes:
    """Return a safetensors file; its header is padded to a multiple of 8 bytes."""
    header: dict[str, Any] = {"__metadata__": metadata}
    data, start = [], 0
    for name, tensor in tensors.items():
        data.append(tensor.to_bytes())
        stop = start + len(data[-1])
        shape = list(tensor.values.shape)
        header[name] = {"dtype": STORED[tensor.dtype][0], "shape": shape, "data_offsets": [start, stop]}
        start = stop
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + b"".join(data)


def _read(path: Path, name: str) -> Numbers:
    found = {tensor.name: tensor for tensor in read_header(path)}
    if name not in found:
        raise ValueError(f"it must write the tensors that the form returns, {name!r} is missing, got {sorted(found)}")
    tensor = found[name]
    dtype = next((dtype for dtype, (stored, _) in STORED.items() if stored == tensor.dtype), None)
    if dtype is None:
        raise ValueError(
            f"{name!r} must be of a dtype in {[stored for stored, _ in STORED.values()]}, got {tensor.dtype}"
        )
    with path.open("rb") as file:
        file.seek(tensor.start)
        return from_bytes(file.read(tensor.stop - tensor.start), dtype, tensor.shape)
