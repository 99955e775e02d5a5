"""Test layers of PyTorch: helpers of the suite, and modes."""

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

from posenc_backends.conformance.known_failures import known_failures

from ...torch.layers import MultiHeadAttention
from ..tooling import LayerCase, Mode, Run, copied, eager, gradient_in, gradient_of, pickled, saved
from .torch_export import exported, moved, moved_assigned, onnx, saved_persistent, traced

KNOWN_FAILURES = known_failures("torch")
WARNINGS = (  # of `torch.compile` itself
    "ignore:`torch.jit.script_method` is deprecated:DeprecationWarning",
    "ignore:.* should not be instantiated:DeprecationWarning",
)
CONTRACTS = False  # `compiled` never fuses a multiplication and an addition
NUM_GRAPHS = 2  # one for the first length, one for all others


def use_device(name: str) -> None:
    """Let all tensors that are made from now on lie on the device of this name.

    Raises:
        ValueError: if PyTorch has no such device here, or none that computes.
    """
    try:
        device = torch.empty(0, device=name).device
    except (AssertionError, RuntimeError, NotImplementedError) as error:
        why = str(error).strip().partition("\n")[0]
        raise ValueError(f"`device` must be one that PyTorch finds here, got {name!r}: {why}") from error
    if device.type == "meta":
        raise ValueError("`device` must be one that computes, got 'meta'.")
    torch.set_default_device(device)


def cast(array: torch.Tensor, dtype: str) -> torch.Tensor:
    """Return the array in the dtype of this name."""
    return array.to(getattr(torch, dtype))


def gradient(function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Return the gradient of `sum(function(x) * weights)` with respect to `x`."""
    leaf = x.detach().requires_grad_()
    (result,) = torch.autograd.grad(function(leaf), leaf, weights)
    return result


def compiled(layer: Any) -> Callable[..., Any]:
    """Return the layer compiled without a fallback for calls without gradients, after clearing the compiler's cache."""
    return _compiled_by("inductor", layer)


def traced_graph(layer: Any) -> Callable[..., Any]:
    """Return the layer compiled like `compiled` up to code generation, which takes most of the time."""
    return _compiled_by("aot_eager", layer)


def _compiled_by(compiler: str, layer: Any) -> Callable[..., Any]:
    torch.compiler.reset()
    call = torch.compile(layer, fullgraph=True, backend=compiler)

    def run(*arrays: Any, **options: Any) -> Any:
        with torch.no_grad():  # else the graph of gradients by parameters is built as well, which modes check
            return call(*arrays, **options)

    return run


def eval_mode(layer: Any, dtype: str = "float32") -> Any:
    """Return the layer in evaluation mode; cast attention to this dtype, as others use that of the tokens."""
    return (layer.to(getattr(torch, dtype)) if isinstance(layer, MultiHeadAttention) else layer).eval()


def with_projections(layer: Any, matrices: dict[str, npt.NDArray[np.float32]]) -> Any:
    """Set the projections of an attention layer to these matrices (inputs × outputs), and return the layer."""
    with torch.no_grad():
        for name, matrix in matrices.items():
            getattr(layer, name).weight.copy_(torch.from_numpy(matrix.T.copy()))
    return layer


def with_parameters(layer: Any, numbers: dict[str, npt.NDArray[np.float32]]) -> Any:
    """Set the layer's parameters of these names, and return the layer."""
    with torch.no_grad():
        for name, array in numbers.items():
            getattr(layer, name).copy_(torch.from_numpy(array))
    return layer


def save_layer(layer: Any, folder: Path) -> None:
    """Save the state of the layer to a file in a folder."""
    torch.save(layer.state_dict(), folder / "layer.pt")


def load_layer(make: Callable[[], Any], folder: Path) -> Any:
    """Load the file that `save_layer` wrote into a new layer, and return that."""
    loaded = make()
    loaded.load_state_dict(torch.load(folder / "layer.pt"))
    return loaded


def parameter_gradient(layer: Any, name: str, x: torch.Tensor, weights: torch.Tensor, **options: Any) -> torch.Tensor:
    """Return the gradient of `sum(layer(x, …) * weights)` with respect to the layer's parameter of this name."""
    (result,) = torch.autograd.grad(layer(x, **options), getattr(layer, name), weights)
    return result


def compile_layer(
    case: LayerCase, folder: Path, *, backend: str = "aot_eager", dynamic: bool | None = None, graphs: int = NUM_GRAPHS
) -> Run:
    """Compile without a fallback for the first length, then for any length; stop before code generation."""
    torch.compiler.reset()
    layer = case.layer()
    call = torch.compile(layer, fullgraph=True, backend=backend, dynamic=dynamic)

    def run(*arrays: Any) -> Any:
        with torch.set_grad_enabled(arrays[0].requires_grad):
            result = case.call(call, *arrays)
        from torch._dynamo.eval_frame import _debug_get_cache_entry_list  # takes as long to import as PyTorch

        count = len(_debug_get_cache_entry_list(type(layer).forward.__code__))
        if not 1 <= count <= graphs:
            raise RuntimeError(f"Expected {graphs} graphs at most, got {count}.")
        return result

    return run


def compiled_dynamic(case: LayerCase, folder: Path) -> Run:
    """Compile to machine code without a fallback, once for any length."""
    return compile_layer(case, folder, backend="inductor", dynamic=True, graphs=1)


def vmapped(case: LayerCase, folder: Path) -> Run:
    """Apply `vmap` over a new first axis of size 2; the second result is checked."""
    call = torch.func.vmap(eager(case, folder))

    def run(*arrays: Any) -> Any:
        with warnings.catch_warnings():
            # PyTorch runs its attention once per element
            warnings.filterwarnings("ignore", "There is a performance drop")
            return call(*(torch.stack([array.flip(0), array]) for array in arrays))[1]

    return run


def autocast(case: LayerCase, folder: Path) -> Run:
    """Call the layer under bfloat16 autocast."""
    layer = case.layer()

    def run(*arrays: Any) -> Any:
        with torch.autocast(torch.get_default_device().type, torch.bfloat16):
            return case.call(layer, *arrays)

    return run


def cast_layer(case: LayerCase, folder: Path) -> Run:
    """Cast the layer to float64, bfloat16, float16 and back; its parameters fit into each of them."""
    layer = case.layer()
    dtypes = {name: parameter.dtype for name, parameter in layer.named_parameters()}
    layer = layer.double().bfloat16().half()
    for name, parameter in layer.named_parameters():
        parameter.data = parameter.data.to(dtypes[name])
    return partial(case.call, layer)


def after_inference(case: LayerCase, folder: Path) -> Run:
    """Call the layer in training mode, after a call in inference mode."""
    layer = case.layer()

    def run(*arrays: Any) -> Any:
        with torch.inference_mode():
            case.call(layer.eval(), *arrays)
        tokens, *others = arrays
        return case.call(layer.train(), tokens.requires_grad_(), *others)

    return run


def checkpointed(case: LayerCase, folder: Path) -> Run:
    """Recompute the layer in the backward pass (activation checkpointing)."""
    recomputed = partial(torch.utils.checkpoint.checkpoint, eager(case, folder), use_reentrant=False)
    return gradient_of(gradient, recomputed)


def functional(case: LayerCase, folder: Path) -> Run:
    """Apply `torch.func.vjp` to parameters and tokens at once."""
    layer = case.layer()
    parameters = {name: parameter.detach() for name, parameter in layer.named_parameters()}

    def run(weights: Any, tokens: Any, *others: Any) -> Any:
        def result(parameters: Any, tokens: Any) -> Any:
            arrays = dict(zip(case.names, (tokens, *others), strict=True))
            return torch.func.functional_call(layer, parameters, kwargs={**arrays, **case.options})

        _, pull_back = torch.func.vjp(result, parameters, tokens)
        return pull_back(weights)[1]

    return run


MODES: dict[str, Mode] = {
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
MODES |= {"onnx": onnx} if find_spec("onnxscript") and find_spec("onnxruntime") else {}  # to write it and to run it
GRADIENT_MODES: dict[str, Mode] = {
    "compiled": partial(gradient_in, partial(compile_layer, dynamic=True, graphs=1)),
    "checkpointed": checkpointed,
    "functional": functional,
    "autocast": partial(gradient_in, autocast),
}
# The dtype of matrix products; other layers keep that of their tokens.
RESULT_DTYPES = {"autocast: MultiHeadAttention": "bfloat16"}
CONTRACTING = ("onnx",)  # its operator RotaryEmbedding fuses a product and a sum
