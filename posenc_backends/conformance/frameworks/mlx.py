"""Test layers of MLX: helpers of the suite, and modes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import numpy.typing as npt
from mlx import nn
from mlx.utils import tree_flatten

from posenc_backends.conformance.known_failures import known_failures

from ...mlx.layers import MultiHeadAttention
from ...mlx.state import from_state, to_state
from ..tooling import LayerCase, Mode, Run, compiled_by, copied, eager, gradient_in, gradient_of, pickled, saved

KNOWN_FAILURES = known_failures("mlx")
WARNINGS = ()
CONTRACTS = False  # `compiled` never fuses a multiplication and an addition


def cast(array: mx.array, dtype: str) -> mx.array:
    """Return the array in the dtype of this name."""
    return array.astype(getattr(mx, dtype))


def gradient(function: Callable[[mx.array], mx.array], x: mx.array, weights: mx.array) -> mx.array:
    """Return the gradient of `sum(function(x) * weights)` with respect to `x`."""
    _, (result,) = mx.vjp(function, [x], [weights])
    return result


def compiled(layer: Any) -> Callable[..., Any]:
    """Return the layer compiled; options that are not arrays are constants of the program."""
    return compiled_by(mx.compile, mx.array, layer)


def eval_mode(layer: Any, dtype: str = "float32") -> Any:
    """Return the layer in evaluation mode; cast attention to this dtype, as others use that of the tokens."""
    if isinstance(layer, MultiHeadAttention):
        layer.set_dtype(getattr(mx, dtype))
    return layer.eval()


def with_projections(layer: Any, matrices: dict[str, npt.NDArray[np.float32]]) -> Any:
    """Set the projections of an attention layer to these matrices (inputs × outputs), and return the layer."""
    for name, matrix in matrices.items():
        getattr(layer, name).weight = mx.array(matrix.T.copy())  # `mx.export_function` writes strided ones as they lie
    return layer


def with_parameters(layer: Any, numbers: dict[str, npt.NDArray[np.float32]]) -> Any:
    """Set the layer's parameters of these names, and return the layer."""
    for name, array in numbers.items():
        setattr(layer, name, mx.array(array))
    return layer


def save_layer(layer: Any, folder: Path) -> None:
    """Save the state of the layer to a file in a folder."""
    mx.save_safetensors(str(folder / "layer.safetensors"), to_state(layer))


def load_layer(make: Callable[[], Any], folder: Path) -> Any:
    """Load the file that `save_layer` wrote into a new layer, and return that."""
    return from_state(make(), mx.load(str(folder / "layer.safetensors")))


def parameter_gradient(layer: Any, name: str, x: mx.array, weights: mx.array, **options: Any) -> mx.array:
    """Return the gradient of `sum(layer(x, …) * weights)` with respect to the layer's parameter of this name."""
    own = layer[name]

    def call(numbers: mx.array) -> mx.array:
        layer.update({name: numbers})
        return layer(x, **options)

    result = gradient(call, own, weights)
    layer.update({name: own})
    return result


class Model(nn.Module):
    """A model that contains a layer."""

    def __init__(self, case: LayerCase) -> None:
        super().__init__()
        self.case = case
        self.layer = case.layer()

    def __call__(self, *arrays: Any) -> Any:
        return self.case.call(self.layer, *arrays)


def compile_layer(case: LayerCase, folder: Path, *, mode: Mode = eager) -> Run:
    """Compile with `mx.compile`, the layer as a constant."""
    return mx.compile(mode(case, folder))


def in_a_model(case: LayerCase, folder: Path) -> Run:
    """Compile a model that contains the layer, its state as input and output."""
    model = Model(case)
    return mx.compile(model, inputs=model.state, outputs=model.state)


def exported(case: LayerCase, folder: Path) -> Run:
    """Export with `mx.exporter` for each length, and run the file without the layer."""
    path = str(folder / "layer.mlxfn")
    with mx.exporter(path, eager(case, folder)) as write:
        for length in LENGTHS:
            write(*case.arrays(length))
    program = mx.import_function(path)
    return lambda *arrays: program(*arrays)[0]


def vmapped(case: LayerCase, folder: Path, *, mode: Mode = eager) -> Run:
    """Apply `mx.vmap` over a new first axis of all arguments."""
    call = mx.vmap(mode(case, folder))
    return lambda *arrays: call(*(mx.stack([x[::-1], x]) for x in arrays))[1]


def cast_layer(case: LayerCase, folder: Path) -> Run:
    """Cast the layer to float16, bfloat16 and back; its parameters fit into each of them."""
    layer = case.layer()
    dtypes = {name: parameter.dtype for name, parameter in tree_flatten(layer.parameters())}
    layer.set_dtype(mx.float16)
    layer.set_dtype(mx.bfloat16)
    cast_back = [(name, parameter.astype(dtypes[name])) for name, parameter in tree_flatten(layer.parameters())]
    return partial(case.call, layer.load_weights(cast_back))


def checkpointed(case: LayerCase, folder: Path) -> Run:
    """Recompute the layer in the backward pass."""
    return gradient_of(gradient, mx.checkpoint(eager(case, folder)))


MODES: dict[str, Mode] = {
    "compiled": compile_layer,
    "in a model": in_a_model,
    "exported": exported,
    "vmapped": vmapped,
    "cast": cast_layer,
    "saved": saved,
    "copied": copied,
    "pickled": pickled,
}
GRADIENT_MODES: dict[str, Mode] = {
    "grad": partial(gradient_in, eager),
    "compiled": partial(compile_layer, mode=partial(gradient_in, eager)),
    "checkpointed": checkpointed,
    "vmapped": partial(vmapped, mode=partial(gradient_in, eager)),
}
LENGTHS = (48, 7)  # each is compiled anew, so there are only two
