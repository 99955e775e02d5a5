"""One kernel for the processor, shared by the rooms: it turns memory, whichever framework it belongs to.

It is there if numba is (`pip install "posenc[fast]"`); it is compiled when it is first wanted, and kept on disk.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from functools import cache, partial
from importlib.util import find_spec
from itertools import pairwise
from threading import Thread
from typing import Any, TypeAlias

import numpy as np

from posenc_core.rotation import Pairing

from .huge_pages import ask_for_large_pages
from .plan import ALIGNED, BYTES, Lying, plan_of

SMALLEST = 2048  # numbers; fewer are not worth that a process loads a compiler
SHARE = 1 << 21  # bytes that are worth a thread

_KINDS: dict[str, tuple[Any, Any]] = {  # numbers of the types in memory, where integers stand for half, and of tables
    "float64": (np.float64(0), np.float64(0)),
    "float32": (np.float32(0), np.float32(0)),
    "bfloat16": (np.uint16(0), np.float32(0)),
    "float16": (np.int16(0), np.float32(0)),
}
NAMES = tuple(_KINDS)
_failures: list[Exception] = []


Memory: TypeAlias = tuple[int, Lying]  # the address of the first number; shape and strides, in numbers


def turn(
    kind: str, pairing: Pairing, threads: int, memory: tuple[Memory, Memory, Memory, Memory], *, fresh: bool
) -> bool:
    """Turn x into the result, if the kernel is there and can; whether it has.

    Args:
        kind: the name of the dtype.
        pairing: which channels are pairs.
        threads: how many may share the work.
        memory: x and the result, of one shape, which lie apart, or at one place in one way; cos and sin, which broadcast to
            x, but for the last axis: float32, or float64 where x is.
        fresh: whether the result is a framework's new array, one piece of memory that nobody has touched.
    """
    (x, tokens), (out, results), (cos, cosines), (sin, sines) = memory
    kernel, plan = _kernel_of(kind), plan_of(kind, tokens, results[1], cosines, sines, pairing)
    if kernel is None or plan is None:
        return False
    if fresh:
        ask_for_large_pages(out, plan.bytes)
    sizes = plan.large if x != out and out % ALIGNED == 0 else plan.sizes
    narrow, wide = _KINDS[kind]
    shares = min(threads, plan.bytes // SHARE, plan.units) if threads > 1 else 1
    if shares < 2:
        kernel(x, out, cos, sin, narrow, wide, sizes, plan.loops, plan.row, 0, plan.units)
    else:
        _share(partial(kernel, x, out, cos, sin, narrow, wide, sizes, plan.loops, plan.row), plan.units, shares)
    return True


def may_write(kind: str, pairing: Pairing, memory: tuple[Memory, Memory, Memory, Memory]) -> bool:
    """Whether the result is x, turned in place, or lies apart from it, and from the tables."""
    x, out, *tables = memory
    size, wide = BYTES[kind], max(BYTES[kind], 4)
    there = _extent(out, size)
    if any(_overlap(there, _extent(table, wide)) for table in tables):
        return False
    return (x == out and pairing.split == pairing.join) or not _overlap(there, _extent(x, size))


def _extent(memory: Memory, size: int) -> tuple[int, int]:
    """From where to where numbers of so many bytes lie, whose strides are not negative."""
    address, (shape, strides) = memory
    return address, address + size * (1 + sum((n - 1) * stride for n, stride in zip(shape, strides, strict=True)))


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def threads_of_process() -> int:
    """How many threads a computation may have, as the libraries that frameworks stand on count them."""
    told = os.environ.get("OMP_NUM_THREADS", "")
    if told.isdecimal():
        return int(told)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _share(run: Callable[[int, int], None], units: int, shares: int) -> None:
    """In threads that end with the call, so that a process may fork at any time; the kernel releases the GIL."""
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
    """Wait for all that run, whatever is raised meanwhile: they write to memory that is let go of afterwards."""
    try:
        for thread in threads:
            if thread.is_alive():
                thread.join()
    finally:
        if any(thread.is_alive() for thread in threads):
            _end(threads)


@cache  # what is compiled is the same for all
def _kernel_of(kind: str) -> Callable[..., None] | None:
    """The kernel, ready for this dtype; None without numba, or where it cannot be compiled."""
    if find_spec("numba") is None or sys.byteorder != "little" or _failures:
        return None
    try:
        from .rotate import turn as kernel

        nothing = np.zeros((5, 4), np.int64)
        kernel(0, 0, 0, 0, *_KINDS[kind], np.ones(13, np.int64), nothing, nothing, 0, 0)
    except Exception as error:  # noqa: BLE001 - a compiler fails in many ways, and none is worth an error
        _failures.append(error)
        warnings.warn(f"numba does not compile the rotation here, which is slower without: {error!r}.", stacklevel=2)
        return None
    return kernel
