"""Modes of PyTorch that write a layer to a file: state, exported program, ONNX, trace."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch.export import Dim

from posenc_backends.conformance.tooling import LayerCase, Run

from ...torch.onnx import rotary_operator

NAMES = ("PositionalEncoding", "RotaryEmbedding", "AttentionBias", "MultiHeadAttention")


def saved(layer_case: LayerCase, folder: Path) -> Run:
    """The state in a file, loaded into a new layer."""
    torch.save(layer_case.layer().state_dict(), folder / "layer.pt")
    fresh = layer_case.make()
    fresh.load_state_dict(torch.load(folder / "layer.pt"))
    return partial(layer_case.call, fresh)


def saved_persistent(layer_case: LayerCase, folder: Path) -> Run:
    """The same of layers whose tables are part of their state."""
    backend = layer_case.on.backend
    kept = {name: partial(getattr(backend, name), persistent=True) for name in NAMES}
    persistent = ModuleType(backend.__name__)
    vars(persistent).update({**vars(backend), **kept})
    return saved(replace(layer_case, on=layer_case.on._replace(backend=persistent)), folder)


def moved(layer_case: LayerCase, folder: Path) -> Run:
    """A layer made on the meta device, given memory, and then the state of another."""
    fresh = _on_meta(layer_case).to_empty(device="cpu")
    fresh.load_state_dict(layer_case.layer().state_dict())
    return partial(layer_case.call, fresh)


def moved_assigned(layer_case: LayerCase, folder: Path) -> Run:
    """A layer made on the meta device that takes over the tensors of another's state."""
    fresh = _on_meta(layer_case)
    fresh.load_state_dict(layer_case.layer().state_dict(), assign=True)
    return partial(layer_case.call, fresh)


def _on_meta(layer_case: LayerCase) -> Any:
    with torch.device("meta"):
        return layer_case.make()


def exported(layer_case: LayerCase, folder: Path) -> Run:
    """Exported, saved to a file, loaded and run."""
    program = torch.export.export(layer_case.layer(), (), _given(layer_case), dynamic_shapes=_dynamic(layer_case))
    torch.export.save(program, folder / "layer.pt2")
    return partial(layer_case.call, torch.export.load(folder / "layer.pt2").module())


def onnx(layer_case: LayerCase, folder: Path) -> Run:
    """Exported to ONNX, with its operator for rotations where that fits, saved to a file, and run by onnxruntime."""
    from onnxruntime import InferenceSession, OrtValue

    with rotary_operator(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            layer_case.layer(),
            (),
            kwargs=_given(layer_case),
            dynamic_shapes=_dynamic(layer_case),
            dynamo=True,
            opset_version=23,
            verbose=False,
        )
    program.save(folder / "layer.onnx")
    session = InferenceSession(folder / "layer.onnx")

    def run(*arrays: Any) -> Any:
        given = dict(zip(layer_case.names, map(OrtValue.from_dlpack, arrays), strict=True))
        (result,) = session.run_with_ort_values(None, given)
        return torch.from_dlpack(result)

    return run


def traced(layer_case: LayerCase, folder: Path) -> Run:
    """Traced, saved to a file, loaded and run."""
    with warnings.catch_warnings():
        for kind in (DeprecationWarning, torch.jit.TracerWarning):
            warnings.simplefilter("ignore", kind)
        torch.jit.save(torch.jit.trace(_Called(layer_case), layer_case.arrays()), folder / "layer.pt")
        return torch.jit.load(folder / "layer.pt")


class _Called(torch.nn.Module):
    """A layer with the options of its call, which a trace has no other place for."""

    def __init__(self, layer_case: LayerCase) -> None:
        super().__init__()
        self.layer, self.layer_case = layer_case.layer(), layer_case

    def forward(self, *arrays: Any) -> Any:
        return self.layer_case.call(self.layer, *arrays)


def _given(layer_case: LayerCase) -> dict[str, Any]:
    return {**dict(zip(layer_case.names, layer_case.arrays(), strict=True)), **layer_case.options}


def _dynamic(layer_case: LayerCase) -> dict[str, Any]:
    """For each argument the axes whose size the program leaves open."""
    named = zip(layer_case.names, layer_case.arrays(), layer_case.sizes, strict=True)
    axes = {name: {axis % array.ndim: Dim.DYNAMIC for axis in sizes} for name, array, sizes in named}
    return {**axes, **dict.fromkeys(layer_case.options)}
