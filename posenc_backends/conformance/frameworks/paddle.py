"""What the conformance suite asks of Paddle."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import paddle

from ...paddle.attention import MultiHeadAttention

CONTRACTS = False  # whether compiled code may fuse a multiplication and an addition, rounding once
WARNINGS = (
    "ignore:Tensor do not have '.*' interface for (pir|static) graph mode:UserWarning",
)  # of all that is traced

_failed: list[
    Exception
] = []  # Paddle mixes a program up with one whose trace failed, if that is gone and had the same id


def cast(array: paddle.Tensor, dtype: str) -> paddle.Tensor:
    """The array in the dtype of this name."""
    return array.astype(dtype)


def gradient(
    function: Callable[[paddle.Tensor], paddle.Tensor], x: paddle.Tensor, weights: paddle.Tensor
) -> paddle.Tensor:
    """The gradient of `sum(function(x) * weights)` with respect to `x`."""
    leaf = x.detach()
    leaf.stop_gradient = False
    (result,) = paddle.grad(function(leaf), leaf, weights)
    return result


def compiled(layer: Any) -> Callable[..., Any]:
    """The layer, compiled without a fallback; `to_static` changes what it is given."""
    static = paddle.jit.to_static(copy(layer), full_graph=True)

    def call(*arrays: Any, **options: Any) -> Any:
        try:
            return static(*arrays, **options)
        except Exception as error:
            _failed.append(error)
            raise

    return call


def evaluated(layer: Any, dtype: str = "float32") -> Any:
    """The layer, told that it is not in training. It computes in the dtype of its tokens.

    Raises:
        NotImplementedError: if it is attention in half precision, whose compiled projections end the process on a CPU.
    """
    if isinstance(layer, MultiHeadAttention) and dtype != "float32":
        raise NotImplementedError(f"Paddle's `Linear` does not compute in {dtype} on a CPU.")
    layer.eval()
    return layer


def reloaded(layer: Any, make: Callable[[], Any], folder: Path) -> Any:
    """A layer made anew, with what was saved of `layer`."""
    path = str(folder / "layer.pdparams")
    paddle.save({"layer": layer.state_dict()}, path)  # `save` warns of a state without parameters, unless it is inside
    fresh = make()
    fresh.set_state_dict(paddle.load(path)["layer"])
    return fresh


def parameter_gradient(
    layer: Any, name: str, x: paddle.Tensor, weights: paddle.Tensor, **options: Any
) -> paddle.Tensor:
    """The gradient of `sum(layer(x, …) * weights)` with respect to the layer's parameter of this name."""
    (result,) = paddle.grad(layer(x, **options), getattr(layer, name), weights)
    return result


def filled(layer: Any, matrices: dict[str, npt.NDArray[np.float32]]) -> Any:
    """The attention layer, with these matrices (inputs × outputs) as its projections."""
    for name, matrix in matrices.items():
        getattr(layer, name).weight.set_value(matrix)
    return layer


def with_parameters(layer: Any, numbers: dict[str, npt.NDArray[np.float32]]) -> Any:
    """The layer, with these numbers as its parameters of these names."""
    for name, array in numbers.items():
        getattr(layer, name).set_value(array)
    return layer
