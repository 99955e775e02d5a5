"""The fused CPU rotation for NumPy arrays; `posenc_core.rotation` rotates the arrays that it does not support."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from posenc_backends._kernels import CpuKernel, Memory

Host = npt.NDArray[Any]


def _memory(x: Any) -> Memory | None:
    if type(x) is not np.ndarray or not x.flags.aligned:
        return None
    size = x.itemsize
    return x.ctypes.data, (x.shape, tuple([stride // size for stride in x.strides]))


def _empty_like(x: Host) -> tuple[Host, int]:
    result = np.empty(x.shape, x.dtype)
    return result, result.ctypes.data


CpuKernel(
    dtypes={np.dtype(name): name for name in ("float64", "float32", "float16")},  # in the byte order of the machine
    memory=_memory,
    empty_like=_empty_like,
    cast=np.ndarray.astype,
    may_take=lambda out: out.flags.writeable and out.flags.forc,
).register(np.ndarray)
