"""What the suite needs of MXNet: how to test a layer, and what its own tools do with one (modes)."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import mxnet as mx
import numpy as np
import numpy.typing as npt
from mxnet import autograd, gluon

from posenc_backends.conformance.known_failures import known_failures
from posenc_backends.conformance.tooling import LayerCase, Run, copied, pickled

KNOWN_FAILURES = known_failures("mxnet")
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


def eval_mode(layer: Any, dtype: str = "float32") -> Any:
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


def with_projections(layer: Any, matrices: dict[str, npt.NDArray[np.float32]]) -> Any:
    """The attention layer, with these matrices (inputs × outputs) as its projections."""
    for name, matrix in matrices.items():
        getattr(layer, name).weight.set_data(mx.np.array(matrix.T))
    return layer


def with_parameters(layer: Any, numbers: dict[str, npt.NDArray[np.float32]]) -> Any:
    """The layer, with these numbers as its parameters of these names."""
    for name, array in numbers.items():
        getattr(layer, name).set_data(mx.np.array(array))
    return layer


Mode: TypeAlias = Callable[[LayerCase, Path], Run]


class Model(gluon.HybridBlock):
    """A block that calls a layer with its inputs, which are symbols when it is hybridized."""

    def __init__(self, layer_case: LayerCase) -> None:
        super().__init__()
        self.layer_case, self.layer = layer_case, cast_layer(layer_case)

    def hybrid_forward(self, F: Any, *arrays: Any) -> Any:  # noqa: N803
        return self.layer_case.call(self.layer, *arrays)


def cast_layer(layer_case: LayerCase) -> Any:
    """The layer, cast to the dtype of its tokens, as blocks of Gluon are."""
    layer = layer_case.layer()
    layer.cast(layer_case.dtype)
    return layer


def cast_by_gluon(layer_case: LayerCase, folder: Path) -> Run:
    """The layer after `cast`, not hybridized."""
    return partial(layer_case.call, cast_layer(layer_case))


def hybridized(layer_case: LayerCase, folder: Path, **how: Any) -> Run:
    """The layer, hybridized by itself."""
    layer = layer_case.layer()
    layer.hybridize(**how)
    return partial(layer_case.call, layer)


def in_a_model(layer_case: LayerCase, folder: Path, **how: Any) -> Model:
    """The layer as a part of a hybridized block, all that it is called with being inputs of one graph."""
    model = Model(layer_case)
    model.hybridize(**how)
    return model


def exported(layer_case: LayerCase, folder: Path) -> Run:
    """The graph of that, made at one length, written to files, and read."""
    model = in_a_model(layer_case, folder)
    model(*layer_case.arrays())
    model.export(str(folder / "model"))
    names = [given.name for given in model._cached_graph[0]]
    return gluon.SymbolBlock.imports(str(folder / "model-symbol.json"), names, str(folder / "model-0000.params"))


def saved(layer_case: LayerCase, folder: Path) -> Run:
    """The parameters, written to a file, and read by a layer made anew."""
    file, layer = str(folder / "layer.params"), layer_case.make()
    layer_case.layer().save_parameters(file)
    layer.load_parameters(file)
    return partial(layer_case.call, layer)


def symbolic(layer_case: LayerCase, folder: Path) -> Run:
    """A graph that the layer makes of variables, bound to arrays without Gluon."""
    layer = cast_layer(layer_case)
    variables = [mx.sym.var(name).as_np_ndarray() for name in layer_case.names]
    graph = layer_case.call(layer, *variables)
    held = {name: given.data() for name, given in layer.collect_params().items()}
    needed = graph.list_arguments()

    def run(*arrays: Any) -> Any:
        given = held | dict(zip(layer_case.names, arrays, strict=True))
        args = {name: given[name] for name in needed}
        return graph.bind(arrays[0].ctx, args, grad_req="null").forward()[0]

    return run


def gradient_of_layer(mode: Mode, layer_case: LayerCase, folder: Path) -> Run:
    """The gradient of a mode's result with respect to the first array."""
    run = mode(layer_case, folder)

    def backwards(weights: mx.np.ndarray, tokens: mx.np.ndarray, *others: mx.np.ndarray) -> mx.np.ndarray:
        tokens = tokens.copy()
        tokens.attach_grad()
        with autograd.record(train_mode=False):
            result = run(tokens, *others)
        result.backward(weights)
        return tokens.grad

    return backwards


STATIC: dict[str, Any] = {"static_alloc": True, "static_shape": True}

MODES: dict[str, Mode] = {
    "hybridized": hybridized,
    "hybridized, static": partial(hybridized, **STATIC),
    "in a model": in_a_model,
    "in a model, static": partial(in_a_model, **STATIC),
    "cast": cast_by_gluon,
    "exported": exported,
    "symbolic": symbolic,
    "saved": saved,
    "copied": copied,
    "pickled": pickled,
}
GRADIENT_MODES: dict[str, Mode] = {
    "hybridized": partial(gradient_of_layer, hybridized),
    "in a model": partial(gradient_of_layer, in_a_model),
    "in a model, static": partial(gradient_of_layer, partial(in_a_model, **STATIC)),
    "exported": partial(gradient_of_layer, exported),
}
