"""The fused CPU rotation as an operator of compiled code, for large results.

Inductor never asks for pages of 2 MiB, so first writes to its large results cause many page faults. The kernel asks.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from posenc_backends._kernels import level
from posenc_core.rotation import Pairing, rotate_checked

from .compiled import is_exporting, is_specialized, is_transformed

HAS_KERNEL = level() != "off"
LARGE = 1 << 25  # bytes of a result

torch.library.define(
    "posenc::rotate_large",
    "(Tensor x, Tensor cos, Tensor sin, str split, str join, str placement, int blocks) -> Tensor",
)


@torch.library.impl("posenc::rotate_large", "cpu")
def _rotate(x: Tensor, cos: Tensor, sin: Tensor, *pairing: Any) -> Tensor:
    return rotate_checked(x, cos, sin, Pairing(*pairing)).contiguous()


@torch.library.register_fake("posenc::rotate_large")
def _empty(x: Tensor, cos: Tensor, sin: Tensor, *pairing: Any) -> Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


class _RotateLarge(Function):
    """The gradient is the rotation back."""

    @staticmethod
    def forward(context: Any, x: Tensor, cos: Tensor, sin: Tensor, pairing: Pairing) -> Tensor:
        context.save_for_backward(cos, sin)
        context.pairing = pairing
        return torch.ops.posenc.rotate_large(x, cos, sin, *pairing)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Any, ...]:
        cos, sin = context.saved_tensors
        return torch.ops.posenc.rotate_large(gradient, cos, -sin, *context.pairing.inverse), None, None, None


def rotate_large(x: Tensor, cos: Tensor, sin: Tensor, pairing: Pairing) -> Tensor | None:
    """Return `x` rotated by the operator in code that is being compiled; None where the formula is to be used.

    That is where the result is small or its size changes, where a program is exported or transformed by `torch.func`,
    and where a table is learned.
    """
    if not HAS_KERNEL or x.device.type != "cpu" or cos.requires_grad or sin.requires_grad:
        return None
    if is_exporting() or is_transformed():
        return None
    if not all(map(is_specialized, x.shape)) or x.numel() * x.element_size() < LARGE:
        return None
    return _RotateLarge.apply(x, cos, sin, pairing)
