"""Rotations by the kernel that rooms share, where Paddle would run its operators at once, on the processor."""

from __future__ import annotations

from typing import Any

import paddle
from paddle import Tensor
from paddle.autograd import PyLayer

from posenc_backends._kernels import NAMES, SMALLEST, Memory, may_write, threads_of_process, turn
from posenc_core._array_api.kernels import Kernel, register_kernel
from posenc_core.rotation import Pairing, rotate_pairs

KINDS = {getattr(paddle, name): name for name in NAMES}


def supports(x: Tensor) -> bool:
    """Whether nobody traces operators or chooses other dtypes for them, and the numbers lie in memory."""
    return (
        paddle.in_dynamic_mode()
        and x.size >= SMALLEST
        and x.dtype in KINDS
        and _is_here(x)
        and not paddle.is_autocast_enabled()
    )


def _is_here(x: Any) -> bool:
    return type(x) is Tensor and x.is_dense() and x.place.is_cpu_place() and x._is_initialized()


def turned(x: Tensor, cos: Tensor, sin: Tensor, pairing: Pairing, out: Tensor | None = None) -> Tensor | None:
    """`x`, turned; None where a gradient is to reach a table, or `out` overlaps `x`, and is not `x`, or overlaps a table."""
    if not (_is_here(cos) and _is_here(sin)):
        return None
    if paddle.is_grad_enabled() and not (x.stop_gradient and cos.stop_gradient and sin.stop_gradient):
        learned = out is not None or not (cos.stop_gradient and sin.stop_gradient)
        return None if learned else _Turning.apply(x, cos, sin, pairing)
    wide = paddle.float64 if x.dtype == paddle.float64 else paddle.float32
    cos, sin = (table if table.dtype == wide else table.astype(wide) for table in (cos, sin))
    result = paddle.empty_like(x) if out is None else out
    if not (_is_here(result) and result.stop_gradient and result.is_contiguous()):
        return None
    kind, memory = KINDS[x.dtype], (_memory(x), _memory(result), _memory(cos), _memory(sin))
    if out is not None and not may_write(kind, pairing, memory):
        return None
    if not turn(kind, pairing, threads_of_process(), memory, fresh=out is None):
        return None
    if out is not None:
        out._bump_inplace_version()
    return result


def _memory(x: Tensor) -> Memory:
    return x.data_ptr(), (tuple(x.shape), tuple(x.strides))


class _Turning(PyLayer):
    """Its gradient is turned back; of all that it has seen it keeps the tables."""

    @staticmethod
    def forward(context: Any, x: Tensor, cos: Tensor, sin: Tensor, pairing: Pairing) -> Tensor:
        context.save_for_backward(cos, sin)
        context.pairing = pairing
        return rotate_pairs(x.detach(), cos, sin, pairing=pairing)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Any, ...]:
        cos, sin = context.saved_tensor()
        return rotate_pairs(gradient, cos, -sin, pairing=context.pairing.inverse), None, None


register_kernel(Tensor, Kernel(supports, turned))
