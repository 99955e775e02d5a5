"""The fused CPU rotation for MXNet arrays."""

from __future__ import annotations

import ctypes
from typing import Any, TypeAlias

import mxnet as mx
import numpy as np
from mxnet import autograd
from mxnet.base import _LIB, check_call

from posenc_backends._kernels import CpuKernel, Memory, contiguous
from posenc_core.rotation import Pairing, rotate_checked

Array: TypeAlias = mx.np.ndarray
DTYPES = {np.dtype(name): name for name in ("float64", "float32", "float16")}


def _memory(x: Any) -> Memory | None:
    if type(x) is not Array or x.dtype not in DTYPES or x.ctx.device_type != "cpu" or x.stype != "default":
        return None
    x.wait_to_read()
    address = ctypes.c_void_p()
    check_call(_LIB.MXNDArrayGetData(x.handle, ctypes.byref(address)))
    return address.value or 0, (x.shape, contiguous(x.shape))


def _empty_like(x: Array) -> tuple[Array, int]:
    result = mx.np.empty(x.shape, x.dtype, ctx=x.ctx)
    address, _ = _memory(result) or (0, None)
    return result, address


def _may_take(out: Array) -> bool:
    """Wait until no operator uses `out`."""
    check_call(_LIB.MXNDArrayWaitToWrite(out.handle))
    return True


def _is_learned(table: Array) -> bool:
    """Return whether the table has a gradient, or was computed while one was recorded: only then it has a graph."""
    graph = ctypes.c_void_p()
    if _LIB.MXAutogradGetSymbol(table.handle, ctypes.byref(graph)) != 0:
        return False
    check_call(_LIB.MXSymbolFree(graph))
    return True


class _RotateFunction(autograd.Function):
    """The gradient is the rotation back; only the tables are kept for it."""

    def __init__(self, cos: Array, sin: Array, pairing: Pairing) -> None:
        super().__init__()
        self.cos, self.sin, self.pairing = cos, sin, pairing

    def forward(self, x: Array) -> Array:
        return rotate_checked(x, self.cos, self.sin, self.pairing)

    def backward(self, gradient: Any) -> Any:
        """Rotate back, in a thread of MXNet's own, where `mxnet.npx.set_np()` is not set."""
        with mx.util.np_shape(True), mx.util.np_array(True):
            gradient = gradient.as_np_ndarray()
            return rotate_checked(gradient, self.cos, -self.sin, self.pairing.inverse).as_nd_ndarray()


CpuKernel(
    dtypes=DTYPES,
    memory=_memory,
    empty_like=_empty_like,
    cast=Array.astype,
    is_followed=lambda *arrays: autograd.is_recording(),
    is_learned=_is_learned,
    # a copy of `x`, whose gradient is asked for once: MXNet drops what such a function would add to another
    differentiable=lambda x, cos, sin, pairing: _RotateFunction(cos, sin, pairing)(x.copy()),
    may_take=_may_take,
).register(Array)
