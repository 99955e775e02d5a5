"""Code that is being compiled: whether it is, exported or transformed; and its rotation of few tokens."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch._C import _functorch, _get_tracing_state, _len_torch_dispatch_stack
from torch.autograd import Function, forward_ad

from posenc_core.rotation import Pairing

HAS_AVX512 = torch.backends.cpu.get_cpu_capability() == "AVX512"  # of which Inductor makes use
FEW = 1 << 17  # numbers of a tensor: with more, guards take no time that counts
FEW_OF_HALF_PRECISION = 1 << 24 if HAS_AVX512 else 1 << 14  # interleaved; with more, the operator or words are faster


def is_specialized(size: int, /) -> bool:
    """Return whether compiled and exported code may rely on this size; other sizes are integers that change."""
    if not torch.compiler.is_compiling():
        return True
    from torch.fx.experimental.symbolic_shapes import has_static_value  # takes a second, where it is not there yet

    return has_static_value(size)


def is_eager() -> bool:
    """Return whether operators would run now, and nothing traces, transforms or intercepts them.

    Ask `torch.compiler.is_compiling` first: the compiler cannot trace these questions.
    """
    return (
        not _len_torch_dispatch_stack()
        and _get_tracing_state() is None
        and _functorch.peek_interpreter_stack() is None
        and forward_ad._current_level < 0
    )


def is_exporting() -> bool:
    """Return whether the code is exported, where strides of results, in which kernels differ, are not known.

    Dynamo asks it once: of PyTorch's own function, that of 2.11 says that all compiled code is exported.
    """
    return torch.compiler.is_exporting()


def is_transformed() -> bool:
    """Return whether `torch.func` or forward mode transforms the code that is being compiled; Dynamo asks it once."""
    return _functorch.peek_interpreter_stack() is not None or forward_ad._current_level >= 0


def rotate_few(x: Any, cos: Any, sin: Any, layout: Any) -> Tensor | None:
    """Return whole rows of few tokens rotated by tables `(length, pairs)`; None where the core is to be traced.

    Questions that methods of tensors answer are not guards of their own; others are.
    """
    if is_exporting() or not _are_few(x, cos, sin, layout):
        return None
    whole = x.float()
    if layout == "half":
        others = whole.view(*x.shape[:-1], 2, -1).flip(-2).flatten(-2)
        rotated = whole * torch.cat((cos, cos), -1) + others * torch.cat((-sin, sin), -1)
    elif layout == "interleaved" and (x.element_size() == 4 or x.numel() <= FEW_OF_HALF_PRECISION):
        by_rows = HAS_AVX512 and x.dtype is torch.float16
        is_followed = x.requires_grad and not (cos.requires_grad or sin.requires_grad or is_transformed())
        rotated = (_RotateNeighbours.apply if is_followed else _rotate_neighbours)(whole, cos, sin, by_rows)
    else:
        return None
    return rotated.to(x.dtype)


def _are_few(x: Any, cos: Any, sin: Any, layout: Any) -> bool:
    """Return whether these are few tokens of at most 32 bits on a CPU, and float32 tables as wide as their rows."""
    from torch.fx.experimental.symbolic_shapes import has_static_value  # takes a second, where it is not there yet

    if not (torch.is_tensor(x) and torch.is_tensor(cos) and torch.is_tensor(sin)):
        return False
    if not (x.is_cpu and x.is_floating_point() and cos.is_floating_point() and sin.is_floating_point()):
        return False
    if not 2 <= x.element_size() <= cos.element_size() == sin.element_size() == 4 or x.ndim < 2 or cos.ndim != 2:
        return False
    if cos.shape != sin.shape or 2 * cos.shape[1] != x.shape[-1] or cos.shape[0] not in (1, x.shape[-2]):
        return False
    is_limited = layout == "half" or x.element_size() == 4
    return has_static_value(x.numel()) and x.numel() <= (FEW if is_limited else max(FEW, FEW_OF_HALF_PRECISION))


def _rotate_neighbours(x: Tensor, cos: Tensor, sin: Tensor, by_rows: bool) -> Tensor:
    if by_rows:  # one loop over whole rows, faster with float16 alone
        others = x.view(*x.shape[:-1], -1, 2).flip(-1).flatten(-2)
        both, signed = torch.stack((cos, cos), -1).flatten(-2), torch.stack((-sin, sin), -1).flatten(-2)
        return x * both + others * signed
    first, second = x.view(*x.shape[:-1], -1, 2).unbind(-1)
    return torch.stack((first * cos - second * sin, second * cos + first * sin), -1).flatten(-2)


class _RotateNeighbours(Function):
    """The gradient is the rotation back: one loop, where that of the operators is three."""

    @staticmethod
    def forward(context: Any, x: Tensor, cos: Tensor, sin: Tensor, by_rows: bool) -> Tensor:
        context.save_for_backward(cos, sin)
        context.by_rows = by_rows
        return _rotate_neighbours(x, cos, sin, by_rows)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        cos, sin = context.saved_tensors
        return _rotate_neighbours(gradient, cos, -sin, context.by_rows), None, None, None


def rotate_few_by_rows(q: Any, k: Any, cos: Any, sin: Any, rows: tuple[int, int], pairing: Pairing) -> Any:
    """Return `q` and `k`, which may be None, rotated by consecutive rows; None where the core is to be traced."""
    start, length = rows
    if pairing.split != pairing.join or pairing.placement != "lead" or pairing.blocks != 1:
        return None
    if start < 0 or start + length > cos.shape[0]:
        return None
    cos, sin = cos[start : start + length], sin[start : start + length]
    rotated = [rotate_few(x, cos, sin, pairing.split) for x in ((q,) if k is None else (q, k))]
    return None if any(x is None for x in rotated) else tuple(rotated)
