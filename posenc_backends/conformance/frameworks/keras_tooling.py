"""Modes: what Keras's own tools do with a layer."""

from __future__ import annotations

import json
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import keras

from posenc_backends.conformance.tooling import Run, Specimen, copied, pickled

from .keras_export import EXPORTS

BACKEND = keras.backend.backend()


def in_a_model(specimen: Specimen, folder: Path) -> Run:
    """In a functional model of unknown length, which predicts without a compiler: in TensorFlow as a graph."""
    model = _functional(specimen, specimen.layer())
    model.compile(jit_compile=False)
    return lambda *arrays: model.predict_on_batch(list(arrays))


def subclassed(specimen: Specimen, folder: Path) -> Run:
    """In a subclassed model, compiled."""
    model = Holding(specimen, specimen.layer())
    model.compile(jit_compile=True)
    return lambda *arrays: model.predict_on_batch(list(arrays))


def saved(specimen: Specimen, folder: Path) -> Run:
    """A functional model of unknown length as a `.keras` file; loaded, it predicts as Keras does by default."""
    _functional(specimen, specimen.layer()).save(folder / "model.keras")
    model = keras.saving.load_model(folder / "model.keras")
    if BACKEND == "jax":  # which takes longest without its compiler
        return lambda *arrays: model.predict_on_batch(list(arrays))
    return lambda *arrays: model(list(arrays))


def weights_saved(specimen: Specimen, folder: Path) -> Run:
    """The weights of a functional model as an `.h5` file, loaded into one made anew."""
    _functional(specimen, specimen.layer()).save_weights(folder / "model.weights.h5")
    model = _functional(specimen, specimen.make())
    model.load_weights(folder / "model.weights.h5")
    return lambda *arrays: model(list(arrays))


def from_config(specimen: Specimen, folder: Path) -> Run:
    """A layer made from the JSON of the configuration of another, with its weights."""
    layer = _made_again(specimen.layer())
    return lambda *arrays: specimen.call(layer, *arrays)


def mixed(specimen: Specimen, folder: Path, *, policy: str) -> Run:
    """Under a policy that computes in half precision what is held in float32."""
    layer = _made_again(specimen.layer(), dtype=policy)
    call = specimen.on.harness.compiled(layer) if BACKEND == "jax" else layer
    return lambda *arrays: specimen.call(call, *arrays)


def exported(specimen: Specimen, folder: Path) -> Run:
    """A functional model of unknown length as TensorFlow's SavedModel, or PyTorch's program; loaded without Keras."""
    return EXPORTS[BACKEND](_functional(specimen, specimen.layer()), list(specimen.sizes), folder)


class Holding(keras.Model):
    """A model of one layer."""

    def __init__(self, specimen: Specimen, layer: Any) -> None:
        super().__init__()
        self.specimen, self.layer = specimen, layer
        self.built = True  # its layer has all that it needs: no call before the compiled one

    def call(self, arrays: Any) -> Any:
        return self.specimen.call(self.layer, *arrays)


def _functional(specimen: Specimen, layer: Any) -> keras.Model:
    """A model of one layer, whose batch and length are unknown."""
    told = zip(specimen.names, specimen.arrays(), specimen.sizes, strict=True)
    inputs = [keras.Input(batch_shape=_open(specimen, *each), dtype=_dtype(each[1]), name=each[0]) for each in told]
    return keras.Model(inputs, specimen.call(layer, *inputs))


def _open(specimen: Specimen, name: str, array: Any, axes: tuple[int, ...]) -> list[int | None]:
    """The sizes of an array, where lengths and the batch are unknown; the first axis of positions may be none."""
    sizes: list[int | None] = list(array.shape)
    for axis in axes:
        sizes[axis] = None
    if name != "positions" or getattr(specimen.encoding, "num_axes", 1) == 1:
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

_room: Any = (
    import_module("posenc_backends.conformance.frameworks.tensorflow_tooling") if BACKEND == "tensorflow" else None
)
MODES = {name: mode for name, mode in MODES.items() if name not in LEFT_OUT[BACKEND]} | getattr(_room, "MODES", {})
GRADIENT_MODES: dict[str, Any] = getattr(_room, "GRADIENT_MODES", {})
RESULT_DTYPES = {"mixed_bfloat16": "bfloat16", "mixed_float16": "float16"}
CONTRACTING = ("subclassed", "saved", *RESULT_DTYPES) if BACKEND == "jax" else ("subclassed",)
LENGTHS = (53, 7) if BACKEND == "jax" else (53, 7, 16, 17, 33)
