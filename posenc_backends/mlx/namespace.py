"""The names of the array API standard that the core uses: `mlx.core`, but for those that name a device."""

from __future__ import annotations

import math
from typing import Any

import mlx.core as mx
from mlx.core import (  # noqa: F401
    abs,  # noqa: A004
    astype,
    bfloat16,
    broadcast_to,
    concat,
    cos,
    cumulative_sum,
    expand_dims,
    float16,
    float32,
    float64,
    full_like,
    int32,
    log,
    log1p,
    matmul,
    max,  # noqa: A004
    maximum,
    minimum,
    ones_like,
    permute_dims,
    reshape,
    sin,
    stack,
    sum,  # noqa: A004
    where,
    zeros_like,
)


def arange(stop: Any, /, *, device: Any = None) -> mx.array:
    """Return `0 … stop - 1`; arrays of MLX lie on no device, only operations do."""
    return mx.arange(stop)


def asarray(x: Any, /, *, device: Any = None) -> mx.array:
    """Return the numbers of a NumPy array in its dtype; of float64, `mx.array` alone would make float32."""
    return mx.array(x, dtype=getattr(mx, x.dtype.name, None)) if hasattr(x, "dtype") else mx.array(x)


def exp(x: mx.array, /) -> mx.array:
    """Return `e**x`; for float64, `mx.exp` has the digits of float32 only."""
    return mx.power(math.e, x) if x.dtype == mx.float64 else mx.exp(x)


def matrix_transpose(x: mx.array, /) -> mx.array:
    """Return the transposes of matrices; that of MLX 0.32.2 reverses all axes."""
    return mx.swapaxes(x, -1, -2)


def split_pairs(x: mx.array, layout: str, /) -> tuple[mx.array, mx.array]:
    """Return the first and the second channels of all pairs; the gradient of a slice would copy it into zeros."""
    if layout == "half":
        first, second = mx.split(x, 2, axis=-1)
    elif x.shape[-2] == 1:  # one token, which is decoded without a gradient: slices take less time
        first, second = x[..., ::2], x[..., 1::2]
    else:
        first, second = (mx.squeeze(part, axis=-1) for part in mx.split(mx.unflatten(x, -1, (-1, 2)), 2, axis=-1))
    return first, second


def take(x: mx.array, indices: mx.array, /, *, axis: int) -> mx.array:
    """Return numbers by index; MLX raises an error where a gradient could reach the indices."""
    return mx.take(x, mx.stop_gradient(indices), axis)
