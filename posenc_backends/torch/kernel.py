"""The fused rotations of PyTorch tensors: on the CPU, on a GPU, and as operators of compiled code."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.compiler import is_compiling

from posenc_backends._kernels import DTYPES, CpuKernel, Memory, library
from posenc_core._array_api.checks import check_alike, write
from posenc_core._array_api.kernels import Kernel, register_kernel
from posenc_core.rotation import Pairing, check_sizes, rotate_checked

from . import eager, gpu
from .compiled import is_eager, rotate_few_by_rows
from .operator import rotate_large

CONTIGUOUS = torch.contiguous_format


def _memory(x: Any) -> Memory | None:
    at = eager.address(x)
    return (at, (x.shape, x.stride())) if at else None


def _empty_like(x: Tensor) -> tuple[Tensor, int]:
    result = torch.empty_like(x) if x.is_contiguous() else torch.empty_like(x, memory_format=CONTIGUOUS)
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


class _RotateRowsFunction(torch.autograd.Function):
    """The same for queries and keys, by the rows of tables."""

    @staticmethod
    def forward(
        context: Any, q: Tensor, k: Tensor | None, cos: Tensor, sin: Tensor, rows: tuple[int, int], pairing: Pairing
    ) -> Any:
        start, length = rows
        context.save_for_backward(cos[start : start + length], sin[start : start + length])
        context.pairing = pairing
        context.set_materialize_grads(False)
        return cpu.rotate_rows(q, k, cos, sin, rows, pairing)

    @staticmethod
    def backward(context: Any, to_q: Tensor | None, to_k: Tensor | None = None) -> tuple[Any, ...]:
        cos, sin = context.saved_tensors
        back, pairing = -sin, context.pairing.inverse
        both = [None if each is None else rotate_checked(each, cos, back, pairing) for each in (to_q, to_k)]
        return *both, None, None, None, None


def _is_followed(*arrays: Tensor) -> bool:
    if torch.is_grad_enabled():
        for array in arrays:
            if array.requires_grad:
                return True
    return False


cpu = CpuKernel(
    dtypes={getattr(torch, name): name for name in DTYPES},
    memory=_memory,
    empty_like=_empty_like,
    cast=Tensor.to,
    is_followed=_is_followed,
    is_learned=lambda table: table.requires_grad,
    differentiable=_RotateFunction.apply,
    differentiable_rows=_RotateRowsFunction.apply,
    may_take=lambda out: not out.requires_grad and out.is_contiguous(),
    written=torch.autograd.graph.increment_version,
    threads=torch.get_num_threads,
)


def _rotate_by_operators(x: Tensor, cos: Tensor, sin: Tensor, pairing: Pairing, out: Tensor | None) -> Any:
    """Rotate where the library is missing; return None for what the formula does."""
    at = eager.address(cos), eager.address(sin)
    if not (eager.address(x) and at[0] and at[1]):
        return None
    if _is_followed(x, cos, sin):
        return cpu.with_gradient(x, cos, sin, pairing, out)
    if out is not None:
        check_alike("out", out, x)
    rotated = eager.rotate(x, cos, sin, at, pairing)
    return rotated if out is None or rotated is None else write("out", out, rotated)


def _rotate_rows_by_operators(
    q: Tensor, k: Any, cos: Tensor, sin: Tensor, rows: tuple[int, int], pairing: Pairing
) -> Any:
    """Rotate queries, or queries and keys, by rows of tables, where the library is missing."""
    at = eager.address(cos), eager.address(sin)
    if not (eager.address(q) and (k is None or eager.address(k)) and at[0] and at[1]):
        return None
    tokens = (q,) if k is None else (q, k)
    if _is_followed(*tokens, cos, sin) or not 0 <= rows[0] <= cos.shape[0] - rows[1]:
        return None
    return eager.rotate_rows(tokens, cos, sin, at, rows, pairing)


def _rotate(x: Tensor, cos: Tensor, sin: Tensor, pairing: Pairing, out: Tensor | None = None) -> Any:
    if x.is_cuda or gpu.IS_INTERPRETED:
        return gpu.rotate(x, cos, sin, pairing, out)
    if not is_compiling():
        return (_rotate_by_operators if library.LIBRARY is None else cpu.rotate)(x, cos, sin, pairing, out)
    if out is not None or not all(isinstance(each, Tensor) and each.is_floating_point() for each in (x, cos, sin)):
        return None
    check_sizes(tuple(x.shape), tuple(cos.shape), tuple(sin.shape), pairing)
    return rotate_large(x, cos, sin, pairing)


def _rotate_rows(q: Tensor, k: Any, cos: Tensor, sin: Tensor, rows: tuple[int, int], pairing: Pairing) -> Any:
    if gpu.IS_INTERPRETED:
        return None
    if is_compiling():
        return rotate_few_by_rows(q, k, cos, sin, rows, pairing)
    return (_rotate_rows_by_operators if library.LIBRARY is None else cpu.rotate_rows)(q, k, cos, sin, rows, pairing)


KERNEL = Kernel(lambda x: is_compiling() or is_eager(), _rotate, _rotate_rows)
register_kernel(Tensor, KERNEL)
