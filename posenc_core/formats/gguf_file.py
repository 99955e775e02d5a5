"""GGUF files: their metadata, and the small tensors of RoPE; the rest is skipped.

Nothing is believed before it is checked against the size of the file: neither counts nor lengths take memory. The
package gguf builds every list of tokens, and fails in many ways on damaged files: it is the oracle of the tests.

Source: the specification of GGUF, versions 2 and 3 (ggml, docs/gguf.md).
"""

from __future__ import annotations

import math
import os
import re
from pathlib import Path
from typing import IO, Any

import numpy as np

from .._array_api.checks import shown

MAGIC = b"GGUF"
TENSORS = ("rope_freqs.weight", "rope_factors_short.weight", "rope_factors_long.weight")
_KEPT = re.compile(
    r"general\.(architecture|alignment)|[^.]+\.(rope\..+|attention\..+|context_length|embedding_length|block_count)"
)
_SCALARS = {0: "u1", 1: "i1", 2: "u2", 3: "i2", 4: "u4", 5: "i4", 6: "f4", 7: "?", 10: "u8", 11: "i8", 12: "f8"}
_STRING, _ARRAY = 8, 9
_DTYPES = {0: "f4", 1: "f2", 30: "u2"}  # float32, float16, bfloat16
MAX_KEYS, MAX_TENSORS, MAX_ITEMS = 2**16, 2**20, 2**22
MAX_TEXT, MAX_KEPT = 2**16, 2**12  # bytes of a name, items of a list that is kept


class DamagedError(Exception):
    """A file cannot be read; the argument completes the sentence "`config` must be …"."""


def is_gguf(path: Path) -> bool:
    """Return whether a file begins as GGUF files do."""
    with path.open("rb") as file:
        return file.read(4) == MAGIC


def read_gguf(path: Path) -> dict[str, Any]:
    """Return the metadata of a GGUF file that concern RoPE, with its tensors as lists of numbers.

    Float32 numbers are returned as the shortest decimal that rounds to them, so 1.2 is 1.2; tensors as they are.

    Raises:
        DamagedError: if the file is damaged, or has another version.
        OSError: if it cannot be read.
    """
    with path.open("rb") as file:
        try:
            return _Reader(file).contents()
        except DamagedError as error:
            raise DamagedError(f"a whole GGUF file, but {shown(path.name)} {error}") from None


class _Reader:
    """A file, its size and the order of its bytes."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file, self.size = file, os.fstat(file.fileno()).st_size
        self.file.seek(4)
        version = self.file.read(4)
        self.order = "<" if version[:2] != b"\0\0" else ">"
        number = int.from_bytes(version, "little" if self.order == "<" else "big")
        if len(version) < 4 or number not in (2, 3):
            raise DamagedError(f"has version {number} in place of 2 or 3")

    def contents(self) -> dict[str, Any]:
        num_tensors = self.count(MAX_TENSORS, "tensors", 24)
        num_keys = self.count(MAX_KEYS, "keys", 13)
        found: dict[str, Any] = {}
        for _ in range(num_keys):
            name = self.text()
            value = self.value(self.scalar(4), kept=_KEPT.fullmatch(name) is not None)
            if value is not None and name in found:
                raise DamagedError(f"has the key {shown(name)} twice")
            found |= {} if value is None else {name: value}
        places = [self.place() for _ in range(num_tensors)]
        alignment = found.pop("general.alignment", 32)
        if type(alignment) is not int or not 0 < alignment <= 2**20 or alignment & (alignment - 1):
            raise DamagedError(f"has an alignment of {shown(alignment)}, which is not a power of 2")
        start = -(-self.file.tell() // alignment) * alignment
        for name, size, code, offset in places:
            if name in TENSORS:
                if name in found:
                    raise DamagedError(f"has the tensor {name} twice")
                found[name] = self.values(name, size, code, start + offset)
        return found

    def take(self, size: int) -> bytes:
        """Return the next bytes."""
        if size > self.size - self.file.tell():
            raise DamagedError(f"ends at byte {self.size}, where {size} bytes from {self.file.tell()} on are announced")
        return self.file.read(size)

    def skip(self, size: int) -> None:
        """Pass over the next bytes."""
        if size > self.size - self.file.tell():
            raise DamagedError(f"ends at byte {self.size}, where {size} bytes from {self.file.tell()} on are announced")
        self.file.seek(size, os.SEEK_CUR)

    def scalar(self, code: int) -> Any:
        dtype = np.dtype(self.order + _SCALARS[code])
        number = np.frombuffer(self.take(dtype.itemsize), dtype)[0]
        return float(str(number)) if code == 6 else number.item()  # the shortest decimal of a float32

    def count(self, limit: int, what: str, size: int) -> int:
        """Return a count of things that take at least `size` bytes each."""
        number = int(self.scalar(10))
        if number > limit or number * size > self.size:
            raise DamagedError(f"announces {number} {what} in {self.size} bytes")
        return number

    def text(self, limit: int = MAX_TEXT) -> str:
        size = self.scalar(10)
        if size > limit:
            raise DamagedError(f"announces a name of {size} bytes")
        try:
            return self.take(size).decode()
        except UnicodeDecodeError:
            raise DamagedError(f"has a name that is not UTF-8 before byte {self.file.tell()}") from None

    def value(self, code: int, *, kept: bool) -> Any:
        """Return the next value if it is kept, else pass over it and return None."""
        if code == _STRING:
            return self.text() if kept else self.skip(self.scalar(10))
        if code == _ARRAY:
            return self.array(kept=kept)
        if code not in _SCALARS:
            raise DamagedError(f"has a value of the unknown type {code} before byte {self.file.tell()}")
        number = self.scalar(code)
        return number if kept else None

    def array(self, *, kept: bool) -> Any:
        code, size = self.scalar(4), self.scalar(10)
        if code not in (*_SCALARS, _STRING):
            raise DamagedError(f"has a list of the unknown type {code} before byte {self.file.tell()}")
        if code == _STRING:
            if size > MAX_ITEMS:
                raise DamagedError(f"announces a list of {size} strings")
            return self.skip_texts(size)
        if kept and size <= MAX_KEPT:
            return [self.scalar(code) for _ in range(size)]
        self.skip(size * np.dtype(_SCALARS[code]).itemsize)
        return None

    def skip_texts(self, count: int) -> None:
        """Pass over the strings of a list, such as the tokens of a vocabulary."""
        position, order = self.file.tell(), "little" if self.order == "<" else "big"
        for _ in range(count):
            size = int.from_bytes(self.file.read(8), order)  # type: ignore[arg-type]
            position += 8 + size
            if position > self.size:
                raise DamagedError(f"ends at byte {self.size}, where a string up to {position} is announced")
            self.file.seek(position)

    def place(self) -> tuple[str, int, int, int]:
        """Return name, number of values, code of the type and offset in the data of the next tensor."""
        name, axes = self.text(), self.scalar(4)
        if axes > 4:
            raise DamagedError(f"has a tensor of {axes} axes")
        size = math.prod([self.scalar(10) for _ in range(axes)])
        return name, size, self.scalar(4), self.scalar(10)

    def values(self, name: str, size: int, code: int, place: int) -> list[float]:
        if code not in _DTYPES:
            raise DamagedError(f"has the tensor {name} in the type {code} in place of float32, float16 or bfloat16")
        if size > MAX_TEXT:
            raise DamagedError(f"announces {size} values of {name}")
        dtype = np.dtype(self.order + _DTYPES[code])
        if place > self.size:
            raise DamagedError(f"ends at byte {self.size}, where {name} is announced at {place}")
        self.file.seek(place)
        numbers = np.frombuffer(self.take(size * dtype.itemsize), dtype)
        if code == 30:  # the upper half of a float32
            numbers = (numbers.astype(np.uint32) << 16).view(np.float32)
        return [float(number) for number in numbers]
