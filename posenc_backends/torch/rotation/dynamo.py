"""Functions that `torch.compile` traces in place of those of the core, so that a call has fewer guards.

Before each call, compiled code checks a guard for everything that was looked at while it was traced: each function,
each entry of a dictionary, each attribute. For one token, the guards on the core take longer than the rotation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor

from posenc_core._array_api import kernels
from posenc_core.rotation import pairing_of, rotate, rotate_pairs

from . import gpu
from .compiled import rotate_few
from .kernel import KERNEL

F = TypeVar("F", bound=Callable[..., Any])


def _traced_for(original: Callable[..., Any]) -> Callable[[F], F]:
    """Return a decorator of a function that is traced where the original is called; eager code calls the original."""

    def decorate(function: F) -> F:
        substitute = getattr(torch.compiler, "substitute_in_graph", None)  # since PyTorch 2.6
        if substitute is not None and not gpu.IS_INTERPRETED:
            substitute(original)(function)
        return function

    return decorate


@_traced_for(kernels.kernel_for)
def _kernel_for(x: Any) -> Any:
    return KERNEL if type(x) is Tensor else None


@_traced_for(rotate)
def _rotate(
    x: Any, cos: Any, sin: Any, *, layout: Any, placement: Any = "lead", blocks: Any = 1, out: Any = None
) -> Any:
    if out is None and placement == "lead" and blocks == 1:
        rotated = rotate_few(x, cos, sin, layout)
        if rotated is not None:
            return rotated
    return rotate_pairs(x, cos, sin, pairing=pairing_of(layout, placement, blocks), out=out)
