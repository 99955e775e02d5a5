"""One fused rotation on the CPU, shared by the backends: it works on memory, whichever framework that belongs to.

It needs numba (`pip install "posenc[fast]"`). It is compiled at its first use and kept on disk.
"""

from .adapter import SMALLEST, CpuKernel, Memory
from .launch import DTYPES, threads_of_process
from .plan import contiguous

__all__ = ["DTYPES", "SMALLEST", "CpuKernel", "Memory", "contiguous", "threads_of_process"]
