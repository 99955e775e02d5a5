"""What the conformance suite asks of MXNet."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mxnet as mx
import numpy as np
import numpy.typing as npt
from mxnet import autograd

CONTRACTS = False  # whether compiled code may fuse a multiplication and an addition, rounding once
WARNINGS = (
    "ignore:Cannot decide type for the following arguments:UserWarning",  # of graphs that are loaded
    "ignore:Parameter .* is not used by any computation:UserWarning",  # tables for keys, in a graph of queries
    "ignore:ndarray.context has been renamed to ndarray.ctx:DeprecationWarning",  # in Gluon's recurrent layers
    "ignore:The .*-th input to HybridBlock is not used by any computation:UserWarning",  # keys, where queries say it all
)

mx.npx.set_np()


def cast(array: mx.np.ndarray, dtype: str) -> mx.np.ndarray:
    """The array in the dtype of this name."""
    return array.astype(dtype)


def gradient(
    function: Callable[[mx.np.ndarray], mx.np.ndarray], x: mx.np.ndarray, weights: mx.np.ndarray
) -> mx.np.ndarray:
    """The gradient of `sum(function(x) * weights)` with respect to `x`."""
    leaf = x.copy()
    leaf.attach_grad()
    with autograd.record(train_mode=False):
        result = function(leaf)
    result.backward(weights)
    return leaf.grad


def compiled(layer: Any) -> Callable[..., Any]:
    """The layer, hybridized."""
    layer.hybridize()
    return layer


def evaluated(layer: Any, dtype: str = "float32") -> Any:
    """The layer, with its parameters initialized; it trains only where `autograd.record` says so.

    It computes in the dtype of its tokens, but for attention, which does in that of its weights.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about those that were initialized before, and stay as they are
        layer.initialize()
    if dtype != "float32" and hasattr(layer, "W_q"):
        layer.cast(dtype)
    return layer


def reloaded(layer: Any, make: Callable[[], Any], folder: Path) -> Any:
    """A layer made anew, with what was saved of `layer`."""
    layer.save_parameters(str(folder / "layer.params"))
    fresh = make()
    fresh.load_parameters(str(folder / "layer.params"))
    return fresh


def parameter_gradient(
    layer: Any, name: str, x: mx.np.ndarray, weights: mx.np.ndarray, **options: Any
) -> mx.np.ndarray:
    """The gradient of `sum(layer(x, …) * weights)` with respect to the layer's parameter of this name."""
    with autograd.record(train_mode=False):
        result = layer(x, **options)
    result.backward(weights)
    return getattr(layer, name).grad()


def filled(layer: Any, matrices: dict[str, npt.NDArray[np.float32]]) -> Any:
    """The attention layer, with these matrices (inputs × outputs) as its projections."""
    for name, matrix in matrices.items():
        getattr(layer, name).weight.set_data(mx.np.array(matrix.T))
    return layer


def with_parameters(layer: Any, numbers: dict[str, npt.NDArray[np.float32]]) -> Any:
    """The layer, with these numbers as its parameters of these names."""
    for name, array in numbers.items():
        getattr(layer, name).set_data(mx.np.array(array))
    return layer
