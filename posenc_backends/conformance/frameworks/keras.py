"""What the conformance suite asks of Keras, and through it of the framework that it runs on."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from posenc_core.encodings import Additive, Rotary

from ...keras import backend as arrays

_harness = import_module(f"posenc_backends.{keras.backend.backend()}.harness")

CONTRACTS = _harness.CONTRACTS
WARNINGS = (  # when Keras reads its variables
    *_harness.WARNINGS,
    "ignore:__array__ implementation doesn't accept a copy keyword:DeprecationWarning",
)

cast = _harness.cast
gradient = _harness.gradient
compiled = _harness.compiled


def evaluated(layer: Any, dtype: str = "float32") -> Any:
    """The layer and its own, told in which dtype to compute what is held in float32; Keras assumes that it is not in training."""
    for each in layer._flatten_layers():
        each.dtype_policy = f"mixed_{dtype}" if dtype in ("float16", "bfloat16") else dtype
    return layer


def reloaded(layer: Any, make: Callable[[], Any], folder: Path) -> Any:
    """The layer of a model that was saved and loaded."""
    inputs = _inputs(layer)
    keras.Model(inputs, layer(*inputs)).save(folder / "model.keras")
    return keras.saving.load_model(folder / "model.keras").get_layer(layer.name)


def parameter_gradient(layer: Any, name: str, x: Any, weights: Any, **options: Any) -> Any:
    """The gradient of `sum(layer(x, …) * weights)` with respect to the layer's parameter of this name."""
    parameter = arrays.from_numpy(layer.learned[name].numpy())
    held = {other: variable.value for other, variable in layer.learned.items()}

    def call(value: Any) -> Any:
        return layer.stateless_call([*(held | {name: value}).values()], [], x, **options)[0]

    return gradient(call, parameter, weights)


def filled(layer: Any, matrices: dict[str, npt.NDArray[np.float32]]) -> Any:
    """The attention layer, with these matrices (inputs × outputs) as its projections."""
    for name, matrix in matrices.items():
        getattr(layer, name).set_weights([matrix])
    return layer


def with_parameters(layer: Any, numbers: dict[str, npt.NDArray[np.float32]]) -> Any:
    """The layer, with these numbers as its parameters of these names."""
    for name, array in numbers.items():
        layer.learned[name].assign(array)
    return layer


def _inputs(layer: Any) -> list[keras.KerasTensor]:
    """Inputs of any length that the layer takes."""
    encoding = getattr(layer, "encoding", None)
    if encoding is None:
        shapes: list[tuple[Any, ...]] = [(None, layer.num_hiddens)] * 3
    elif isinstance(encoding, Additive):
        shapes = [(None, encoding.dim)]
    elif isinstance(encoding, Rotary):
        shapes = [(None, None, encoding.head_dim)]
    else:
        shapes = [(encoding.num_heads, None, None)]
    return [keras.Input(shape) for shape in shapes]
