"""What the suite needs of Keras: how to test a layer, and what its own tools do with one (modes)."""

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
from posenc_backends.conformance.tooling import LayerCase, Run, copied, pickled
from posenc_core.encodings import Additive, Rotary

from ...keras import backend as arrays

BACKEND = keras.backend.backend()
_harness = import_module(f"posenc_backends.conformance.frameworks.{BACKEND}")

KNOWN_FAILURES = known_failures("keras", ("", BACKEND)) | {
    key: why for key, why in _harness.KNOWN_FAILURES.items() if key in DIGITS
}
CONTRACTS = _harness.CONTRACTS
WARNINGS = (  # when Keras reads its variables
    *_harness.WARNINGS,
    "ignore:__array__ implementation doesn't accept a copy keyword:DeprecationWarning",
)

cast = _harness.cast
gradient = _harness.gradient
compiled = _harness.compiled


def eval_mode(layer: Any, dtype: str = "float32") -> Any:
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


def with_projections(layer: Any, matrices: dict[str, npt.NDArray[np.float32]]) -> Any:
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


def in_a_model(layer_case: LayerCase, folder: Path) -> Run:
    """In a functional model of unknown length, which predicts without a compiler: in TensorFlow as a graph."""
    model = _functional(layer_case, layer_case.layer())
    model.compile(jit_compile=False)
    return lambda *arrays: model.predict_on_batch(list(arrays))


def subclassed(layer_case: LayerCase, folder: Path) -> Run:
    """In a subclassed model, compiled."""
    model = Holding(layer_case, layer_case.layer())
    model.compile(jit_compile=True)
    return lambda *arrays: model.predict_on_batch(list(arrays))


def saved(layer_case: LayerCase, folder: Path) -> Run:
    """A functional model of unknown length as a `.keras` file; loaded, it predicts as Keras does by default."""
    _functional(layer_case, layer_case.layer()).save(folder / "model.keras")
    model = keras.saving.load_model(folder / "model.keras")
    if BACKEND == "jax":  # which takes longest without its compiler
        return lambda *arrays: model.predict_on_batch(list(arrays))
    return lambda *arrays: model(list(arrays))


def weights_saved(layer_case: LayerCase, folder: Path) -> Run:
    """The weights of a functional model as an `.h5` file, loaded into one made anew."""
    _functional(layer_case, layer_case.layer()).save_weights(folder / "model.weights.h5")
    model = _functional(layer_case, layer_case.make())
    model.load_weights(folder / "model.weights.h5")
    return lambda *arrays: model(list(arrays))


def from_config(layer_case: LayerCase, folder: Path) -> Run:
    """A layer made from the JSON of the configuration of another, with its weights."""
    layer = _made_again(layer_case.layer())
    return lambda *arrays: layer_case.call(layer, *arrays)


def mixed(layer_case: LayerCase, folder: Path, *, policy: str) -> Run:
    """Under a policy that computes in half precision what is held in float32."""
    layer = _made_again(layer_case.layer(), dtype=policy)
    call = compiled(layer) if BACKEND == "jax" else layer
    return lambda *arrays: layer_case.call(call, *arrays)


def exported(layer_case: LayerCase, folder: Path) -> Run:
    """A functional model of unknown length as TensorFlow's SavedModel, or PyTorch's program; loaded without Keras."""
    return EXPORTS[BACKEND](_functional(layer_case, layer_case.layer()), list(layer_case.sizes), folder)


class Holding(keras.Model):
    """A model of one layer."""

    def __init__(self, layer_case: LayerCase, layer: Any) -> None:
        super().__init__()
        self.layer_case, self.layer = layer_case, layer
        self.built = True  # its layer has all that it needs: no call before the compiled one

    def call(self, arrays: Any) -> Any:
        return self.layer_case.call(self.layer, *arrays)


def _functional(layer_case: LayerCase, layer: Any) -> keras.Model:
    """A model of one layer, whose batch and length are unknown."""
    told = zip(layer_case.names, layer_case.arrays(), layer_case.sizes, strict=True)
    inputs = [keras.Input(batch_shape=_open(layer_case, *each), dtype=_dtype(each[1]), name=each[0]) for each in told]
    return keras.Model(inputs, layer_case.call(layer, *inputs))


def _open(layer_case: LayerCase, name: str, array: Any, axes: tuple[int, ...]) -> list[int | None]:
    """The sizes of an array, where lengths and the batch are unknown; the first axis of positions may be none."""
    sizes: list[int | None] = list(array.shape)
    for axis in axes:
        sizes[axis] = None
    if name != "positions" or getattr(layer_case.encoding, "num_axes", 1) == 1:
        sizes[0] = None
    return sizes


def _dtype(array: Any) -> str:
    return str(keras.backend.standardize_dtype(array.dtype))


def _made_again(layer: Any, **other: Any) -> Any:
    """A layer made from the JSON of another's configuration, and of what is to be different, with its weights."""
    again = type(layer).from_config(json.loads(json.dumps({**layer.get_config(), **other})))
    again.set_weights(layer.get_weights())
    return again


MODES: dict[str, Any] = {
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
LEFT_OUT = {  # what Keras decides alike on each backend; JAX compiles every length, PyTorch's compiler has its own room
    "tensorflow": (),
    "jax": ("in a model", "weights", "from config", "exported", "copied", "pickled"),
    "torch": ("subclassed", "copied", "pickled"),
}

_room: Any = import_module("posenc_backends.conformance.frameworks.tensorflow") if BACKEND == "tensorflow" else None
MODES = {name: mode for name, mode in MODES.items() if name not in LEFT_OUT[BACKEND]} | getattr(_room, "MODES", {})
GRADIENT_MODES: dict[str, Any] = getattr(_room, "GRADIENT_MODES", {})
RESULT_DTYPES = {"mixed_bfloat16": "bfloat16", "mixed_float16": "float16"}
CONTRACTING = ("subclassed", "saved", *RESULT_DTYPES) if BACKEND == "jax" else ("subclassed",)
LENGTHS = (53, 7) if BACKEND == "jax" else (53, 7, 16, 17, 33)


def as_saved_model(model: keras.Model, axes: list[tuple[int, ...]], folder: Path) -> Run:
    """As TensorFlow's SavedModel; sizes that `model` does not know stay open."""
    model.export(folder / "model", verbose=False, input_signature=_signature(model))
    program = import_module("tensorflow").saved_model.load(str(folder / "model"))
    return lambda *arrays: program.serve(list(arrays))


def as_program(model: keras.Model, axes: list[tuple[int, ...]], folder: Path) -> Run:
    """As PyTorch's program, whose open sizes have names: the batch and, on `axes` of each input, the length."""
    torch = import_module("torch")
    batch, length = (torch.export.Dim(name, min=1, max=1 << 10) for name in ("batch", "length"))
    sizes = [
        {axis: length if axis - len(x.shape) in own else batch for axis, size in enumerate(x.shape) if size is None}
        for x, own in zip(model.inputs, axes, strict=True)
    ]
    path = folder / "model.pt2"
    model.export(path, "torch", verbose=False, input_signature=_signature(model), dynamic_shapes={"args": (sizes,)})
    program = torch.export.load(path).module()
    return lambda *arrays: program(list(arrays))


def _signature(model: keras.Model) -> list[Any]:
    """The inputs as they are: Keras itself would open the first axis of each."""
    return [[keras.InputSpec(shape=x.shape, dtype=x.dtype, name=x.name) for x in model.inputs]]


EXPORTS = {"tensorflow": as_saved_model, "torch": as_program}
