"""A checkpoint for another layout, written tensor by tensor: no more than a piece of one is ever in memory.

Shapes and types stay. So the header of the new file is that of the old one, byte for byte, and rows change places.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from posenc_core._checks import check_known
from posenc_core.rotation import LAYOUTS, Layout

from .projections import ITEM_SIZES, KEYS, QUERIES, Order, Projections, order_of, projections

PIECE = 2**20  # bytes
LONGEST_HEADER = 100_000_000  # bytes; the format allows no more


class Tensor(NamedTuple):
    """What the header says of a tensor; `start` and `stop` are counted in bytes from the start of the file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int


Plan: TypeAlias = list[tuple[Tensor, "Order | None"]]
Bytes: TypeAlias = npt.NDArray[np.uint8]


class Relaid(NamedTuple):
    """The names of the tensors whose rows changed places, and of those that were copied."""

    relaid: tuple[str, ...]
    copied: tuple[str, ...]


def relayout_checkpoint(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    config: Any,
    to: Layout,
    layout: Layout | None = None,
) -> Relaid:
    """Write a checkpoint anew, its projections of queries and keys re-laid for a model that rotates in layout `to`.

    Everything is checked before anything is written, and the new checkpoint appears only when it is complete.

    Args:
        source: a file of safetensors, or the `model.safetensors.index.json` of several.
        target: the file to write, or for several the folder; it must not exist.
        config: what describes the model: a `config.json`, a dict or a config object of transformers.
        to: the layout to rotate in from now on.
        layout: the layout that the checkpoint is in; by default the other one.
    Raises:
        ImportError: if `rich` is not installed.
        OSError: if a file cannot be read or written, or `target` exists.
        ValueError: if the checkpoint is in that layout, if a tensor of an attention module is not known, is quantised or
            does not have the shape that follows from the config, or if a file is not of the format.
    """
    old, new = Path(source), Path(target)
    known = projections(config, source=_layout_before(to, layout), target=to)
    shards = _shards(old)
    _check_absent(new)
    plans = {shard: _plan(shard, known) for shard in shards}
    steps = [step for plan in plans.values() for step in plan]
    result = Relaid(*(tuple(t.name for t, order in steps if (order is None) == copied) for copied in (False, True)))
    if not result.relaid:
        raise ValueError(
            f"`source` must have queries and keys, named {', '.join(QUERIES + KEYS)} or the like, got {old}."
        )
    with _progress(sum(shard.stat().st_size for shard in shards)) as advance, _beside(new) as written:
        if old in plans:
            _write(old, written, plans[old], advance)
        else:
            written.mkdir()
            for shard, plan in plans.items():
                _write(shard, written / shard.name, plan, advance)
            shutil.copyfile(old, written / old.name)
    return result


def _layout_before(to: Layout, layout: Layout | None) -> Layout:
    """The layout of the weights before; what goes out is of no matter to them, only the pairs that they go in by."""
    before: Layout = layout or ("interleaved" if to == "half" else "half")
    for name, word in (("to", to), ("layout", before)):
        check_known(name, word, LAYOUTS)
    if (before == "half") == (to == "half"):
        raise ValueError(
            f"`to` must be another layout than the weights are in, got {to!r} for {before!r}: nothing to do."
        )
    return before


def _shards(source: Path) -> list[Path]:
    """The files of safetensors: `source` itself, or those that it is the index of."""
    if source.suffix != ".json":
        return [source]
    try:
        names = sorted(set(json.loads(source.read_text(encoding="utf-8"))["weight_map"].values()))
        if any(Path(name).name != name for name in names):
            raise ValueError("a shard lies outside of its folder")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"`source` must be a file of safetensors or the index of several, got {source}: {error}."
        ) from error
    return [source.with_name(name) for name in names]


def _check_absent(target: Path) -> None:
    if os.path.lexists(target):
        raise FileExistsError(f"`target` must not exist, got {target}: name a new file.")
    if not target.absolute().parent.is_dir():
        raise FileNotFoundError(f"`target` must lie in a folder that exists, got {target}.")


def _plan(path: Path, known: Projections) -> Plan:
    return [(t, order_of(t.name, t.dtype, t.shape, known)) for t in read_header(path)]


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
        entries = json.loads(header)
        tensors = [
            Tensor(name, entry["dtype"], tuple(map(int, entry["shape"])), *(first + at for at in entry["data_offsets"]))
            for name, entry in entries.items()
            if name != "__metadata__"
        ]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is no file of safetensors: its header cannot be read ({error}).") from error
    tensors.sort(key=lambda tensor: (tensor.start, tensor.stop))
    bounds = [first, *(tensor.stop for tensor in tensors)]
    contiguous = bounds[:-1] == [tensor.start for tensor in tensors] and bounds == sorted(bounds)
    if not contiguous or bounds[-1] != size or not all(map(_is_filled, tensors)):
        raise ValueError(f"{path} is no complete file of safetensors: its tensors do not fill its {size} bytes.")
    return tensors


def _is_filled(tensor: Tensor) -> bool:
    """Whether there are as many bytes as the shape says; types that are never re-laid may have any number of bits."""
    item = ITEM_SIZES.get(tensor.dtype)
    return item is None or prod(tensor.shape) * item == tensor.stop - tensor.start


@contextmanager
def _beside(target: Path) -> Iterator[Path]:
    """A path to write to, which becomes `target` at the end, or is removed if anything goes wrong."""
    with TemporaryDirectory(prefix=".posenc-", dir=target.absolute().parent) as folder:
        written = Path(folder) / target.name
        yield written
        _check_absent(target)  # still
        written.replace(target)


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int], None]]:
    """Draws how many of so many bytes are done, as it is told, in a terminal."""
    try:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn
    except ModuleNotFoundError as error:
        raise ImportError('`rich` is not installed; run `pip install "posenc[relayout]"`.') from error
    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=total)
        yield lambda count: progress.advance(task, count)


def _write(source: Path, target: Path, plan: Plan, advance: Callable[[int], None]) -> None:
    with source.open("rb") as file, target.open("xb") as out:
        out.write(file.read(min((tensor.start for tensor, _ in plan), default=source.stat().st_size)))
        for tensor, order in plan:
            for piece in _pieces(file, tensor, order):
                out.write(piece.data)
                advance(piece.nbytes)
        out.flush()
        os.fsync(out.fileno())


def _pieces(file: BinaryIO, tensor: Tensor, order: Order | None) -> Iterator[Bytes]:
    """The bytes of a tensor in the new order of its rows, a piece at a time."""
    if order is None:
        for start in range(tensor.start, tensor.stop, PIECE):
            yield _read(file, start, min(start + PIECE, tensor.stop))
        return
    width = max((tensor.stop - tensor.start) // len(order), 1)  # of a row, in bytes
    for first in range(0, (tensor.stop - tensor.start) // width, max(PIECE // width, 1)):
        rows = order[first : first + max(PIECE // width, 1)]
        low, high = int(rows.min()), int(rows.max()) + 1  # within a head or two
        read = _read(file, tensor.start + low * width, tensor.start + high * width)
        yield read.reshape(-1, width)[rows - low]


def _read(file: BinaryIO, start: int, stop: int) -> Bytes:
    file.seek(start)
    read = np.frombuffer(file.read(stop - start), np.uint8)
    if len(read) < stop - start:
        raise OSError(f"{file.name} became shorter while it was read.")
    return read
