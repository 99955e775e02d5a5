"""Read the headers of safetensors files, and the index of several."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from .._array_api.checks import shown

ITEM_SIZES = {"F64": 8, "F32": 4, "BF16": 2, "F16": 2, "F8_E4M3": 1, "F8_E5M2": 1}
MAX_HEADER = 100_000_000  # bytes, a limit of the format


class Tensor(NamedTuple):
    """A tensor in a file; `start` and `stop` are byte offsets from the start of the file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int


def read_shards(source: Path) -> dict[Path, list[Tensor]]:
    """Return the tensors of each safetensors file: of `source`, or of the files in its index.

    Raises:
        ValueError: if `source` is neither, or a file lacks a tensor of the index.
    """
    if source.is_dir():
        raise ValueError(f"`source` must be a file, got the folder {source}: name the `*.index.json` in it.")
    if source.suffix != ".json":
        return {source: read_header(source)}
    index = _read_index(source)
    shards = {source.with_name(name): read_header(source.with_name(name)) for name in sorted(set(index.values()))}
    present = {(tensor.name, path.name) for path, tensors in shards.items() for tensor in tensors}
    for tensor, name in index.items():
        if (tensor, name) not in present:
            raise ValueError(
                f"`{tensor}` must be in {name} by the index {source}, but is not: download the files again."
            )
    return shards


def read_header(path: Path) -> list[Tensor]:
    """Return the tensors of a safetensors file in the order of their bytes.

    Raises:
        ValueError: if the file has another format or is incomplete.
    """
    _check_regular(path)
    size = path.stat().st_size
    with path.open("rb") as file:
        first = 8 + int.from_bytes(file.read(8), "little")
        header = file.read(min(first - 8, size, MAX_HEADER))  # memory for no more than the file has
    try:
        entries = json.loads(header)
        tensors = [_tensor(name, entry, first) for name, entry in entries.items() if name != "__metadata__"]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{path} is not a file of safetensors: its header cannot be read ({error}).") from error
    tensors.sort(key=lambda tensor: (tensor.start, tensor.stop))
    bounds = [first, *(tensor.stop for tensor in tensors)]
    contiguous = bounds[:-1] == [tensor.start for tensor in tensors] and bounds == sorted(bounds)
    if not contiguous or bounds[-1] != size or not all(map(_is_filled, tensors)):
        raise ValueError(f"{path} is not a complete file of safetensors: its tensors do not fill its {size} bytes.")
    return tensors


def _read_index(path: Path) -> dict[str, str]:
    """Return the name of the file of each tensor."""
    _check_regular(path)
    try:
        index: dict[str, str] = json.loads(path.read_text(encoding="utf-8"))["weight_map"]
        if any(Path(name).name != name or name in ("", "..") or "\0" in name for name in index.values()):
            raise ValueError("a shard is outside its folder")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        reason = "it has no `weight_map`" if isinstance(error, KeyError) else error
        raise ValueError(
            f"`source` must be a file of safetensors or the index of several, got {path}: {reason}."
        ) from error
    return index


def _tensor(name: str, entry: Any, first: int) -> Tensor:
    """Return the tensor of a header entry; its data start at byte `first`."""
    dtype, shape, (start, stop) = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str):
        raise TypeError(f"`dtype` of `{name}` must be a string, got {shown(dtype)}")
    if not isinstance(shape, list) or any(type(size) is not int or size < 0 for size in (*shape, start, stop)):
        raise ValueError(f"`{name}` must have sizes and offsets that are integers, got {shown([shape, start, stop])}")
    return Tensor(name, dtype, tuple(shape), first + start, first + stop)


def _is_filled(tensor: Tensor) -> bool:
    """Return whether the number of bytes fits the shape; dtypes that are only copied may have any number of bits."""
    count, wanted = ITEM_SIZES.get(tensor.dtype), tensor.stop - tensor.start
    if count is None:
        return True
    if 0 in tensor.shape:
        return wanted == 0
    for size in tensor.shape:  # the product of sizes that a file claims may be longer than the file
        count *= size
        if count > wanted:
            return False
    return count == wanted


def _check_regular(path: Path) -> None:
    """Raise for a pipe or a device, whose reader would wait; a missing file is an error of opening it."""
    if path.exists() and not path.is_file():
        raise ValueError(f"`source` must be a regular file, got {path}, which is none: copy it to a file first.")
