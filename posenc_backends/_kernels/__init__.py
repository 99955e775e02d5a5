"""One fused rotation on the CPU, shared by the backends: it works on memory, whichever framework that belongs to.

It is a C library of its own, compiled with the wheel; `POSENC_KERNEL=off` runs the operators of the framework instead.
"""

from .adapter import CpuKernel, Memory
from .library import describe, level, threads_of_process
from .plan import DTYPES, contiguous

__all__ = ["DTYPES", "CpuKernel", "Memory", "contiguous", "describe", "level", "threads_of_process"]
