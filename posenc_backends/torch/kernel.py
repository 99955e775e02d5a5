"""The fused rotations of PyTorch tensors: on the CPU, on a GPU, and as operators of compiled code."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.compiler import is_compiling

from posenc_backends._kernels import DTYPES, CpuKernel, Memory
from posenc_core._array_api.kernels import Kernel, register_kernel
from posenc_core.rotation import Pairing, check_sizes, rotate_checked

from . import eager, gpu
from .compiled import is_eager, rotate_few_by_rows
from .distributed import PLAIN
from .operator import rotate_large

STRIDED, CONTIGUOUS = torch.strided, torch.contiguous_format


def _memory(x: Any) -> Memory | None:
    if type(x) not in PLAIN or not x.is_cpu or x.layout is not STRIDED or x.is_neg():
        return None
    try:
        address = x.data_ptr()
    except RuntimeError:  # `vmap` and derivatives wrap tensors in others, of the same class, that have no storage
        return None
    return (address, (x.shape, x.stride())) if address else None  # nor have those of `functionalize`: 0


def _empty_like(x: Tensor) -> tuple[Tensor, int]:
    result = torch.empty_like(x, memory_format=CONTIGUOUS)
    return result, result.data_ptr()


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


cpu = CpuKernel(
    dtypes={getattr(torch, name): name for name in DTYPES},
    memory=_memory,
    empty_like=_empty_like,
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
    if x.is_cuda or gpu.IS_INTERPRETED:
        return gpu.rotate(x, cos, sin, pairing, out)
    if not is_compiling():
        return cpu.rotate(x, cos, sin, pairing, out)
    if out is not None or not all(isinstance(each, Tensor) and each.is_floating_point() for each in (x, cos, sin)):
        return None
    check_sizes(tuple(x.shape), tuple(cos.shape), tuple(sin.shape), pairing)
    return rotate_large(x, cos, sin, pairing)


def _rotate_rows(*arguments: Any) -> Any:
    if gpu.IS_INTERPRETED:
        return None
    return rotate_few_by_rows(*arguments) if is_compiling() else cpu.rotate_rows(*arguments)


KERNEL = Kernel(lambda x: is_compiling() or is_eager(), _rotate, _rotate_rows)
register_kernel(Tensor, KERNEL)
