"""Test layers of MXNet: helpers of the suite, and modes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import mxnet as mx
import numpy as np
import numpy.typing as npt
from mxnet import autograd, gluon

from posenc_backends.conformance.known_failures import IN_SYMBOLS, known_failures
from posenc_backends.conformance.tooling import LayerCase, Mode, Run, copied, gradient_in, pickled, saved

KNOWN_FAILURES = known_failures("mxnet")
EAGER_MODES = ("cast", "saved", "copied", "pickled")
WARNINGS = (
    "ignore:Cannot decide type for the following arguments:UserWarning",  # loaded graphs
    "ignore:Parameter .* is not used by any computation:UserWarning",  # the tables of keys, in a graph of queries
    "ignore:ndarray.context has been renamed to ndarray.ctx:DeprecationWarning",  # Gluon's recurrent layers
    "ignore:The .*-th input to HybridBlock is not used by any computation:UserWarning",  # keys that are not used
)
CONTRACTS = False  # `compiled` never fuses a multiplication and an addition
STATIC: dict[str, Any] = {"static_alloc": True, "static_shape": True}

mx.npx.set_np()


def cast(array: mx.np.ndarray, dtype: str) -> mx.np.ndarray:
    """Return the array in the dtype of this name."""
    return array.astype(dtype)


def gradient(
    function: Callable[[mx.np.ndarray], mx.np.ndarray], x: mx.np.ndarray, weights: mx.np.ndarray
) -> mx.np.ndarray:
    """Return the gradient of `sum(function(x) * weights)` with respect to `x`."""
    leaf = x.copy()
    leaf.attach_grad()
    with autograd.record(train_mode=False):
        result = function(leaf)
    result.backward(weights)
    return leaf.grad


def compiled(layer: Any) -> Callable[..., Any]:
    """Hybridize the layer and return it."""
    layer.hybridize()
    return layer


def eval_mode(layer: Any, dtype: str = "float32") -> Any:
    """Initialize the layer's parameters, cast attention to this dtype, and return the layer.

    Other layers compute in the dtype of their tokens. `autograd.record` alone chooses training mode.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # parameters that are initialized already are left as they are
        layer.initialize()
    if dtype != "float32" and hasattr(layer, "W_q"):
        layer.cast(dtype)
    return layer


def with_projections(layer: Any, matrices: dict[str, npt.NDArray[np.float32]]) -> Any:
    """Set the projections of an attention layer to these matrices (inputs × outputs), and return the layer."""
    for name, matrix in matrices.items():
        getattr(layer, name).weight.set_data(mx.np.array(matrix.T))
    return layer


def with_parameters(layer: Any, numbers: dict[str, npt.NDArray[np.float32]]) -> Any:
    """Set the layer's parameters of these names, and return the layer."""
    for name, array in numbers.items():
        getattr(layer, name).set_data(mx.np.array(array))
    return layer


def save_layer(layer: Any, folder: Path) -> None:
    """Save the state of the layer to a file in a folder."""
    layer.save_parameters(str(folder / "layer.params"))


def load_layer(make: Callable[[], Any], folder: Path) -> Any:
    """Load the file that `save_layer` wrote into a new layer, and return that."""
    loaded = make()
    loaded.load_parameters(str(folder / "layer.params"))
    return loaded


def parameter_gradient(
    layer: Any, name: str, x: mx.np.ndarray, weights: mx.np.ndarray, **options: Any
) -> mx.np.ndarray:
    """Return the gradient of `sum(layer(x, …) * weights)` with respect to the layer's parameter of this name."""
    with autograd.record(train_mode=False):
        result = layer(x, **options)
    result.backward(weights)
    return getattr(layer, name).grad()


class Model(gluon.HybridBlock):
    """A block that calls a layer with its inputs, which are symbols if the block is hybridized."""

    def __init__(self, case: LayerCase) -> None:
        super().__init__()
        self.case, self.layer = case, _cast_layer(case)

    def hybrid_forward(self, F: Any, *arrays: Any) -> Any:  # noqa: N803
        return self.case.call(self.layer, *arrays)


def cast_by_gluon(case: LayerCase, folder: Path) -> Run:
    """Cast the layer to the dtype of its tokens and call it eagerly."""
    return partial(case.call, _cast_layer(case))


def hybridized(case: LayerCase, folder: Path, **flags: Any) -> Run:
    """Hybridize the layer."""
    layer = case.layer()
    layer.hybridize(**flags)
    return partial(case.call, layer)


def in_a_model(case: LayerCase, folder: Path, **flags: Any) -> Model:
    """Hybridize a model that contains the layer; all arguments are inputs of its graph."""
    model = Model(case)
    model.hybridize(**flags)
    return model


def exported(case: LayerCase, folder: Path) -> Run:
    """Export the graph of a hybridized model, built at one length, and load it as a `SymbolBlock`."""
    model = in_a_model(case, folder)
    model(*case.arrays())
    model.export(str(folder / "model"))
    names = [symbol.name for symbol in model._cached_graph[0]]
    return gluon.SymbolBlock.imports(str(folder / "model-symbol.json"), names, str(folder / "model-0000.params"))


def symbolic(case: LayerCase, folder: Path) -> Run:
    """Call the layer with symbolic variables, and bind the graph to arrays without Gluon."""
    layer = _cast_layer(case)
    variables = [mx.sym.var(name).as_np_ndarray() for name in case.names]
    graph = case.call(layer, *variables)
    parameters = {name: parameter.data() for name, parameter in layer.collect_params().items()}
    arguments = graph.list_arguments()

    def run(*arrays: Any) -> Any:
        named = parameters | dict(zip(case.names, arrays, strict=True))
        args = {name: named[name] for name in arguments}
        return graph.bind(arrays[0].ctx, args, grad_req="null").forward()[0]

    return run


def _cast_layer(case: LayerCase) -> Any:
    """Return the layer cast to the dtype of its tokens, as Gluon's own blocks need."""
    layer = case.layer()
    layer.cast(case.dtype)
    return layer


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
    "hybridized": partial(gradient_in, hybridized),
    "in a model": partial(gradient_in, in_a_model),
    "in a model, static": partial(gradient_in, partial(in_a_model, **STATIC)),
    "exported": partial(gradient_in, exported),
}


def runs(check: str, encoding: str | None) -> bool:
    """Return whether a check or mode is run for an encoding: in hybridized graphs, for those that are frozen alone."""
    is_graph = check == "compiled" or check.removeprefix("gradient, ") in {*MODES} - {*EAGER_MODES}
    return not is_graph or encoding is None or encoding in IN_SYMBOLS
