"""Models written for others than Keras, and loaded without it."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import keras

from posenc_backends.conformance.tooling import Run


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
