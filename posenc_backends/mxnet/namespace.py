"""The names of the array API standard that the core uses: `mxnet.np`, but for what it lacks or gets wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import mxnet as mx
import numpy as np
from mxnet import autograd
from mxnet.numpy import (  # noqa: F401
    abs,  # noqa: A004
    broadcast_to,
    cos,
    exp,
    expand_dims,
    full_like,
    log,
    log1p,
    matmul,
    max,  # noqa: A004
    maximum,
    minimum,
    ones_like,
    reshape,
    sin,
    stack,
    zeros_like,
)
from mxnet.numpy import transpose as permute_dims  # noqa: F401
from numpy import float16, float32, float64, int32  # noqa: F401

from posenc_core.attention.relative import rows_that_overlap

Array: TypeAlias = Any  # `mx.np.ndarray`


def arange(stop: int, /, *, device: Any = None) -> Array:
    try:
        return mx.np.arange(stop, dtype="int64")
    except mx.MXNetError as error:  # as the other libraries raise
        raise TypeError("`stop` must be an integer.") from error


def asarray(x: Any, /, *, device: Any = None) -> Array:
    return mx.np.array(x, dtype=x.dtype)


def astype(x: Array, dtype: Any, /) -> Array:
    """Return it in another dtype; integers have no gradient: MXNet would pass it on, and `take` refuse it."""
    return (x.detach() if np.dtype(dtype).kind in "iu" else x).astype(dtype)


def concat(arrays: Sequence[Array], /, *, axis: int) -> Array:
    return mx.np.concatenate(arrays, axis=axis)


def cumulative_sum(x: Array, /, *, axis: int) -> Array:
    return mx.np.cumsum(x, axis=axis % x.ndim)  # MXNet's own counts no axis from the end


def matrix_transpose(x: Array, /) -> Array:
    return mx.np.swapaxes(x, -2, -1)


def expand_offsets(by_offset: Array, queries: int, keys: int, first: int, /) -> Array | None:
    """Return rows that overlap, by one copy of NumPy's; None where a gradient may be recorded, or there are no rows."""
    if by_offset.ctx.device_type != "cpu" or autograd.is_recording():
        return None
    if by_offset.dtype != np.float32 or not queries * keys:
        return None
    rows = rows_that_overlap(by_offset.asnumpy()[:, first:], queries, keys)
    return mx.nd.from_numpy(np.ascontiguousarray(rows)).as_np_ndarray()


def sum(x: Array, /, *, axis: int, keepdims: bool) -> Array:  # noqa: A001
    """Return the sum; MXNet's own fails where there is nothing to add up, and its `max` does not."""
    return (mx.np.sum if x.size else max)(x, axis=axis, keepdims=keepdims)


def take(x: Array, indices: Array, /, *, axis: int) -> Array:
    return mx.np.take(x, indices, axis=axis, mode="clip")  # the default would wait for the indices


def where(condition: Array, x: Array, y: Array, /) -> Array:
    """Return `x` or `y`, both arrays: MXNet exchanges the gradients where one is a number. It crashes on empty ones."""
    return mx.np.where(condition, x, y) if x.size else x
