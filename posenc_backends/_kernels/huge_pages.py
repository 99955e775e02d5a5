"""Huge pages: ask Linux to back a new large array with pages of 2 MiB, so that first writes cause fewer page faults."""

from __future__ import annotations

import ctypes
import mmap
from functools import cache
from typing import Any

WORTH = 1 << 22  # bytes; the same limit as NumPy's


def ask_for_huge_pages(address: int, size: int) -> None:
    """Ask for huge pages if the memory is large and the system supports it; the system may ignore this."""
    if size < WORTH or (advise := _madvise()) is None:
        return
    begin = -(-address // mmap.PAGESIZE) * mmap.PAGESIZE
    advise(begin, address + size - begin, mmap.MADV_HUGEPAGE)


@cache
def _madvise() -> Any:
    """Return `madvise` of the C library, or None where huge pages are not supported."""
    if not hasattr(mmap, "MADV_HUGEPAGE"):
        return None
    function = getattr(ctypes.CDLL(None), "madvise", None)
    if function is not None:
        function.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    return function
