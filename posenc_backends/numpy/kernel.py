"""Rotations of NumPy arrays by the kernel that rooms share; part by part without it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from posenc_backends._kernels import SMALLEST, Memory, threads_of_process, turn
from posenc_core._array_api import numpy_kernel
from posenc_core._array_api.kernels import Kernel, register_kernel
from posenc_core.rotation import Pairing

Host = npt.NDArray[Any]
KINDS = {np.dtype(name): name for name in ("float64", "float32", "float16")}  # in the byte order of the machine


def supports(x: Host) -> bool:
    """Whether it is worth it, and numbers lie in memory as the processor reads them."""
    return x.size >= SMALLEST and x.dtype in KINDS and x.flags.aligned


def turned(x: Host, cos: Host, sin: Host, pairing: Pairing, out: Host | None = None) -> Host | None:
    """`x`, turned; None where `out` overlaps it, and is not `x`, or overlaps a table."""
    if type(cos) is not np.ndarray or type(sin) is not np.ndarray or not _may_write(out, x, pairing, cos, sin):
        return None
    result = np.empty(x.shape, x.dtype) if out is None else out
    wide = np.float64 if x.dtype == np.float64 else np.float32
    cos, sin = (np.require(table, wide, "A") for table in (cos, sin))
    memory = _memory(x), _memory(result), _memory(cos), _memory(sin)
    if turn(KINDS[x.dtype], pairing, threads_of_process(), memory, fresh=False):  # NumPy asks for large pages itself
        return result
    return None


def _may_write(out: Host | None, x: Host, pairing: Pairing, *tables: Host) -> bool:
    """Whether `out` is `x`, or lies apart from it, and from the tables, and each of its numbers apart from the others."""
    if out is None:
        return True
    if type(out) is not np.ndarray or not (out.flags.writeable and out.flags.aligned and out.flags.forc):
        return False
    if any(np.may_share_memory(table, out) for table in tables):
        return False
    return (numpy_kernel.lies_as(out, x) and pairing.split == pairing.join) or not np.may_share_memory(out, x)


def _memory(array: Host) -> Memory:
    size = array.itemsize
    return array.ctypes.data, (array.shape, tuple([stride // size for stride in array.strides]))


register_kernel(np.ndarray, Kernel(supports, turned))
