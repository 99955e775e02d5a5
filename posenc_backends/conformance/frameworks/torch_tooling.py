"""Modes: what PyTorch's own tools do with a layer."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch._dynamo.eval_frame import _debug_get_cache_entry_list

from posenc_backends.conformance.tooling import Run, Specimen, copied, pickled

from .torch_export import exported, onnx, traced
from .torch_saving import moved, moved_assigned, saved, saved_persistent

GRAPHS = 2  # one for the first length, one for all others

Function = Callable[..., Any]


def compiled(specimen: Specimen, folder: Path) -> Run:
    """Compiled without a fallback, for the first length and then for any; by what comes before code is generated."""
    return _compiled(specimen, backend="aot_eager", dynamic=None, graphs=GRAPHS)


def compiled_dynamic(specimen: Specimen, folder: Path) -> Run:
    """Compiled to machine code without a fallback, once, for any length."""
    return _compiled(specimen, backend="inductor", dynamic=True, graphs=1)


def vmapped(specimen: Specimen, folder: Path) -> Run:
    """Mapped over an axis before all others; of two results the second is looked at."""
    call = torch.func.vmap(partial(specimen.call, specimen.layer()))

    def run(*arrays: Any) -> Any:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "There is a performance drop")  # PyTorch maps its attention call by call
            return call(*(torch.stack([array.flip(0), array]) for array in arrays))[1]

    return run


def autocast(specimen: Specimen, folder: Path) -> Run:
    """Under bfloat16 autocast."""
    return _autocast(partial(specimen.call, specimen.layer()))


def cast(specimen: Specimen, folder: Path) -> Run:
    """Cast to float64, both halves of precision and back; what is held is held by all of them."""
    layer = specimen.layer()
    dtypes = {name: parameter.dtype for name, parameter in layer.named_parameters()}
    layer = layer.double().bfloat16().half()
    for name, parameter in layer.named_parameters():
        parameter.data = parameter.data.to(dtypes[name])
    return partial(specimen.call, layer)


def after_inference(specimen: Specimen, folder: Path) -> Run:
    """In training, after a call in inference mode."""
    layer = specimen.layer()

    def run(*arrays: Any) -> Any:
        with torch.inference_mode():
            specimen.call(layer.eval(), *arrays)
        tokens, *others = arrays
        return specimen.call(layer.train(), tokens.requires_grad_(), *others)

    return run


def compiled_gradient(specimen: Specimen, folder: Path) -> Run:
    """Forward and backward compiled without a fallback, once, for any length."""
    call = _compiled(specimen, backend="aot_eager", dynamic=True, graphs=1)
    return partial(_gradient, call)


def checkpointed(specimen: Specimen, folder: Path) -> Run:
    """What the layer computes is computed again on the way back."""
    call = partial(specimen.call, specimen.layer())
    return partial(_gradient, partial(torch.utils.checkpoint.checkpoint, call, use_reentrant=False))


def functional(specimen: Specimen, folder: Path) -> Run:
    """By `torch.func.vjp`, of the parameters and the tokens at once."""
    layer = specimen.layer()
    parameters = {name: parameter.detach() for name, parameter in layer.named_parameters()}

    def run(weights: Any, tokens: Any, *others: Any) -> Any:
        def result(parameters: Any, tokens: Any) -> Any:
            given = dict(zip(specimen.names, (tokens, *others), strict=True))
            return torch.func.functional_call(layer, parameters, kwargs={**given, **specimen.options})

        _, pullback = torch.func.vjp(result, parameters, tokens)
        return pullback(weights)[1]

    return run


def autocast_gradient(specimen: Specimen, folder: Path) -> Run:
    """Forward under bfloat16 autocast."""
    return partial(_gradient, _autocast(partial(specimen.call, specimen.layer())))


def _compiled(specimen: Specimen, *, backend: str, dynamic: bool | None, graphs: int) -> Run:
    torch.compiler.reset()
    layer = specimen.layer()
    call = torch.compile(layer, fullgraph=True, backend=backend, dynamic=dynamic)

    def run(*arrays: Any) -> Any:
        with torch.set_grad_enabled(arrays[0].requires_grad):
            result = specimen.call(call, *arrays)
        found = len(_debug_get_cache_entry_list(type(layer).forward.__code__))
        if not 1 <= found <= graphs:
            raise RuntimeError(f"Expected {graphs} graphs at most, got {found}.")
        return result

    return run


def _autocast(call: Function) -> Function:
    def run(*arrays: Any) -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            return call(*arrays)

    return run


def _gradient(call: Function, weights: Any, tokens: Any, *others: Any) -> Any:
    leaf = tokens.detach().requires_grad_()
    (gradient,) = torch.autograd.grad(call(leaf, *others), leaf, weights)
    return gradient


MODES: dict[str, Any] = {
    "compiled": compiled,
    "compiled, dynamic": compiled_dynamic,
    "exported": exported,
    "traced": traced,
    "vmapped": vmapped,
    "autocast": autocast,
    "cast": cast,
    "saved": saved,
    "saved, persistent": saved_persistent,
    "moved": moved,
    "moved, assigned": moved_assigned,
    "copied": copied,
    "pickled": pickled,
    "in inference mode, then training": after_inference,
}
MODES |= {"onnx": onnx} if find_spec("onnxscript") and find_spec("onnxruntime") else {}  # which write it and run it
GRADIENT_MODES: dict[str, Any] = {
    "compiled": compiled_gradient,
    "checkpointed": checkpointed,
    "functional": functional,
    "autocast": autocast_gradient,
}
RESULT_DTYPES = {"autocast: MultiHeadAttention": "bfloat16"}  # its products are; what has no products keeps its dtype
CONTRACTING = ("onnx",)  # whose operator for rotations rounds a product and a sum once
