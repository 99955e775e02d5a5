"""Convert a checkpoint to another RoPE layout.

Shapes and dtypes stay, so the new file has the header of the old one, byte for byte; only rows of queries and keys
move.
Tensors are written in pieces of at most `PIECE` bytes.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from posenc_core._array_api.checks import check_known
from posenc_core._requirement import requirement
from posenc_core.formats.safetensors import Tensor, read_shards
from posenc_core.rotation import LAYOUTS, Layout

from .projections import (
    FUSED,
    KEYS,
    QUERIES,
    Order,
    check_partners,
    is_params,
    order_of,
    projections,
    shares_keys,
    trained_layout,
)

fcntl: Any
try:
    import fcntl
except ModuleNotFoundError:  # on Windows
    fcntl = None

PIECE = 2**20  # bytes

_PREFIX = ".posenc-relayout-"
_YOUNG = 60  # seconds, within which a run has locked its folder
_NO_ROOM = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)

Plan: TypeAlias = list[tuple[Tensor, "Order | None"]]
Bytes: TypeAlias = npt.NDArray[np.uint8]

_SHARD = re.compile(r".*-of-0*([2-9]|1\d)\d*\.safetensors")  # one of several


class Relaid(NamedTuple):
    """The names of the tensors whose rows moved, and of those that were copied."""

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
    """Write a checkpoint with its projections of queries and keys converted for a model that rotates in layout `to`.

    Everything is checked before anything is written. The new checkpoint appears only when it is complete; what a run
    that was killed has left beside it is removed.

    Args:
        source: a safetensors file, or the `model.safetensors.index.json` of several.
        target: the file to write, or the folder for several; it must not exist.
        config: the config of the model, as in `load_rope`.
        to: the new layout.
        layout: the present layout; by default that of the `model_type`, or of a `params.json`.
    Returns:
        The names of the tensors that changed and of those that were copied.
    Raises:
        ImportError: if `rich` is not installed.
        OSError: if a file cannot be read or written, the disk is full, or `target` exists.
        ValueError: if the checkpoint already has that layout, or its layout is unknown and not given; if a tensor of an
            attention module is unknown, is quantized or does not have the shape that follows from the config; if
            queries or keys are missing; or if a file has another format.
    """
    old, new = Path(source), Path(target)
    known = projections(config, source=_layout_before(config, to, layout), target=to)
    shards = read_shards(old)
    _check_absent(new)
    plans = {shard: [(t, order_of(t.name, t.dtype, t.shape, known)) for t in shards[shard]] for shard in shards}
    steps = [step for plan in plans.values() for step in plan]
    result = Relaid(*(tuple(t.name for t, order in steps if (order is None) == copied) for copied in (False, True)))
    _check_relaid(old, result.relaid, config, layout)
    if not _SHARD.fullmatch(old.name):
        check_partners(result.relaid, shared=shares_keys(config))
    total = sum(shard.stat().st_size for shard in shards)
    with _signals_as_exceptions(), _progress(total) as advance, _temporary(new) as written:
        if old in plans:
            _write(old, written, plans[old], advance)
        else:
            written.mkdir()
            for shard, plan in plans.items():
                _write(shard, written / shard.name, plan, advance)
            shutil.copyfile(old, written / old.name)
    return result


def _layout_before(config: Any, to: Layout, layout: Layout | None) -> Layout:
    """Return the present layout of the weights; only the pairs that they are read in matter, not those written."""
    for name, value in (("to", to), ("layout", layout or to)):
        check_known(name, value, LAYOUTS)
    model, trained = (None, layout) if layout else trained_layout(config)
    if trained is None:
        known = f"`model_type` {model!r}, which is unknown" if model else "a config without a known `model_type`"
        raise ValueError(
            f"`layout` must be given for {known}: pass `--from interleaved` or `--from half`, that of the weights."
        )
    if (trained == "half") != (to == "half"):
        return trained
    if layout:
        raise ValueError(
            f"`to` must be another layout than the weights are in, got {to!r} for {layout!r}: nothing to do."
        )
    other = "interleaved" if to == "half" else "half"
    raise ValueError(
        f"`to` is {to!r}, which the weights of `model_type` {model!r} already have; "
        f"pass `--from {other}` if these do not."
    )


def _check_relaid(source: Path, relaid: tuple[str, ...], config: Any, layout: Layout | None) -> None:
    """Raise `ValueError` if no tensor changes, or if the names show that the default layout is wrong."""
    if not relaid:
        raise ValueError(
            f"`source` must have queries and keys, named {', '.join(QUERIES + KEYS)} or the like, got {source}."
        )
    if layout is not None or trained_layout(config)[0] == "internlm2":
        return
    names = sorted({"wq", "wk", FUSED}.intersection(part for name in relaid for part in name.split(".")))
    if bool(names) != is_params(config):
        kind = f"weights named {' and '.join(f'`{name}`' for name in names)}" if names else "such names of weights"
        raise ValueError(
            f"`layout` must be given for {kind} beside this config, which belongs to others: pass `--from interleaved` "
            "or `--from half`."
        )


def _check_absent(target: Path) -> None:
    if os.path.lexists(target):
        raise FileExistsError(f"`target` must not exist, got {target}: name a new file.")
    if not target.absolute().parent.is_dir():
        raise FileNotFoundError(f"`target` must be in a folder that exists, got {target}.")


@contextmanager
def _signals_as_exceptions() -> Iterator[None]:
    """Turn the first signal that would end the process into an exception, so that temporary files are removed.

    Signals that have another handler keep it. Only the main thread can handle signals.
    """
    names = ("SIGINT", "SIGTERM", "SIGHUP") if threading.current_thread() is threading.main_thread() else ()
    before = {number: signal.getsignal(number) for name in names if (number := getattr(signal, name, None))}
    handled = [number for number in before if before[number] in (signal.SIG_DFL, signal.default_int_handler)]

    def stop(number: int, _: object) -> None:
        for other in handled:
            signal.signal(other, signal.SIG_IGN)
        raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)

    try:
        for number in handled:
            signal.signal(number, stop)
        yield
    finally:
        for number in handled:
            signal.signal(number, before[number])


@contextmanager
def _temporary(target: Path) -> Iterator[Path]:
    """Yield a temporary path that becomes `target` at the end, or is removed after an exception."""
    try:
        _remove_abandoned(target.absolute().parent)
        with TemporaryDirectory(prefix=_PREFIX, dir=target.absolute().parent) as folder, _locked(folder):
            written = Path(folder) / target.name
            yield written
            _check_absent(target)  # nobody created it meanwhile
            written.replace(target)
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise OSError(
                f"`target` must have space for as many bytes as `source`, got {target}: {error.strerror}; free some, "
                "or name a file on another disk."
            ) from error
        if _PREFIX not in str(error.filename):
            raise
        raise type(error)(f"`target` must be writable, got {target}: {error.strerror}.") from error


@contextmanager
def _locked(folder: str, *, needed: bool = False) -> Iterator[None]:
    """Hold a lock on a folder, which ends with the process however that ends; none on Windows.

    Unless it is needed, a file system without locks raises nothing: then nobody removes the folder.
    """
    if fcntl is None:
        yield
        return
    opened = os.open(folder, os.O_RDONLY)
    try:
        with nullcontext() if needed else suppress(OSError):
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(opened)


def _remove_abandoned(parent: Path) -> None:
    """Remove the folders of runs that were killed: those that no process locks, and that are older than a minute."""
    for folder in parent.glob(f"{_PREFIX}*"):
        with suppress(OSError):  # it is locked, or another process has removed it
            if fcntl is not None and time.time() - folder.stat().st_mtime > _YOUNG:
                with _locked(str(folder), needed=True):
                    shutil.rmtree(folder)


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int], None]]:
    """Show a progress bar in a terminal; yield the function to call with the number of bytes written."""
    try:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn
    except ModuleNotFoundError as error:
        raise ImportError(f'`rich` is not installed; run `pip install "{requirement("report")}"`.') from error
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
    """Yield the bytes of a tensor in the new order of its rows, in pieces."""
    if order is None:
        for start in range(tensor.start, tensor.stop, PIECE):
            yield _read(file, start, min(start + PIECE, tensor.stop))
        return
    width = max((tensor.stop - tensor.start) // len(order), 1)  # of a row, in bytes
    for first in range(0, (tensor.stop - tensor.start) // width, max(PIECE // width, 1)):
        rows = order[first : first + max(PIECE // width, 1)]
        low, high = int(rows.min()), int(rows.max()) + 1  # at most two heads apart
        block = _read(file, tensor.start + low * width, tensor.start + high * width)
        yield block.reshape(-1, width)[rows - low]


def _read(file: BinaryIO, start: int, stop: int) -> Bytes:
    file.seek(start)
    block = np.frombuffer(file.read(stop - start), np.uint8)
    if len(block) < stop - start:
        raise OSError(f"{file.name} became shorter while it was read.")
    return block
