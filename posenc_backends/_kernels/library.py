"""The compiled library of the kernel: find it, load it, choose its level, and share its work among threads."""

from __future__ import annotations

import ctypes
import os
import struct
import sys
import warnings
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from threading import Thread
from typing import Any

from .plan import Plans

LEVELS = ("baseline", "avx2")
SHARE = 1 << 21  # bytes that are worth a thread
INTERFACE = 1659182874  # that of the library: changes with its functions and its plan
VARIABLE = "POSENC_KERNEL"  # "off", or the highest level that may run
# The first dot keeps `pkgutil` from taking it for a module.
PATH = Path(__file__).with_name("posenc.kernel.dll" if sys.platform == "win32" else "posenc.kernel.so")


def load(path: Path = PATH) -> tuple[ctypes.CDLL | None, str]:
    """Return the library with its functions declared, and an empty string; or None, and why no kernel runs.

    Warns:
        UserWarning: if the library is cut, of another version, or cannot be loaded, or its source has changed since.
    Raises:
        ValueError: if `POSENC_KERNEL` names no level.
    """
    chosen = os.environ.get(VARIABLE, "")
    if chosen not in ("", "off", *LEVELS):
        raise ValueError(f"`{VARIABLE}` must be 'off' or one of {', '.join(map(repr, LEVELS))}, got {chosen!r}.")
    if chosen == "off":
        return None, f"{VARIABLE}=off"
    if not path.exists():
        return None, "no library in this installation"
    if sys.byteorder != "little":
        return None, "the numbers of this processor are big-endian"
    try:
        return _declared(path, chosen), ""
    except (AttributeError, OSError) as error:  # AttributeError: another library of this name
        message = f"posenc's kernel cannot be loaded, so rotations on CPUs are slower; install posenc again: {error}"
        warnings.warn(message, stacklevel=2)
        return None, f"the library cannot be loaded: {error}"


def _declared(path: Path, chosen: str) -> ctypes.CDLL:
    """Load the library, declare its functions, and choose a level if one is named."""
    source = max((file.stat().st_mtime for file in path.parent.glob("*.[ch]")), default=0)  # only checkouts have it
    if path.stat().st_mtime < source:
        raise OSError(f"{path} is older than its source")
    if _is_cut(path.read_bytes()):
        raise OSError(f"{path} is cut")
    library = ctypes.CDLL(str(path))
    if library.posenc_interface() != INTERFACE:
        raise OSError(f"{path} belongs to another version of posenc")
    integers = [ctypes.c_int64] * 7
    for name, types in (
        ("posenc_rotate", integers[:5]),
        ("posenc_rotate_packed", [ctypes.c_char_p]),
        ("posenc_rotate_part", [*integers[:5], ctypes.c_char_p, *integers[:2]]),
        ("posenc_advise", integers[:2]),
    ):
        function = getattr(library, name)
        function.argtypes, function.restype = types, None
    if chosen:
        library.posenc_choose_level(LEVELS.index(chosen))
    return library


def _is_cut(content: bytes) -> bool:
    """Return whether an ELF file of 64 bits ends before its segments, which would end the process that loads it.

    Other systems check their files themselves.
    """
    if not content.startswith(b"\x7fELF\x02"):
        return not content
    try:
        (first,), (size, count) = struct.unpack_from("<Q", content, 32), struct.unpack_from("<HH", content, 54)
        segments = [struct.unpack_from("<QQQQQ", content, first + size * number) for number in range(count)]
    except struct.error:
        return True
    return any(offset + length > len(content) for _, offset, _, _, length in segments)


LIBRARY, WHY_OFF = load()


def level() -> str:
    """Return the name of the level that runs, one of `LEVELS`; "off" without the library."""
    return "off" if LIBRARY is None else LEVELS[LIBRARY.posenc_level()]


def describe() -> str:
    """Return the level that runs; "off" with the reason and what is lost, if none does."""
    lost = "the numbers are the same, but rotations on CPUs take several times as long"
    return f"off ({WHY_OFF}): {lost}" if LIBRARY is None else level()


def run(
    plans: Plans, places: tuple[int, ...], cos: int, sin: int, threads: Callable[[], int], norm: bytes | None = None
) -> None:
    """Rotate what lies in memory.

    Args:
        plans: what `plans_of` returned for the shapes and strides.
        places: of each array, the addresses of `x` and of its result, which lie apart or are one array.
        cos, sin: addresses of the tables.
        threads: `() -> int`: how many may share the work.
        norm: the fields of `norm` in rotate.c, to normalize it as well; else None.
    """
    library: Any = LIBRARY
    if plans.largest < 2 * SHARE and norm is None:
        library.posenc_rotate_packed(plans.packed(*plans.addresses, *places, cos, sin))
        return
    for plan, x, out in zip(plans.each, places[::2], places[1::2], strict=True):
        shares = min(threads(), plan.bytes // SHARE, plan.units)
        library.posenc_advise(plan.address, out)
        rotate = partial(library.posenc_rotate_part, plan.address, x, out, cos, sin, norm)
        if shares < 2:
            rotate(0, plan.units)
        else:
            _share(rotate, plan.units, shares)


def threads_of_process() -> int:
    """Return how many threads a computation may have, counted as OpenMP counts them."""
    given = os.environ.get("OMP_NUM_THREADS", "")
    if given.isdecimal():
        return int(given)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _share(run: Callable[[int, int], None], units: int, shares: int) -> None:
    """Run in threads that end with the call, so that a process may fork at any time; ctypes releases the GIL."""
    own, *others = pairwise([units * share // shares for share in range(shares + 1)])
    threads, left = [], [own]
    try:
        for part in others:
            threads.append(Thread(target=run, args=part))
            try:
                threads[-1].start()
            except RuntimeError:  # the process may have no more threads
                left.append(part)
        for part in left:
            run(*part)
    finally:
        _end(threads)


def _end(threads: list[Thread]) -> None:
    """Wait for all threads, whatever is raised meanwhile: they write to memory that is freed afterwards."""
    try:
        for thread in threads:
            if thread.is_alive():
                thread.join()
    finally:
        if any(thread.is_alive() for thread in threads):
            _end(threads)
