"""The rotation of tokens, with and without a norm, by PyTorch's operators, where no kernel for GPUs does it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from posenc_core.normalization import normalize_and_rotate_reference
from posenc_core.rotation import rotate_reference

from .spec import RotationSpec, Rows, aligned_rows


def by_operators(
    x: Tensor, tables: tuple[Tensor, Tensor], rows: Rows, spec: RotationSpec, weight: Tensor | None = None
) -> Tensor:
    """Return tokens rotated, and normalized with a norm, by PyTorch's operators."""
    cos, sin = aligned_rows(tables, rows, spec, x)
    if spec.norm is None:
        return rotate_reference(x, cos, sin, spec.pairing)
    return normalize_and_rotate_reference(x, cos, sin, weight, spec.pairing, spec.norm)


def gradients_by_operators(
    x: Tensor, gradient: Tensor, tables: tuple[Tensor, Tensor], rows: Rows, spec: RotationSpec, weight: Tensor | None
) -> Any:
    """Return the gradients of tokens and of their weight, with gradients of their own if these are recorded."""
    is_followed = torch.is_grad_enabled()
    with torch.enable_grad():
        leaves = [x] if weight is None else [x, weight]
        leaves = leaves if is_followed else [leaf.detach().requires_grad_() for leaf in leaves]
        result = by_operators(leaves[0], tables, rows, spec, *leaves[1:])
        return (*torch.autograd.grad(result, leaves, gradient, create_graph=is_followed), None)[:2]
