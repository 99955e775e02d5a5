"""Rotations by the kernel that rooms share, of MXNet arrays on the processor."""

from __future__ import annotations

import ctypes
import math
from typing import Any, TypeAlias

import mxnet as mx
import numpy as np
from mxnet import autograd
from mxnet.base import _LIB, check_call

from posenc_backends._kernels import SMALLEST, Memory, may_write, threads_of_process, turn
from posenc_core._array_api.kernels import Kernel, register_kernel
from posenc_core.rotation import Pairing, rotate_pairs

Array: TypeAlias = mx.np.ndarray
KINDS = {np.dtype(name): name for name in ("float64", "float32", "float16")}


def supports(x: Array) -> bool:
    """Whether its numbers lie in memory."""
    return x.size >= SMALLEST and _is_here(x)


def _is_here(x: Any) -> bool:
    return type(x) is Array and np.dtype(x.dtype) in KINDS and x.ctx.device_type == "cpu" and x.stype == "default"


def turned(x: Array, cos: Array, sin: Array, pairing: Pairing, out: Array | None = None) -> Array | None:
    """`x`, turned; None where a gradient may reach a table, or `out` overlaps `x`, and is not `x`, or overlaps a table."""
    if not (_is_here(cos) and _is_here(sin)):
        return None
    if autograd.is_recording():
        learned = out is not None or _learns(cos) or _learns(sin)
        return None if learned else _Turning(cos, sin, pairing)(x.copy())
    wide = np.float64 if x.dtype == np.float64 else np.float32
    cos, sin = (table if table.dtype == wide else table.astype(wide) for table in (cos, sin))
    result = mx.np.empty(x.shape, x.dtype, ctx=x.ctx) if out is None else out
    if not _is_here(result):
        return None
    check_call(_LIB.MXNDArrayWaitToWrite(result.handle))  # until nobody reads it, either
    kind, memory = KINDS[np.dtype(x.dtype)], (_memory(x), _memory(result), _memory(cos), _memory(sin))
    if out is not None and not may_write(kind, pairing, memory):
        return None
    return result if turn(kind, pairing, threads_of_process(), memory, fresh=out is None) else None


def _learns(table: Array) -> bool:
    """Whether the table has a gradient, or was worked out while that was recorded: only then there is a graph of it."""
    graph = ctypes.c_void_p()
    if _LIB.MXAutogradGetSymbol(table.handle, ctypes.byref(graph)) != 0:
        return False
    check_call(_LIB.MXSymbolFree(graph))
    return True


def _memory(x: Array) -> Memory:
    """Where the numbers lie, once all that is under way has been written."""
    x.wait_to_read()
    address = ctypes.c_void_p()
    check_call(_LIB.MXNDArrayGetData(x.handle, ctypes.byref(address)))
    shape = x.shape
    return address.value or 0, (shape, tuple([math.prod(shape[axis + 1 :]) for axis in range(len(shape))]))


class _Turning(autograd.Function):
    """Its gradient is turned back; of all that it has seen it keeps the tables.

    It is given a copy, whose gradient is asked for once: MXNet drops what such a function would have to add to another.
    """

    def __init__(self, cos: Array, sin: Array, pairing: Pairing) -> None:
        super().__init__()
        self.cos, self.sin, self.pairing = cos, sin, pairing

    def forward(self, x: Array) -> Array:
        return rotate_pairs(x, self.cos, self.sin, pairing=self.pairing)

    def backward(self, gradient: Any) -> Any:
        """In a thread of MXNet's own, which has not heard of `mxnet.npx.set_np()`."""
        with mx.util.np_shape(True), mx.util.np_array(True):
            back = self.pairing.inverse
            return rotate_pairs(gradient.as_np_ndarray(), self.cos, -self.sin, pairing=back).as_nd_ndarray()


register_kernel(Array, Kernel(supports, turned))
