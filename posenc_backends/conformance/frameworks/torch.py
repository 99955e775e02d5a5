"""What the suite needs of PyTorch: how to test a layer, and what its own tools do with one (modes)."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch._dynamo.eval_frame import _debug_get_cache_entry_list

from posenc_backends.conformance.known_failures import known_failures
from posenc_backends.conformance.tooling import LayerCase, Run, copied, pickled

from ...torch.layers import MultiHeadAttention
from .torch_export import exported, moved, moved_assigned, onnx, saved, saved_persistent, traced

KNOWN_FAILURES = known_failures("torch")
CONTRACTS = False  # whether compiled code may fuse a multiplication and an addition, rounding once
WARNINGS = ("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning",)  # inductor's own


def cast(array: torch.Tensor, dtype: str) -> torch.Tensor:
    """The array in the dtype of this name."""
    return array.to(getattr(torch, dtype))


def gradient(function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """The gradient of `sum(function(x) * weights)` with respect to `x`."""
    leaf = x.detach().requires_grad_()
    (result,) = torch.autograd.grad(function(leaf), leaf, weights)
    return result


def compiled(layer: Any) -> Callable[..., Any]:
    """The layer, compiled without a fallback, and without what other layers left in the compiler's cache."""
    torch.compiler.reset()
    return torch.compile(layer, fullgraph=True)


def eval_mode(layer: Any, dtype: str = "float32") -> Any:
    """The layer, told that it is not in training. It computes in the dtype of its tokens; attention has to be cast."""
    return (layer.to(getattr(torch, dtype)) if isinstance(layer, MultiHeadAttention) else layer).eval()


def reloaded(layer: Any, make: Callable[[], Any], folder: Path) -> Any:
    """A layer made anew, with what was saved of `layer`."""
    torch.save(layer.state_dict(), folder / "layer.pt")
    fresh = make()
    fresh.load_state_dict(torch.load(folder / "layer.pt"))
    return fresh


def parameter_gradient(layer: Any, name: str, x: torch.Tensor, weights: torch.Tensor, **options: Any) -> torch.Tensor:
    """The gradient of `sum(layer(x, …) * weights)` with respect to the layer's parameter of this name."""
    (result,) = torch.autograd.grad(layer(x, **options), getattr(layer, name), weights)
    return result


def with_projections(layer: Any, matrices: dict[str, npt.NDArray[np.float32]]) -> Any:
    """The attention layer, with these matrices (inputs × outputs) as its projections."""
    with torch.no_grad():
        for name, matrix in matrices.items():
            getattr(layer, name).weight.copy_(torch.from_numpy(matrix.T.copy()))
    return layer


def with_parameters(layer: Any, numbers: dict[str, npt.NDArray[np.float32]]) -> Any:
    """The layer, with these numbers as its parameters of these names."""
    with torch.no_grad():
        for name, array in numbers.items():
            getattr(layer, name).copy_(torch.from_numpy(array))
    return layer


GRAPHS = 2  # one for the first length, one for all others

Function = Callable[..., Any]


def compile_layer(layer_case: LayerCase, folder: Path) -> Run:
    """Compiled without a fallback, for the first length and then for any; by what comes before code is generated."""
    return _compiled(layer_case, backend="aot_eager", dynamic=None, graphs=GRAPHS)


def compiled_dynamic(layer_case: LayerCase, folder: Path) -> Run:
    """Compiled to machine code without a fallback, once, for any length."""
    return _compiled(layer_case, backend="inductor", dynamic=True, graphs=1)


def vmapped(layer_case: LayerCase, folder: Path) -> Run:
    """Mapped over an axis before all others; of two results the second is looked at."""
    call = torch.func.vmap(partial(layer_case.call, layer_case.layer()))

    def run(*arrays: Any) -> Any:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "There is a performance drop")  # PyTorch maps its attention call by call
            return call(*(torch.stack([array.flip(0), array]) for array in arrays))[1]

    return run


def autocast(layer_case: LayerCase, folder: Path) -> Run:
    """Under bfloat16 autocast."""
    return _autocast(partial(layer_case.call, layer_case.layer()))


def cast_layer(layer_case: LayerCase, folder: Path) -> Run:
    """Cast to float64, both halves of precision and back; what is held is held by all of them."""
    layer = layer_case.layer()
    dtypes = {name: parameter.dtype for name, parameter in layer.named_parameters()}
    layer = layer.double().bfloat16().half()
    for name, parameter in layer.named_parameters():
        parameter.data = parameter.data.to(dtypes[name])
    return partial(layer_case.call, layer)


def after_inference(layer_case: LayerCase, folder: Path) -> Run:
    """In training, after a call in inference mode."""
    layer = layer_case.layer()

    def run(*arrays: Any) -> Any:
        with torch.inference_mode():
            layer_case.call(layer.eval(), *arrays)
        tokens, *others = arrays
        return layer_case.call(layer.train(), tokens.requires_grad_(), *others)

    return run


def compiled_gradient(layer_case: LayerCase, folder: Path) -> Run:
    """Forward and backward compiled without a fallback, once, for any length."""
    call = _compiled(layer_case, backend="aot_eager", dynamic=True, graphs=1)
    return partial(_gradient, call)


def checkpointed(layer_case: LayerCase, folder: Path) -> Run:
    """What the layer computes is computed again on the way back."""
    call = partial(layer_case.call, layer_case.layer())
    return partial(_gradient, partial(torch.utils.checkpoint.checkpoint, call, use_reentrant=False))


def functional(layer_case: LayerCase, folder: Path) -> Run:
    """By `torch.func.vjp`, of the parameters and the tokens at once."""
    layer = layer_case.layer()
    parameters = {name: parameter.detach() for name, parameter in layer.named_parameters()}

    def run(weights: Any, tokens: Any, *others: Any) -> Any:
        def result(parameters: Any, tokens: Any) -> Any:
            given = dict(zip(layer_case.names, (tokens, *others), strict=True))
            return torch.func.functional_call(layer, parameters, kwargs={**given, **layer_case.options})

        _, pullback = torch.func.vjp(result, parameters, tokens)
        return pullback(weights)[1]

    return run


def autocast_gradient(layer_case: LayerCase, folder: Path) -> Run:
    """Forward under bfloat16 autocast."""
    return partial(_gradient, _autocast(partial(layer_case.call, layer_case.layer())))


def _compiled(layer_case: LayerCase, *, backend: str, dynamic: bool | None, graphs: int) -> Run:
    torch.compiler.reset()
    layer = layer_case.layer()
    call = torch.compile(layer, fullgraph=True, backend=backend, dynamic=dynamic)

    def run(*arrays: Any) -> Any:
        with torch.set_grad_enabled(arrays[0].requires_grad):
            result = layer_case.call(call, *arrays)
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
    "compiled": compile_layer,
    "compiled, dynamic": compiled_dynamic,
    "exported": exported,
    "traced": traced,
    "vmapped": vmapped,
    "autocast": autocast,
    "cast": cast_layer,
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
