"""The names of the array API standard that the core uses, over `mxnet.np`, and over `mxnet.sym.np` for symbols."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import mxnet as mx
import numpy as np
from mxnet import autograd
from numpy import float32, int32

from posenc_core.attention.relative import rows_that_overlap

__all__ = [
    "abs",
    "arange",
    "asarray",
    "astype",
    "broadcast_to",
    "concat",
    "cos",
    "cumulative_sum",
    "exp",
    "expand_dims",
    "expand_offsets",
    "float32",
    "full_like",
    "int32",
    "log",
    "matmul",
    "matrix_transpose",
    "max",
    "maximum",
    "minimum",
    "ones_like",
    "permute_dims",
    "reshape",
    "sin",
    "stack",
    "sum",
    "take",
    "where",
    "zeros_like",
]


def _library(x: Any) -> ModuleType:
    return mx.sym.np if isinstance(x, mx.sym.Symbol) else mx.np


def _shared(name: str) -> Callable[..., Any]:
    """The function of this name, from the library of its first argument."""
    return lambda x, *rest, **options: getattr(_library(x), name)(x, *rest, **options)


abs = _shared("abs")  # noqa: A001
broadcast_to = _shared("broadcast_to")
cos = _shared("cos")
exp = _shared("exp")
expand_dims = _shared("expand_dims")
full_like = _shared("full_like")
log = _shared("log")
matmul = _shared("matmul")
max = _shared("max")  # noqa: A001
maximum = _shared("maximum")
minimum = _shared("minimum")
ones_like = _shared("ones_like")
reshape = _shared("reshape")
sin = _shared("sin")
zeros_like = _shared("zeros_like")


def arange(stop: int, /, *, device: Any = None) -> mx.np.ndarray:
    return mx.np.arange(stop, dtype="int64")


def asarray(x: Any, /, *, device: Any = None) -> mx.np.ndarray:
    return mx.np.array(x, dtype=x.dtype)


def astype(x: Any, dtype: Any, /) -> Any:
    """`None` is the dtype of a symbol. Through integers there is no gradient, which MXNet would pass on, and `take` refuse."""
    if dtype is None:
        return x
    return (_detached(x) if np.dtype(dtype).kind in "iu" else x).astype(dtype)


def _detached(x: Any) -> Any:
    return mx.sym.BlockGrad(x.as_nd_ndarray()).as_np_ndarray() if isinstance(x, mx.sym.Symbol) else x.detach()


def concat(arrays: Sequence[Any], /, *, axis: int) -> Any:
    return _library(arrays[0]).concatenate(arrays, axis=axis)


def cumulative_sum(x: Any, /, *, axis: int) -> Any:
    """MXNet's own counts no axis from the end, and a symbol does not tell how many it has: along the first, then."""
    xp = _library(x)
    return xp.swapaxes(xp.cumsum(xp.swapaxes(x, axis, 0), axis=0), axis, 0)


def matrix_transpose(x: Any, /) -> Any:
    return _library(x).swapaxes(x, -2, -1)


def permute_dims(x: Any, /, axes: tuple[int, ...]) -> Any:
    return _library(x).transpose(x, axes)


def expand_offsets(by_offset: Any, queries: int, keys: int, /) -> Any:
    """That of NumPy, which is one copy; None for symbols, where a gradient may be recorded, and where nothing is."""
    here = isinstance(by_offset, mx.np.ndarray) and by_offset.ctx.device_type == "cpu" and not autograd.is_recording()
    if not here or by_offset.dtype != np.float32 or not queries * keys:
        return None
    rows = rows_that_overlap(by_offset.asnumpy(), queries, keys)
    return mx.nd.from_numpy(np.ascontiguousarray(rows)).as_np_ndarray()


def stack(arrays: Sequence[Any], /, *, axis: int) -> Any:
    return _library(arrays[0]).stack(arrays, axis=axis)


def sum(x: Any, /, *, axis: int, keepdims: bool) -> Any:  # noqa: A001
    """Nothing adds up to nothing; MXNet's own fails there, and its `max` does not."""
    return (max if _is_empty(x) else _library(x).sum)(x, axis=axis, keepdims=keepdims)


def take(x: Any, indices: Any, /, *, axis: int) -> Any:
    return _library(x).take(x, indices, axis=axis, mode="clip")  # the default would wait for the indices


def where(condition: Any, x: Any, y: Any, /) -> Any:
    """Of arrays alone: MXNet exchanges the gradients where one is a number. It crashes where there is nothing."""
    return x if _is_empty(x) else _library(x).where(condition, x, y)


def _is_empty(x: Any) -> bool:
    return isinstance(x, mx.np.ndarray) and not x.size
