"""The names of the array API standard that the core uses, over Paddle."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
import paddle
from paddle import (
    Tensor,
    broadcast_to,
    concat,
    cos,
    float32,
    int32,
    log,
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
    "shape",
    "sin",
    "stack",
    "sum",
    "take",
    "where",
    "zeros_like",
]


def abs(x: Tensor, /) -> Tensor:  # noqa: A001
    """By a maximum for integers: of a difference of these, Paddle Inference leaves its own out."""
    return paddle.abs(x) if x.is_floating_point() else maximum(x, -x)


def arange(stop: Any, /, *, device: Any = None) -> Tensor:
    return paddle.arange(stop)


def asarray(x: Any, /, *, device: Any = None) -> Tensor:
    """The numbers of a NumPy array."""
    return paddle.to_tensor(x, place=device)


def astype(x: Tensor, dtype: Any, /) -> Tensor:
    return paddle.cast(x, dtype)


def cumulative_sum(x: Tensor, /, *, axis: int) -> Tensor:
    return paddle.cumsum(x, axis)


def exp(x: Tensor, /) -> Tensor:
    """Paddle's own stops at 3e-39 (float32) or 6e-309 on a CPU, and would show masked keys."""
    return where(x == -math.inf, zeros_like(x), paddle.exp(x))


def expand_dims(x: Tensor, /, *, axis: int) -> Tensor:
    return paddle.unsqueeze(x, axis)


def full_like(x: Tensor, value: float, /) -> Tensor:
    """`jit.save` writes no NaN and no infinity: they are made by a logarithm; a division takes far longer."""
    if math.isfinite(value):
        return paddle.full_like(x, value)
    return paddle.log(paddle.full_like(x, -1 if math.isnan(value) else 0)) * -math.copysign(1, value)


def _in_dtypes_given(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Where the core has chosen float32, an `auto_cast` about it does not choose again."""

    @wraps(function)
    def kept(*arrays: Any) -> Tensor:
        if not paddle.is_autocast_enabled():
            return function(*arrays)
        with paddle.amp.auto_cast(enable=False):
            return function(*arrays)

    return kept


@_in_dtypes_given
def matmul(x: Tensor, y: Tensor, /) -> Tensor:
    """With as many axes on both sides, without which Paddle has no gradient; a lone matrix may stand on the right."""
    missing = len(x.shape) - len(y.shape)
    return paddle.matmul(x, paddle.unsqueeze(y, [0] * missing) if missing > 0 and len(y.shape) > 2 else y)


def max(x: Tensor, /, *, axis: int, keepdims: bool) -> Tensor:  # noqa: A001
    """Looked up where it is: the gradient of Paddle's own is slow on a CPU."""
    largest = paddle.take_along_axis(x, paddle.argmax(x, axis, keepdim=True), axis, broadcast=False)
    return largest if keepdims else paddle.squeeze(largest, axis)


def permute_dims(x: Tensor, /, axes: tuple[int, ...]) -> Tensor:
    return paddle.transpose(x, axes)


def shape(x: Tensor, /) -> tuple[Any, ...]:
    """The sizes; a scalar tensor for each that is not known while `x` is traced."""
    if -1 not in x.shape:
        return tuple(x.shape)
    return tuple(
        size if known == -1 else known for known, size in zip(x.shape, paddle.unbind(paddle.shape(x)), strict=True)
    )


def expand_offsets(by_offset: Tensor, queries: int, keys: int, /) -> Tensor | None:
    """That of NumPy, which is one copy; None where code is traced, or a gradient is to reach it."""
    here = paddle.in_dynamic_mode() and type(by_offset) is Tensor and by_offset.place.is_cpu_place()
    if not here or by_offset.dtype != float32 or (paddle.is_grad_enabled() and not by_offset.stop_gradient):
        return None
    return from_dlpack(np.ascontiguousarray(rows_that_overlap(by_offset.numpy(), queries, keys)))


def sum(x: Tensor, /, *, axis: int, keepdims: bool) -> Tensor:  # noqa: A001
    return paddle.sum(x, axis, keepdim=keepdims)


def take(x: Tensor, indices: Tensor, /, *, axis: int) -> Tensor:
    return paddle.index_select(x, indices, axis)


@_in_dtypes_given
def _fused_attention(q: Tensor, k: Tensor, v: Tensor, bias: Any, mask: Any, /) -> Tensor:
    """Call Paddle's attention, where heads follow the sequence; -1e30 hides a key, as `jit.save` writes no infinity."""
    if bias is not None and mask is not None:
        bias = where(mask, bias, paddle.full_like(bias, -1e30))
    tokens = (permute_dims(x, (0, 2, 1, 3)) for x in (q, k, v))
    mixed = paddle.nn.functional.scaled_dot_product_attention(*tokens, attn_mask=mask if bias is None else bias)
    return permute_dims(mixed, (0, 2, 1, 3))


if not paddle.is_compiled_with_cuda():  # there Paddle takes other kernels, on which no case has been run
    fused_attention = _fused_attention
