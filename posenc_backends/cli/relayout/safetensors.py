"""The files of a checkpoint: the headers of safetensors, and the index of several."""

from __future__ import annotations

import json
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

ITEM_SIZES = {"F64": 8, "F32": 4, "BF16": 2, "F16": 2, "F8_E4M3": 1, "F8_E5M2": 1}
LONGEST_HEADER = 100_000_000  # bytes; the format allows no more


class Tensor(NamedTuple):
    """What the header says of a tensor; `start` and `stop` are counted in bytes from the start of the file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int


def read_shards(source: Path) -> dict[Path, list[Tensor]]:
    """The tensors of each file of safetensors: of `source` itself, or of those that it is the index of.

    Raises:
        ValueError: if it is neither, or a file does not hold what the index says.
    """
    if source.is_dir():
        raise ValueError(f"`source` must be a file, got the folder {source}: name the `*.index.json` that lies in it.")
    if source.suffix != ".json":
        return {source: read_header(source)}
    index = _read_index(source)
    shards = {source.with_name(name): read_header(source.with_name(name)) for name in sorted(set(index.values()))}
    held = {(tensor.name, path.name) for path, tensors in shards.items() for tensor in tensors}
    for tensor, name in index.items():
        if (tensor, name) not in held:
            raise ValueError(f"`{tensor}` must be in {name} by the index {source}, but is not: load the files again.")
    return shards


def read_header(path: Path) -> list[Tensor]:
    """The tensors of a file of safetensors, in the order of their bytes.

    Raises:
        ValueError: if the file is of another format, or not complete.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        first = 8 + int.from_bytes(file.read(8), "little")
        header = file.read(min(first - 8, LONGEST_HEADER))
    try:
        golden_cases = json.loads(header)
        tensors = [
            _tensor(name, golden_case, first) for name, golden_case in golden_cases.items() if name != "__metadata__"
        ]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{path} is no file of safetensors: its header cannot be read ({error}).") from error
    tensors.sort(key=lambda tensor: (tensor.start, tensor.stop))
    bounds = [first, *(tensor.stop for tensor in tensors)]
    contiguous = bounds[:-1] == [tensor.start for tensor in tensors] and bounds == sorted(bounds)
    if not contiguous or bounds[-1] != size or not all(map(_is_filled, tensors)):
        raise ValueError(f"{path} is no complete file of safetensors: its tensors do not fill its {size} bytes.")
    return tensors


def _read_index(path: Path) -> dict[str, str]:
    """The name of the file that each tensor is in."""
    try:
        index: dict[str, str] = json.loads(path.read_text(encoding="utf-8"))["weight_map"]
        if any(Path(name).name != name for name in index.values()):
            raise ValueError("a shard lies outside of its folder")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"`source` must be a file of safetensors or the index of several, got {path}: {error}."
        ) from error
    return index


def _tensor(name: str, golden_case: Any, first: int) -> Tensor:
    """One entry of a header whose data begin at byte `first`."""
    dtype, shape, (start, stop) = golden_case["dtype"], golden_case["shape"], golden_case["data_offsets"]
    if not isinstance(dtype, str):
        raise TypeError(f"`dtype` of `{name}` must be a string, got {dtype!r}")
    if not isinstance(shape, list) or any(type(size) is not int or size < 0 for size in (*shape, start, stop)):
        raise ValueError(f"`{name}` must have sizes and offsets that are integers, got {shape!r}, {[start, stop]!r}")
    return Tensor(name, dtype, tuple(shape), first + start, first + stop)


def _is_filled(tensor: Tensor) -> bool:
    """Whether there are as many bytes as the shape says; types that are never re-laid may have any number of bits."""
    item = ITEM_SIZES.get(tensor.dtype)
    return item is None or prod(tensor.shape) * item == tensor.stop - tensor.start
