"""Modes of exporting: a layer as a program of its own, for any length."""

from __future__ import annotations

import warnings
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.export import Dim

from posenc_backends.conformance.tooling import Run, Specimen

from ...torch.onnx import rotary_operator


def exported(specimen: Specimen, folder: Path) -> Run:
    """Exported, saved to a file, loaded and run."""
    program = torch.export.export(specimen.layer(), (), _given(specimen), dynamic_shapes=_dynamic(specimen))
    torch.export.save(program, folder / "layer.pt2")
    return partial(specimen.call, torch.export.load(folder / "layer.pt2").module())


def onnx(specimen: Specimen, folder: Path) -> Run:
    """Exported to ONNX, with its operator for rotations where that fits, saved to a file, and run by onnxruntime."""
    from onnxruntime import InferenceSession, OrtValue

    with rotary_operator(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            specimen.layer(),
            (),
            kwargs=_given(specimen),
            dynamic_shapes=_dynamic(specimen),
            dynamo=True,
            opset_version=23,
            verbose=False,
        )
    program.save(folder / "layer.onnx")
    session = InferenceSession(folder / "layer.onnx")

    def run(*arrays: Any) -> Any:
        given = dict(zip(specimen.names, map(OrtValue.from_dlpack, arrays), strict=True))
        (result,) = session.run_with_ort_values(None, given)
        return torch.from_dlpack(result)

    return run


def traced(specimen: Specimen, folder: Path) -> Run:
    """Traced, saved to a file, loaded and run."""
    with warnings.catch_warnings():
        for kind in (DeprecationWarning, torch.jit.TracerWarning):
            warnings.simplefilter("ignore", kind)
        torch.jit.save(torch.jit.trace(_Called(specimen), specimen.arrays()), folder / "layer.pt")
        return torch.jit.load(folder / "layer.pt")


class _Called(torch.nn.Module):
    """A layer with the options of its call, which a trace has no other place for."""

    def __init__(self, specimen: Specimen) -> None:
        super().__init__()
        self.layer, self.specimen = specimen.layer(), specimen

    def forward(self, *arrays: Any) -> Any:
        return self.specimen.call(self.layer, *arrays)


def _given(specimen: Specimen) -> dict[str, Any]:
    return {**dict(zip(specimen.names, specimen.arrays(), strict=True)), **specimen.options}


def _dynamic(specimen: Specimen) -> dict[str, Any]:
    """For each argument the axes whose size the program leaves open."""
    named = zip(specimen.names, specimen.arrays(), specimen.sizes, strict=True)
    axes = {name: {axis % array.ndim: Dim.DYNAMIC for axis in sizes} for name, array, sizes in named}
    return {**axes, **dict.fromkeys(specimen.options)}
