"""Launch the kernel: compile it once, and share its work among threads."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from functools import cache, partial
from itertools import pairwise
from threading import Thread
from typing import Any, TypeAlias

import numpy as np

from .huge_pages import ask_for_huge_pages
from .plan import ALIGNED, Plan

SHARE = 1 << 21  # bytes that are worth a thread

_SAMPLES: dict[
    str, tuple[Any, Any]
] = {  # a number of each dtype in memory, integers for half precision; one of its tables
    "float64": (np.float64(0), np.float64(0)),
    "float32": (np.float32(0), np.float32(0)),
    "bfloat16": (np.uint16(0), np.float32(0)),
    "float16": (np.int16(0), np.float32(0)),
}
DTYPES = tuple(_SAMPLES)
_failures: list[Exception] = []

Compiled: TypeAlias = Callable[..., None]


@cache
def compiled(dtype: str) -> Compiled | None:
    """Return the kernel, ready for arrays of this dtype; None where it cannot be compiled."""
    if sys.byteorder != "little" or _failures:
        return None
    try:
        from .rotate import rotate

        nothing = np.zeros((5, 4), np.int64)
        rotate(0, 0, 0, 0, *_SAMPLES[dtype], np.ones(13, np.int64), nothing, nothing, 0, 0)
    except Exception as error:  # noqa: BLE001 - a compiler fails in many ways, and none is worth an error
        _failures.append(error)
        warnings.warn(f"numba cannot compile the rotation here, which is slower without: {error!r}.", stacklevel=2)
        return None
    kernel: Compiled = rotate
    return kernel


def run(
    kernel: Compiled, dtype: str, plan: Plan, addresses: tuple[int, int, int, int], threads: int, *, fresh: bool
) -> None:
    """Rotate what lies in memory.

    Args:
        kernel: what `compiled` returned for the dtype.
        dtype: the name of the dtype of `x` and the result.
        plan: what `plan_of` returned for their shapes and strides.
        addresses: of `x` and the result, which lie apart or are one array, of the cosines and of the sines.
        threads: how many may share the work.
        fresh: whether the result is new memory that nobody has touched.
    """
    x, out, cos, sin = addresses
    if fresh:
        ask_for_huge_pages(out, plan.bytes)
    sizes = plan.large if x != out and out % ALIGNED == 0 else plan.sizes
    given = (x, out, cos, sin, *_SAMPLES[dtype], sizes, plan.loops, plan.row)
    shares = min(threads, plan.bytes // SHARE, plan.units) if threads > 1 else 1
    if shares < 2:
        kernel(*given, 0, plan.units)
    else:
        _share(partial(kernel, *given), plan.units, shares)


def threads_of_process() -> int:
    """Return how many threads a computation may have, counted as OpenMP counts them."""
    given = os.environ.get("OMP_NUM_THREADS", "")
    if given.isdecimal():
        return int(given)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _share(run: Callable[[int, int], None], units: int, shares: int) -> None:
    """Run in threads that end with the call, so that a process may fork at any time; the kernel releases the GIL."""
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
