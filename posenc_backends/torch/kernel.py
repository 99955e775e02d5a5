"""The fused CPU rotation for eager PyTorch tensors."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch._C import _functorch, _get_tracing_state, _len_torch_dispatch_stack
from torch.autograd import forward_ad

from posenc_backends._kernels import DTYPES, CpuKernel, level
from posenc_core._array_api.kernels import Kernel, register_kernel
from posenc_core.rotation import Pairing, rotate_checked

from . import eager
from .distributed import PLAIN
from .operator import rotate_large


def _is_eager() -> bool:
    return (
        not torch.compiler.is_compiling()
        and _get_tracing_state() is None
        and not _len_torch_dispatch_stack()
        and _functorch.peek_interpreter_stack() is None
        and forward_ad._current_level < 0
    )


def _is_plain(x: Any) -> bool:
    here = type(x) in PLAIN and x.is_cpu and x.layout is torch.strided
    wrapped = _functorch.is_functorch_wrapped_tensor(x) or _functorch.is_legacy_batchedtensor(x)
    return here and not x.is_neg() and not wrapped


class _RotateFunction(torch.autograd.Function):
    """The gradient is the rotation back; only the tables are kept for it."""

    @staticmethod
    def forward(context: Any, x: Tensor, cos: Tensor, sin: Tensor, pairing: Pairing) -> Tensor:
        context.save_for_backward(cos, sin)
        context.pairing = pairing
        return rotate_checked(x.detach(), cos, sin, pairing)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Any, ...]:
        cos, sin = context.saved_tensors
        return rotate_checked(gradient, cos, -sin, context.pairing.inverse), None, None, None


_eager = CpuKernel(
    dtypes={getattr(torch, name): name for name in DTYPES},
    is_eager=_is_eager,
    is_plain=_is_plain,
    memory=lambda x: (x.data_ptr(), (x.shape, x.stride())),
    empty_like=lambda x: torch.empty_like(x, memory_format=torch.contiguous_format),
    cast=Tensor.to,
    is_followed=lambda x, cos, sin: (
        (x.requires_grad or cos.requires_grad or sin.requires_grad) and torch.is_grad_enabled()
    ),
    is_learned=lambda table: table.requires_grad,
    differentiable=_RotateFunction.apply,
    may_take=lambda out: not out.requires_grad and out.is_contiguous(),
    written=torch.autograd.graph.increment_version,
    threads=torch.get_num_threads,
    by_operators=eager.rotate,
)


def _rotate(x: Tensor, cos: Tensor, sin: Tensor, pairing: Pairing, out: Tensor | None = None) -> Any:
    if not torch.compiler.is_compiling():
        return _eager.rotate(x, cos, sin, pairing, out)
    return rotate_large(x, cos, sin, pairing) if out is None else None


if level() != "off":
    register_kernel(Tensor, Kernel(lambda x: torch.compiler.is_compiling() or _eager.supports(x), _rotate))
else:
    _eager.register(Tensor)
