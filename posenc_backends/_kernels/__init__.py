"""One fused rotation on the CPU, shared by the backends: it works on memory, whichever framework that belongs to.

`rotate.c` is compiled into a library with the wheel (`hatch_build.py`), `library` loads it and chooses its level,
`plan` makes the integers that it walks through arrays by, and `adapter` has what the backends share: a backend tells
a `CpuKernel` where its arrays lie and when the kernel may run. With `POSENC_KERNEL=off`, and where the library is
missing, the operators of the framework rotate.
"""

from .adapter import CpuKernel, Memory
from .library import describe, level, threads_of_process
from .plan import DTYPES, contiguous

__all__ = ["DTYPES", "CpuKernel", "Memory", "contiguous", "describe", "level", "threads_of_process"]
