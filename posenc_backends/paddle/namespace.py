"""The names of the array API standard that the core uses, over Paddle."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
import paddle
from paddle import (  # noqa: F401
    Tensor,
    bfloat16,
    broadcast_to,
    concat,
    cos,
    float16,
    float32,
    float64,
    int32,
    log,
    log1p,
    matrix_transpose,
    maximum,
    minimum,
    ones_like,
    reshape,
    sin,
    stack,
    where,
    zeros_like,
)
from paddle.utils.dlpack import from_dlpack

from posenc_core.attention.relative import rows_that_overlap


def abs(x: Tensor, /) -> Tensor:  # noqa: A001
    """Return the absolute value; of integers as a maximum, since Paddle Inference drops `abs` of their difference."""
    return paddle.abs(x) if x.is_floating_point() else maximum(x, -x)


def arange(stop: Any, /, *, device: Any = None) -> Tensor:
    return paddle.arange(stop)


def asarray(x: Any, /, *, device: Any = None) -> Tensor:
    """Return a tensor of the numbers of a NumPy array."""
    return paddle.to_tensor(x, place=device)


def astype(x: Tensor, dtype: Any, /) -> Tensor:
    return paddle.cast(x, dtype)


def cumulative_sum(x: Tensor, /, *, axis: int) -> Tensor:
    return paddle.cumsum(x, axis)


def exp(x: Tensor, /) -> Tensor:
    """Return `e**x`, exactly 0 for -inf; Paddle returns 3e-39 (float32) or 6e-309 on a CPU, which shows masked keys."""
    return where(x == -math.inf, zeros_like(x), paddle.exp(x))


def expand_dims(x: Tensor, /, *, axis: int) -> Tensor:
    return paddle.unsqueeze(x, axis)


def full_like(x: Tensor, value: float, /) -> Tensor:
    """Return an array of one value; NaN and infinity, which `jit.save` cannot write, come from a logarithm.

    A division would take far longer.
    """
    if math.isfinite(value):
        return paddle.full_like(x, value)
    return paddle.log(paddle.full_like(x, -1 if math.isnan(value) else 0)) * -math.copysign(1, value)


def _in_dtypes_given(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return the function without `auto_cast`, which would cast what the core has made float32."""

    @wraps(function)
    def kept(*arrays: Any) -> Tensor:
        if not paddle.is_autocast_enabled():
            return function(*arrays)
        with paddle.amp.auto_cast(enable=False):
            return function(*arrays)

    return kept


@_in_dtypes_given
def matmul(x: Tensor, y: Tensor, /) -> Tensor:
    """Return `x @ y` with as many axes on both sides, since Paddle has no gradient otherwise; `y` may be one matrix."""
    missing = len(x.shape) - len(y.shape)
    return paddle.matmul(x, paddle.unsqueeze(y, [0] * missing) if missing > 0 and len(y.shape) > 2 else y)


def max(x: Tensor, /, *, axis: int, keepdims: bool) -> Tensor:  # noqa: A001
    """Return the maximum, taken by its index: the gradient of `paddle.max` is slow on a CPU."""
    largest = paddle.take_along_axis(x, paddle.argmax(x, axis, keepdim=True), axis, broadcast=False)
    return largest if keepdims else paddle.squeeze(largest, axis)


def permute_dims(x: Tensor, /, axes: tuple[int, ...]) -> Tensor:
    return paddle.transpose(x, axes)


def shape(x: Tensor, /) -> tuple[Any, ...]:
    """Return the sizes; a scalar tensor for each that is unknown while `x` is traced."""
    if -1 not in x.shape:
        return tuple(x.shape)
    return tuple(
        size if known == -1 else known for known, size in zip(x.shape, paddle.unbind(paddle.shape(x)), strict=True)
    )


def expand_offsets(by_offset: Tensor, queries: int, keys: int, first: int, /) -> Tensor | None:
    """Return the rows as NumPy copies them, at once; None where code is traced or a gradient must reach `by_offset`."""
    here = paddle.in_dynamic_mode() and type(by_offset) is Tensor and by_offset.place.is_cpu_place()
    if not here or by_offset.dtype != float32 or (paddle.is_grad_enabled() and not by_offset.stop_gradient):
        return None
    return from_dlpack(np.ascontiguousarray(rows_that_overlap(by_offset.numpy()[:, first:], queries, keys)))


def sum(x: Tensor, /, *, axis: int, keepdims: bool) -> Tensor:  # noqa: A001
    return paddle.sum(x, axis, keepdim=keepdims)


def take(x: Tensor, indices: Tensor, /, *, axis: int) -> Tensor:
    return paddle.index_select(x, indices, axis)


@_in_dtypes_given
def _fused_attention(q: Tensor, k: Tensor, v: Tensor, bias: Any, mask: Any, is_causal: bool, /) -> Tensor:
    """Return Paddle's attention, whose heads come after the sequence; -1e30 hides, as `jit.save` writes no infinity."""
    if bias is not None and mask is not None:
        bias = where(mask, bias, paddle.full_like(bias, -1e30))
    tokens = (permute_dims(x, (0, 2, 1, 3)) for x in (q, k, v))
    seen = mask if bias is None else bias
    mixed = paddle.nn.functional.scaled_dot_product_attention(*tokens, attn_mask=seen, is_causal=is_causal)
    return permute_dims(mixed, (0, 2, 1, 3))


if not paddle.is_compiled_with_cuda():  # no case has been run on the kernels that Paddle takes there
    fused_attention = _fused_attention
