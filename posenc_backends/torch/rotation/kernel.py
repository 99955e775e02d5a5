"""The fused rotations of PyTorch tensors: on the CPU, on a GPU, and as operators of compiled code."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.compiler import is_compiling

from posenc_backends._kernels import DTYPES, CpuKernel, Memory, library
from posenc_core._array_api.checks import check_alike, write
from posenc_core._array_api.kernels import Kernel, kernel_for, register_kernel
from posenc_core.layers.inputs import batch_size
from posenc_core.rotation import Pairing, check_sizes, rotate_checked, rotate_reference

from ..distributed import PLAIN
from . import gpu, qk_norm, without_kernel
from .apply_rotary import INTEGERS, rotate_checked_tokens
from .compiled import is_eager, rotate_few_by_rows
from .custom_op import rotate_large

CONTIGUOUS = torch.contiguous_format


def _memory(x: Any) -> Memory | None:
    """Return where the numbers of a plain tensor lie in CPU memory; None for other tensors, and for empty ones."""
    if type(x) not in PLAIN or not x.is_cpu or x.is_neg():
        return None
    try:  # `vmap` and derivatives wrap tensors in others, of the same class, that have no storage; nor have sparse ones
        at = x.data_ptr()  # those of `functionalize` have 0
    except RuntimeError:
        return None
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
        context: Any, q: Tensor, k: Tensor | None, cos: Tensor, sin: Tensor, rows: Any, pairing: Pairing
    ) -> Any:
        context.save_for_backward(*_selected((cos, sin), rows))
        context.pairing = pairing
        context.set_materialize_grads(False)
        return _rotate_all([x for x in (q, k) if x is not None], cos, sin, rows, pairing)

    @staticmethod
    def backward(context: Any, *gradients: Tensor | None) -> tuple[Any, ...]:
        cos, sin = context.saved_tensors
        given = [gradient for gradient in gradients if gradient is not None]
        rotated = iter(_rotate_all(given, cos, -sin, None, context.pairing.inverse))
        both = [None if gradient is None else next(rotated) for gradient in gradients]
        return *both, *[None] * (6 - len(both))


def _selected(tables: tuple[Tensor, Tensor], rows: tuple[int, int] | None) -> tuple[Tensor, Tensor]:
    """Return consecutive rows of tables, the first of them and their number given; all for None."""
    if rows is None:
        return tables
    cos, sin = (table[rows[0] : sum(rows)] for table in tables)
    return cos, sin


def _rotate_all(
    tokens: list[Tensor], cos: Tensor, sin: Tensor, rows: tuple[int, int] | None, pairing: Pairing
) -> tuple[Tensor, ...]:
    """Return up to two tensors of tokens rotated by rows of tables: in one call, if there is a kernel for it."""
    kernel = kernel_for(tokens[0]) if tokens else None
    k = tokens[1] if len(tokens) > 1 else None
    rotated = None if kernel is None else _rotate_rows(tokens[0], k, cos, sin, rows, pairing)
    if rotated is None:
        rotated = [rotate_checked(x, *_selected((cos, sin), rows), pairing) for x in tokens]
    return tuple(rotated)


def _is_followed(*arrays: Tensor) -> bool:
    for array in arrays:
        if array.requires_grad:
            return torch.is_grad_enabled()
    return False


cpu: CpuKernel = CpuKernel(
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


def _rotate_by_parts(x: Tensor, cos: Tensor, sin: Tensor, pairing: Pairing, out: Tensor | None) -> Any:
    """Rotate many tokens where the library is missing; return None for what the formula does."""
    if x.numel() <= without_kernel.PART or x.ndim < 2:
        return None
    if not all(type(one) in PLAIN and one.is_cpu and one.dtype in cpu.dtypes for one in (x, cos, sin)):
        return None
    if _is_followed(x, cos, sin):
        return cpu.with_gradient(x, cos, sin, pairing, out)
    check_sizes(x.shape, cos.shape, sin.shape, pairing)
    if out is not None:
        check_alike("out", out, x)
    rotated = without_kernel.rotate(x, cos, sin, pairing)
    return rotated if out is None else write("out", out, rotated)


def _rotate_rows_by_parts(q: Tensor, k: Any, cos: Tensor, sin: Tensor, rows: Any, pairing: Pairing) -> Any:
    """Rotate by consecutive rows of tables where the library is missing; return None where `rotate` has to do it."""
    tokens = (q,) if k is None else (q, k)
    if not all(type(one) in PLAIN and one.is_cpu and one.dtype in cpu.in_float32 for one in (*tokens, cos, sin)):
        return None
    if not cos.dtype is sin.dtype is torch.float32 or not (rows is None or 0 <= rows[0] <= len(cos) - rows[1]):
        return None
    if torch.is_grad_enabled() and any(one.requires_grad for one in (*tokens, cos, sin)):
        is_differentiable = cpu.is_differentiable(q, k, cos, sin)
        return _RotateRowsFunction.apply(q, k, cos, sin, rows, pairing) if is_differentiable else None
    (cos, sin), part = _selected((cos, sin), rows), without_kernel.PART
    rotated = [(without_kernel.rotate if x.numel() > part else rotate_reference)(x, cos, sin, pairing) for x in tokens]
    return tuple(rotated)


def _rotate(x: Tensor, cos: Tensor, sin: Tensor, pairing: Pairing, out: Tensor | None = None) -> Any:
    if x.is_cuda or gpu.IS_INTERPRETED:
        return gpu.rotate(x, cos, sin, pairing, out)
    if not is_compiling():
        return (_rotate_by_parts if library.LIBRARY is None else cpu.rotate)(x, cos, sin, pairing, out)
    if out is not None or not all(isinstance(each, Tensor) and each.is_floating_point() for each in (x, cos, sin)):
        return None
    check_sizes(tuple(x.shape), tuple(cos.shape), tuple(sin.shape), pairing)
    return rotate_large(x, cos, sin, pairing)


def _rotate_rows(q: Tensor, k: Any, cos: Tensor, sin: Tensor, rows: Any, pairing: Pairing) -> Any:
    if q.is_cuda or gpu.IS_INTERPRETED:
        return None if rows is None else gpu.rotate_rows(q, k, cos, sin, rows, pairing)
    if is_compiling():
        return None if rows is None else rotate_few_by_rows(q, k, cos, sin, rows, pairing)
    return (_rotate_rows_by_parts if library.LIBRARY is None else cpu.rotate_rows)(q, k, cos, sin, rows, pairing)


def _rotate_at_known(q: Tensor, k: Any, cos: Tensor, sin: Tensor, positions: Any, pairing: Pairing) -> Any:
    """Rotate by one look-up of rows within the tables, `(batch, length)`; None as `_rotate_rows`."""
    if is_compiling() or type(q) not in PLAIN or not q.is_cpu or q.dtype not in cpu.in_float32 or q.ndim < 3:
        return None
    if positions.shape != (q.shape[0], q.shape[-2]) or (k is not None and (k.ndim, k.shape[0]) != (q.ndim, q.shape[0])):
        return None
    numbers = torch.from_numpy(positions.astype(np.int64).reshape(len(positions), *[1] * (q.ndim - 3), -1))
    cos, sin = torch.embedding(cos, numbers), torch.embedding(sin, numbers)
    return (_rotate_rows_by_parts if library.LIBRARY is None else cpu.rotate_rows)(q, k, cos, sin, None, pairing)


def _rotate_at(  # noqa: PLR0913, PLR0917
    q: Tensor, k: Any, cos: Tensor, sin: Tensor, start: Any, positions: Any, pairing: Pairing, seq_axis: int
) -> Any:
    if type(positions) is np.ndarray:
        return _rotate_at_known(q, k, cos, sin, positions, pairing) if seq_axis == -2 else None
    given = start if positions is None else positions
    is_known = positions is None and type(start) is int
    is_remote = is_known or (isinstance(given, Tensor) and given.dtype in INTEGERS and given.device == q.device)
    is_here = (q.is_cuda or gpu.IS_INTERPRETED) and q.dtype != torch.float64  # whose rows are float64
    if is_compiling() or not is_here or not is_remote:
        return None
    first, starts = (start, None) if is_known else (0, start if positions is None else None)
    call = gpu.PLANS.call((q, k, cos, sin, positions, None, starts, None, None), pairing, None, False, seq_axis)
    found = gpu.PLANS.rotate(call, first)
    if found is not None:
        return found
    tokens, sequence = [q] if k is None else [q, k], seq_axis % q.ndim
    is_axis = type(seq_axis) is int and -q.ndim <= seq_axis < q.ndim - 1 and seq_axis != -1
    if call is None or not is_axis or not gpu.are_rows_of(tokens, cos, sin, first, pairing, sequence - q.ndim):
        return None
    batches, tail = [batch_size(x, sequence) for x in tokens], () if positions is None else (q.shape[sequence],)
    is_fit = is_known or (batches[0] == batches[-1] and given.shape in (tail, (*filter(None, batches[:1]), *tail)))
    if not is_fit or not gpu.runs(tokens, cos, sin):
        return None
    how = positions, None, start if positions is None else 0, None
    return rotate_checked_tokens(q, k, (cos, sin), pairing, how, seq_axis=seq_axis, call=call)


def _normalize(tokens: tuple[Tensor, ...], *how: Any) -> Any:
    if tokens[0].is_cuda or gpu.IS_INTERPRETED:
        return qk_norm.normalize(tokens, *how)
    return None if is_compiling() else cpu.normalize(tokens, *how)


KERNEL = Kernel(lambda x: is_compiling() or is_eager(), _rotate, _rotate_rows, _rotate_at, _normalize)
register_kernel(Tensor, KERNEL)
