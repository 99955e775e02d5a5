"""The fused CPU rotation for NumPy arrays; `posenc_core.rotation` rotates the arrays that it does not support."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from posenc_backends._kernels import CpuKernel, Memory

Host = npt.NDArray[Any]


def _memory(x: Host) -> Memory:
    return x.ctypes.data, (x.shape, tuple([stride // x.itemsize for stride in x.strides]))


CpuKernel(
    dtypes={np.dtype(name): name for name in ("float64", "float32", "float16")},  # in the byte order of the machine
    is_plain=lambda x: type(x) is np.ndarray and x.flags.aligned,
    memory=_memory,
    empty_like=lambda x: np.empty(x.shape, x.dtype),
    cast=np.ndarray.astype,
    may_take=lambda out: out.flags.writeable and out.flags.forc,
).register(np.ndarray)
