"""The fused CPU rotation for eager Paddle tensors, and that of programs by few operators."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import paddle
from paddle import Tensor
from paddle.autograd import PyLayer

from posenc_backends._kernels import DTYPES, CpuKernel, Memory
from posenc_core._array_api.kernels import Kernel, register_kernel
from posenc_core.rotation import Pairing, pairing_of, rotate_checked

HALF, INTERLEAVED = pairing_of("half"), pairing_of("interleaved")
FEW = 1 << 17  # numbers: with fewer, a further operator takes longer than its loop
Value: TypeAlias = Any  # of a program


class _RotateFunction(PyLayer):
    """The gradient is the rotation back; only the tables are kept for it."""

    @staticmethod
    def forward(context: Any, x: Tensor, cos: Tensor, sin: Tensor, pairing: Pairing) -> Tensor:
        context.save_for_backward(cos, sin)
        context.pairing = pairing
        return rotate_checked(x.detach(), cos, sin, pairing)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Any, ...]:
        cos, sin = context.saved_tensor()
        return rotate_checked(gradient, cos, -sin, context.pairing.inverse), None, None


def _memory(x: Any) -> Memory | None:
    if type(x) is Tensor and x.is_dense() and x.place.is_cpu_place() and x._is_initialized():
        return x.data_ptr(), (tuple(x.shape), tuple(x.strides))
    return None


def _empty_like(x: Tensor) -> tuple[Tensor, int] | None:
    result = paddle.empty_like(x)
    return (result, result.data_ptr()) if result.place.is_cpu_place() else None


CpuKernel(
    dtypes={getattr(paddle, name): name for name in DTYPES},
    is_eager=lambda x: paddle.in_dynamic_mode() and not paddle.is_autocast_enabled(),
    memory=_memory,
    empty_like=_empty_like,
    cast=paddle.cast,
    is_followed=lambda *arrays: paddle.is_grad_enabled() and not all(array.stop_gradient for array in arrays),
    is_learned=lambda table: not table.stop_gradient,
    differentiable=_RotateFunction.apply,
    may_take=lambda out: out.stop_gradient and out.is_contiguous(),
    written=lambda out: out._bump_inplace_version(),
).register(Tensor)


def rotate_in_program(x: Value, cos: Value, sin: Value, pairing: Pairing, out: Any = None) -> Value | None:
    """Return whole rows of a program rotated by fewer operators than the formula has; None for the formula.

    Interleaved pairs are multiplied as complex numbers, since Paddle is slow with strided slices and their gradients;
    halves of few tokens are swapped by one operator. The bits are the same.
    """
    if out is not None or pairing not in (HALF, INTERLEAVED) or not _are_whole_rows(x, cos, sin):
        return None
    if pairing == HALF and (-1 in x.shape or math.prod(x.shape) > FEW):
        return None
    outer, width, wide = [0] * (len(x.shape) - 1), x.shape[-1], paddle.cast(x, "float32")  # 0 leaves a size as it is
    if pairing == HALF:
        opposite = sin * paddle.full([1], -1.0)  # `-sin` has no negative zeros
        swapped = paddle.roll(wide, width // 2, -1) * paddle.concat([opposite, sin], -1)
        rotated = wide * paddle.concat([cos, cos], -1) + swapped
    else:
        pairs = paddle.as_complex(paddle.reshape(wide, [*outer, width // 2, 2]))
        rotated = paddle.reshape(paddle.as_real(pairs * paddle.complex(cos, sin)), [*outer, width])
    return paddle.cast(rotated, x.dtype)


def _are_whole_rows(x: Value, cos: Value, sin: Value) -> bool:
    """Return whether constant float32 tables rotate all channels and surely broadcast to the tokens."""
    dtypes = (paddle.float32, paddle.bfloat16, paddle.float16)
    if getattr(x, "dtype", None) not in dtypes or paddle.get_device() != "cpu":
        return False
    for table in (cos, sin):
        if getattr(table, "dtype", None) != paddle.float32 or not table.stop_gradient:
            return False
    rows, tokens = list(cos.shape), list(x.shape)
    if rows != list(sin.shape) or not rows or len(rows) > len(tokens) or 2 * rows[-1] != tokens[-1]:
        return False
    return all(row in {1, size} for row, size in zip(rows[-2::-1], tokens[-2::-1], strict=False))


register_kernel(paddle.pir.Value, Kernel(lambda x: True, rotate_in_program))
