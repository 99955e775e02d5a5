"""Pages of fresh memory, which the system hands out at the first touch, one by one: of 2 MiB, where it has them for the asking."""

from __future__ import annotations

import ctypes
import mmap
from functools import cache
from typing import Any

WORTH = 1 << 22  # bytes; NumPy asks from as many on


def ask_for_large_pages(address: int, size: int) -> None:
    """Ask for them where memory is large, and the system is one that can be asked; it need not heed this."""
    if size < WORTH or (advise := _madvise()) is None:
        return
    begin = -(-address // mmap.PAGESIZE) * mmap.PAGESIZE
    advise(begin, address + size - begin, mmap.MADV_HUGEPAGE)


@cache
def _madvise() -> Any:
    """`madvise` of the C library; None where there is none, or it knows no large pages."""
    if not hasattr(mmap, "MADV_HUGEPAGE"):
        return None
    function = getattr(ctypes.CDLL(None), "madvise", None)
    if function is not None:
        function.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    return function
