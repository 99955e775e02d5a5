"""What the conformance suite asks of PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ...torch.attention import MultiHeadAttention

CONTRACTS = False  # whether compiled code may fuse a multiplication and an addition, rounding once
WARNINGS = ("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning",)  # inductor's own


def cast(array: torch.Tensor, dtype: str) -> torch.Tensor:
    """The array in the dtype of this name."""
    return array.to(getattr(torch, dtype))


def gradient(function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """The gradient of `sum(function(x) * weights)` with respect to `x`."""
    leaf = x.detach().requires_grad_()
    (result,) = torch.autograd.grad(function(leaf), leaf, weights)
    return result


def compiled(layer: Any) -> Callable[..., Any]:
    """The layer, compiled without a fallback, and without what other layers left in the compiler's cache."""
    torch.compiler.reset()
    return torch.compile(layer, fullgraph=True)


def evaluated(layer: Any, dtype: str = "float32") -> Any:
    """The layer, told that it is not in training. It computes in the dtype of its tokens; attention has to be cast."""
    return (layer.to(getattr(torch, dtype)) if isinstance(layer, MultiHeadAttention) else layer).eval()


def reloaded(layer: Any, make: Callable[[], Any], folder: Path) -> Any:
    """A layer made anew, with what was saved of `layer`."""
    torch.save(layer.state_dict(), folder / "layer.pt")
    fresh = make()
    fresh.load_state_dict(torch.load(folder / "layer.pt"))
    return fresh


def parameter_gradient(layer: Any, name: str, x: torch.Tensor, weights: torch.Tensor, **options: Any) -> torch.Tensor:
    """The gradient of `sum(layer(x, …) * weights)` with respect to the layer's parameter of this name."""
    (result,) = torch.autograd.grad(layer(x, **options), getattr(layer, name), weights)
    return result


def filled(layer: Any, matrices: dict[str, npt.NDArray[np.float32]]) -> Any:
    """The attention layer, with these matrices (inputs × outputs) as its projections."""
    with torch.no_grad():
        for name, matrix in matrices.items():
            getattr(layer, name).weight.copy_(torch.from_numpy(matrix.T.copy()))
    return layer


def with_parameters(layer: Any, numbers: dict[str, npt.NDArray[np.float32]]) -> Any:
    """The layer, with these numbers as its parameters of these names."""
    with torch.no_grad():
        for name, array in numbers.items():
            getattr(layer, name).copy_(torch.from_numpy(array))
    return layer
