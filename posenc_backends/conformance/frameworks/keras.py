"""Test layers of Keras: helpers of the suite, and modes. Some helpers are those of the framework that Keras runs on."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from posenc_backends.conformance.errors import DIGITS
from posenc_backends.conformance.known_failures import known_failures
from posenc_backends.conformance.tooling import LayerCase, Mode, Run, copied, pickled

from ...keras import backend as keras_backend

BACKEND = keras.backend.backend()
_framework: Any = import_module(f"posenc_backends.conformance.frameworks.{BACKEND}")

KNOWN_FAILURES = known_failures("keras", ("", BACKEND)) | {
    key: reason for key, reason in _framework.KNOWN_FAILURES.items() if key in DIGITS
}
WARNINGS = (
    *_framework.WARNINGS,
    "ignore:__array__ implementation doesn't accept a copy keyword:DeprecationWarning",  # when Keras reads variables
)
CONTRACTS = _framework.CONTRACTS
LENGTHS = (53, 7) if BACKEND == "jax" else (53, 7, 16, 17, 33)  # JAX compiles each of them anew

cast = _framework.cast
gradient = _framework.gradient
compiled = _framework.compiled


def eval_mode(layer: Any, dtype: str = "float32") -> Any:
    """Return the layer with a policy that computes in this dtype; Keras itself assumes inference.

    Half precision is a mixed policy: parameters stay float32.
    """
    for sublayer in layer._flatten_layers():
        sublayer.dtype_policy = f"mixed_{dtype}" if dtype in ("float16", "bfloat16") else dtype
    return layer


def with_projections(layer: Any, matrices: dict[str, npt.NDArray[np.float32]]) -> Any:
    """Set the projections of an attention layer to these matrices (inputs × outputs), and return the layer."""
    for name, matrix in matrices.items():
        getattr(layer, name).set_weights([matrix])
    return layer


def with_parameters(layer: Any, numbers: dict[str, npt.NDArray[np.float32]]) -> Any:
    """Set the layer's parameters of these names, and return the layer."""
    for name, array in numbers.items():
        layer.learned[name].assign(array)
    return layer


def save_layer(layer: Any, folder: Path) -> None:
    """Save a model that contains the layer to a file in a folder."""
    encoding = getattr(layer, "encoding", None)
    if encoding is None:
        shapes: list[tuple[Any, ...]] = [(None, layer.num_hiddens)] * 3
    elif encoding.layer_name == "PositionalEncoding":
        shapes = [(None, encoding.dim)]
    elif encoding.layer_name == "RotaryEmbedding":
        shapes = [(None, None, encoding.head_dim)]
    else:
        shapes = [(encoding.num_heads, None, None)]
    inputs = [keras.Input(shape) for shape in shapes]
    keras.Model(inputs, layer(*inputs)).save(folder / "layer.keras")


def load_layer(make: Callable[[], Any], folder: Path) -> Any:
    """Load the model that `save_layer` wrote, and return its layer; the file says how to make it."""
    return keras.saving.load_model(folder / "layer.keras").layers[-1]


def parameter_gradient(layer: Any, name: str, x: Any, weights: Any, **options: Any) -> Any:
    """Return the gradient of `sum(layer(x, …) * weights)` with respect to the layer's parameter of this name."""
    values = {other: variable.value for other, variable in layer.learned.items()}

    def call(value: Any) -> Any:
        return layer.stateless_call([*(values | {name: value}).values()], [], x, **options)[0]

    return gradient(call, keras_backend.from_numpy(layer.learned[name].numpy()), weights)


class Model(keras.Model):
    """A subclassed model of one layer."""

    def __init__(self, case: LayerCase, layer: Any) -> None:
        super().__init__()
        self.case, self.layer = case, layer
        self.built = True  # the layer is built: no eager call is needed before the compiled one

    def call(self, arrays: Any) -> Any:
        return self.case.call(self.layer, *arrays)


def in_a_model(case: LayerCase, folder: Path) -> Run:
    """Predict with a functional model of unknown length without `jit_compile`; in TensorFlow, as a graph."""
    model = _functional_model(case, case.layer())
    model.compile(jit_compile=False)
    return lambda *arrays: model.predict_on_batch(list(arrays))


def subclassed(case: LayerCase, folder: Path) -> Run:
    """Predict with a subclassed model, compiled with `jit_compile`."""
    model = Model(case, case.layer())
    model.compile(jit_compile=True)
    return lambda *arrays: model.predict_on_batch(list(arrays))


def saved(case: LayerCase, folder: Path) -> Run:
    """Save a functional model of unknown length as a `.keras` file, load it and call it."""
    _functional_model(case, case.layer()).save(folder / "model.keras")
    model = keras.saving.load_model(folder / "model.keras")
    if BACKEND == "jax":  # slow without its compiler
        return lambda *arrays: model.predict_on_batch(list(arrays))
    return lambda *arrays: model(list(arrays))


def weights_saved(case: LayerCase, folder: Path) -> Run:
    """Save the weights of a functional model as an `.h5` file, and load them into a new model."""
    _functional_model(case, case.layer()).save_weights(folder / "model.weights.h5")
    model = _functional_model(case, case.make())
    model.load_weights(folder / "model.weights.h5")
    return lambda *arrays: model(list(arrays))


def from_config(case: LayerCase, folder: Path) -> Run:
    """Create a layer from the JSON of another's configuration, with its weights."""
    return partial(case.call, _from_config(case.layer()))


def mixed(case: LayerCase, folder: Path, *, policy: str) -> Run:
    """Call the layer under a mixed policy: float32 parameters, half-precision computation."""
    layer = _from_config(case.layer(), dtype=policy)
    return partial(case.call, compiled(layer) if BACKEND == "jax" else layer)


def exported(case: LayerCase, folder: Path) -> Run:
    """Export a functional model of unknown length (TensorFlow: SavedModel, PyTorch: program); load it without Keras."""
    return EXPORTS[BACKEND](_functional_model(case, case.layer()), case.sizes, folder)


def export_saved_model(model: keras.Model, axes: tuple[tuple[int, ...], ...], folder: Path) -> Run:
    """Export a model as TensorFlow's SavedModel; sizes that `model` does not know stay unknown."""
    model.export(folder / "model", verbose=False, input_signature=_signature(model))
    program = import_module("tensorflow").saved_model.load(str(folder / "model"))
    return lambda *arrays: program.serve(list(arrays))


def export_program(model: keras.Model, axes: tuple[tuple[int, ...], ...], folder: Path) -> Run:
    """Export a model as PyTorch's program with dynamic sizes: the batch and, on `axes` of each input, the length."""
    torch = import_module("torch")
    batch, length = (torch.export.Dim(name, min=1, max=1 << 10) for name in ("batch", "length"))
    sizes = [
        {axis: length if axis - len(x.shape) in lengths else batch for axis, size in enumerate(x.shape) if size is None}
        for x, lengths in zip(model.inputs, axes, strict=True)
    ]
    path = folder / "model.pt2"
    model.export(path, "torch", verbose=False, input_signature=_signature(model), dynamic_shapes={"args": (sizes,)})
    program = torch.export.load(path).module()
    return lambda *arrays: program(list(arrays))


EXPORTS = {"tensorflow": export_saved_model, "torch": export_program}


def _functional_model(case: LayerCase, layer: Any) -> keras.Model:
    """Return a functional model of one layer, of unknown batch and length."""
    inputs, has_axes = [], getattr(case.encoding, "num_axes", 1) > 1  # of positions, before their batch
    for name, array, shape in zip(case.names, case.arrays(), case.shapes(), strict=True):
        batch_shape = shape if name == "positions" and has_axes else (None, *shape[1:])
        dtype = keras.backend.standardize_dtype(array.dtype)
        inputs.append(keras.Input(batch_shape=batch_shape, dtype=dtype, name=name))
    return keras.Model(inputs, case.call(layer, *inputs))


def _from_config(layer: Any, **changes: Any) -> Any:
    """Return a layer from the JSON of another's configuration, with changes and with its weights."""
    other = type(layer).from_config(json.loads(json.dumps({**layer.get_config(), **changes})))
    other.set_weights(layer.get_weights())
    return other


def _signature(model: keras.Model) -> list[Any]:
    """Return the inputs as they are: Keras itself would make the first axis of each unknown."""
    return [[keras.InputSpec(shape=x.shape, dtype=x.dtype, name=x.name) for x in model.inputs]]


MODES: dict[str, Mode] = {
    "in a model": in_a_model,
    "subclassed": subclassed,
    "saved": saved,
    "weights": weights_saved,
    "from config": from_config,
    "mixed_bfloat16": partial(mixed, policy="mixed_bfloat16"),
    "mixed_float16": partial(mixed, policy="mixed_float16"),
    "exported": exported,
    "copied": copied,
    "pickled": pickled,
}
LEFT_OUT = {  # modes that do not depend on the framework, or that are slow; the compiler of PyTorch has its own backend
    "tensorflow": (),
    "jax": ("in a model", "weights", "from config", "exported", "copied", "pickled"),
    "torch": ("subclassed", "copied", "pickled"),
}
MODES = {name: mode for name, mode in MODES.items() if name not in LEFT_OUT[BACKEND]}
GRADIENT_MODES: dict[str, Mode] = {}
if BACKEND == "tensorflow":
    MODES |= _framework.MODES
    GRADIENT_MODES |= _framework.GRADIENT_MODES
RESULT_DTYPES = {"mixed_bfloat16": "bfloat16", "mixed_float16": "float16"}
CONTRACTING = ("subclassed", "saved", *RESULT_DTYPES) if BACKEND == "jax" else ("subclassed",)
