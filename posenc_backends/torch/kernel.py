"""Rotations by the kernel that rooms share, where PyTorch would run its operators at once, on the processor."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch._C import _functorch, _get_tracing_state, _len_torch_dispatch_stack
from torch.autograd import forward_ad

from posenc_backends._kernels import NAMES, SMALLEST, turn
from posenc_core._array_api.kernels import Kernel, register_kernel
from posenc_core.rotation import Pairing, rotate_pairs

from .distributed import PLAIN

KINDS = {getattr(torch, name): name for name in NAMES}


def supports(x: Tensor) -> bool:
    """Whether nobody traces, transforms or intercepts operators or has tangents, and the numbers lie in memory."""
    return (
        not torch.compiler.is_compiling()
        and x.numel() >= SMALLEST
        and x.dtype in KINDS
        and _get_tracing_state() is None
        and not _len_torch_dispatch_stack()
        and _functorch.peek_interpreter_stack() is None
        and forward_ad._current_level < 0
        and _is_here(x)
    )


def _is_here(x: Any) -> bool:
    return (
        type(x) in PLAIN
        and x.is_cpu
        and x.layout is torch.strided
        and not x.is_neg()
        and not _functorch.is_functorch_wrapped_tensor(x)
    )


def turned(x: Tensor, cos: Tensor, sin: Tensor, pairing: Pairing, out: Tensor | None = None) -> Tensor | None:
    """`x`, turned; None where a gradient is to reach a table."""
    if not (_is_here(cos) and _is_here(sin)):
        return None
    if torch.is_grad_enabled() and (x.requires_grad or cos.requires_grad or sin.requires_grad):
        learned = cos.requires_grad or sin.requires_grad
        return None if learned or out is not None else _Turning.apply(x, cos, sin, pairing)
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    if cos.dtype != wide or sin.dtype != wide:
        cos, sin = cos.to(wide), sin.to(wide)
    if out is None:
        return _run(x, cos, sin, pairing, torch.empty_like(x, memory_format=torch.contiguous_format), fresh=True)
    if not _may_write(out, x, pairing, cos, sin) or _run(x, cos, sin, pairing, out, fresh=False) is None:
        return None
    torch.autograd.graph.increment_version(out)
    return out


def _may_write(out: Any, x: Tensor, pairing: Pairing, *tables: Tensor) -> bool:
    """Whether `out` is `x`, or lies apart from it, and from the tables, and each of its numbers apart from the others."""
    if not _is_here(out) or out.requires_grad or not out.is_contiguous():
        return False
    if any(_may_overlap(table, out) for table in tables):
        return False
    if out.data_ptr() == x.data_ptr() and out.stride() == x.stride():
        return pairing.split == pairing.join
    return not _may_overlap(x, out)


def _may_overlap(one: Tensor, other: Tensor) -> bool:
    """Whether their storages share memory: they may be two and do so, where it belongs to another library."""
    first, second = one.untyped_storage(), other.untyped_storage()
    begins = first.data_ptr(), second.data_ptr()
    return begins[0] < begins[1] + second.nbytes() and begins[1] < begins[0] + first.nbytes()


def _run(x: Tensor, cos: Tensor, sin: Tensor, pairing: Pairing, out: Tensor, *, fresh: bool) -> Tensor | None:
    sizes = x.shape
    memory = (
        (x.data_ptr(), (sizes, x.stride())),
        (out.data_ptr(), (sizes, out.stride())),
        (cos.data_ptr(), (cos.shape, cos.stride())),
        (sin.data_ptr(), (sin.shape, sin.stride())),
    )
    return out if turn(KINDS[x.dtype], pairing, torch.get_num_threads(), memory, fresh=fresh) else None


class _Turning(torch.autograd.Function):
    """Its gradient is turned back; of all that it has seen it keeps the tables."""

    @staticmethod
    def forward(context: Any, x: Tensor, cos: Tensor, sin: Tensor, pairing: Pairing) -> Tensor:
        context.save_for_backward(cos, sin)
        context.pairing = pairing
        return rotate_pairs(x.detach(), cos, sin, pairing=pairing)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Any, ...]:
        cos, sin = context.saved_tensors
        return rotate_pairs(gradient, cos, -sin, pairing=context.pairing.inverse), None, None, None


register_kernel(Tensor, Kernel(supports, turned))
