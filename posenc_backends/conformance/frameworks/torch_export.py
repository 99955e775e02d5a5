"""Modes of PyTorch that save, move or export a layer: state, meta device, exported program, ONNX, trace."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch.export import Dim

from posenc_backends.conformance.tooling import LayerCase, Run, saved

from ...torch.onnx import rotary_operator

NAMES = ("PositionalEncoding", "RotaryEmbedding", "AttentionBias", "MultiHeadAttention")


def saved_persistent(case: LayerCase, folder: Path) -> Run:
    """Save the state with its tables (`persistent=True`), and load it into a new layer."""
    backend = case.on.backend
    persistent = ModuleType(backend.__name__)
    vars(persistent).update(vars(backend))
    vars(persistent).update({name: partial(getattr(backend, name), persistent=True) for name in NAMES})
    return saved(replace(case, on=case.on._replace(backend=persistent)), folder)


def moved(case: LayerCase, folder: Path) -> Run:
    """Make a layer on the meta device, allocate it with `to_empty`, and load the state of another."""
    layer = _on_meta(case).to_empty(device=torch.get_default_device())
    layer.load_state_dict(case.layer().state_dict())
    return partial(case.call, layer)


def moved_assigned(case: LayerCase, folder: Path) -> Run:
    """Make a layer on the meta device and load the state of another with `assign=True`."""
    layer = _on_meta(case)
    layer.load_state_dict(case.layer().state_dict(), assign=True)
    return partial(case.call, layer)


def exported(case: LayerCase, folder: Path) -> Run:
    """Export the layer with `torch.export`, save the program to a file and load it."""
    program = torch.export.export(case.layer(), (), _arguments(case), dynamic_shapes=_dynamic_shapes(case))
    torch.export.save(program, folder / "layer.pt2")
    return partial(case.call, torch.export.load(folder / "layer.pt2").module())


def onnx(case: LayerCase, folder: Path) -> Run:
    """Export the layer to ONNX, with the operator RotaryEmbedding if it applies, and run the file with onnxruntime."""
    from onnxruntime import InferenceSession, OrtValue

    with rotary_operator(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            case.layer(),
            (),
            kwargs=_arguments(case),
            dynamic_shapes=_dynamic_shapes(case),
            dynamo=True,
            opset_version=23,
            verbose=False,
        )
    program.save(folder / "layer.onnx")
    session = InferenceSession(folder / "layer.onnx")

    def run(*arrays: Any) -> Any:
        inputs = {name: OrtValue.from_dlpack(array.cpu()) for name, array in zip(case.names, arrays, strict=True)}
        (result,) = session.run_with_ort_values(None, inputs)
        return torch.from_dlpack(result)

    return run


def traced(case: LayerCase, folder: Path) -> Run:
    """Trace the layer with `torch.jit.trace`, save the trace to a file and load it."""
    with warnings.catch_warnings():
        for category in (DeprecationWarning, torch.jit.TracerWarning):
            warnings.simplefilter("ignore", category)
        torch.jit.save(torch.jit.trace(_Bound(case), case.arrays()), folder / "layer.pt")
        return torch.jit.load(folder / "layer.pt")


class _Bound(torch.nn.Module):
    """A layer with the options of its call: a trace takes tensors only."""

    def __init__(self, case: LayerCase) -> None:
        super().__init__()
        self.layer, self.case = case.layer(), case

    def forward(self, *arrays: Any) -> Any:
        return self.case.call(self.layer, *arrays)


def _on_meta(case: LayerCase) -> Any:
    with torch.device("meta"):
        return case.make()


def _arguments(case: LayerCase) -> dict[str, Any]:
    return {**dict(zip(case.names, case.arrays(), strict=True)), **case.options}


def _dynamic_shapes(case: LayerCase) -> dict[str, Any]:
    """Return, for each argument, the axes of dynamic size."""
    arrays = zip(case.names, case.arrays(), case.sizes, strict=True)
    axes = {name: {axis % array.ndim: Dim.DYNAMIC for axis in sizes} for name, array, sizes in arrays}
    return {**axes, **dict.fromkeys(case.options)}
