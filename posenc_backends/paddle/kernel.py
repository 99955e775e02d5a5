"""The fused CPU rotation for eager Paddle tensors."""

from __future__ import annotations

from typing import Any

import paddle
from paddle import Tensor
from paddle.autograd import PyLayer

from posenc_backends._kernels import DTYPES, CpuKernel
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


CpuKernel(
    dtypes={getattr(paddle, name): name for name in DTYPES},
    is_eager=lambda: paddle.in_dynamic_mode() and not paddle.is_autocast_enabled(),
    is_plain=lambda x: type(x) is Tensor and x.is_dense() and x.place.is_cpu_place() and x._is_initialized(),
    memory=lambda x: (x.data_ptr(), (tuple(x.shape), tuple(x.strides))),
    empty_like=paddle.empty_like,
    cast=paddle.cast,
    is_followed=lambda x, cos, sin: (
        paddle.is_grad_enabled() and not (x.stop_gradient and cos.stop_gradient and sin.stop_gradient)
    ),
    is_learned=lambda table: not table.stop_gradient,
    differentiable=_RotateFunction.apply,
    may_take=lambda out: out.stop_gradient and out.is_contiguous(),
    written=lambda out: out._bump_inplace_version(),
).register(Tensor)
