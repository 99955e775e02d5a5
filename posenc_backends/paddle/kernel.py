"""The fused CPU rotation for eager Paddle tensors."""

from __future__ import annotations

from typing import Any

import paddle
from paddle import Tensor
from paddle.autograd import PyLayer

from posenc_backends._kernels import DTYPES, CpuKernel, Memory
from posenc_core.rotation import Pairing, rotate_checked


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
    is_followed=lambda x, cos, sin: (
        paddle.is_grad_enabled() and not (x.stop_gradient and cos.stop_gradient and sin.stop_gradient)
    ),
    is_learned=lambda table: not table.stop_gradient,
    differentiable=_RotateFunction.apply,
    may_take=lambda out: out.stop_gradient and out.is_contiguous(),
    written=lambda out: out._bump_inplace_version(),
).register(Tensor)
