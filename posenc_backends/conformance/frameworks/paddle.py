"""Test layers of Paddle: helpers of the suite, and modes."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import paddle
from paddle import inference, nn
from paddle.distributed.fleet import utils as fleet
from paddle.jit.sot.opcode_translator.executor.executor_cache import OpcodeExecutorCache
from paddle.jit.sot.symbolic.compile_cache import CompileSIRCache
from paddle.jit.sot.utils.envs import min_graph_size_guard
from paddle.static import InputSpec

from posenc_backends.conformance.known_failures import known_failures

from ...paddle.layers import MultiHeadAttention
from ..tooling import LayerCase, Mode, Run, copied, eager, gradient_in, gradient_of, pickled, saved

KNOWN_FAILURES = known_failures("paddle")
WARNINGS = ("ignore:Tensor do not have '.*' interface for (pir|static) graph mode:UserWarning",)  # all traced code
CONTRACTS = False  # `compiled` never fuses a multiplication and an addition

_errors: list[Exception] = []  # keeps failed traces alive: Paddle confuses a later program that gets the same `id`


def cast(array: paddle.Tensor, dtype: str) -> paddle.Tensor:
    """Return the array in the dtype of this name."""
    return array.astype(dtype)


def gradient(
    function: Callable[[paddle.Tensor], paddle.Tensor], x: paddle.Tensor, weights: paddle.Tensor
) -> paddle.Tensor:
    """Return the gradient of `sum(function(x) * weights)` with respect to `x`."""
    leaf = x.detach()
    leaf.stop_gradient = False
    (result,) = paddle.grad(function(leaf), leaf, weights)
    return result


def compiled(layer: Any) -> Callable[..., Any]:
    """Return a copy of the layer compiled without a fallback; `to_static` changes its argument."""
    static = paddle.jit.to_static(copy(layer), full_graph=True)

    def call(*arrays: Any, **options: Any) -> Any:
        try:
            return static(*arrays, **options)
        except Exception as error:
            _errors.append(error)
            raise

    return call


def eval_mode(layer: Any, dtype: str = "float32") -> Any:
    """Return the layer in evaluation mode. It computes in the dtype of its tokens.

    Raises:
        NotImplementedError: if it is attention in half precision, whose compiled projections end the process on a CPU.
    """
    if isinstance(layer, MultiHeadAttention) and dtype != "float32":
        raise NotImplementedError(f"Paddle's `Linear` does not compute in {dtype} on a CPU.")
    layer.eval()
    return layer


def with_projections(layer: Any, matrices: dict[str, npt.NDArray[np.float32]]) -> Any:
    """Set the projections of an attention layer to these matrices (inputs × outputs), and return the layer."""
    for name, matrix in matrices.items():
        getattr(layer, name).weight.set_value(matrix)
    return layer


def with_parameters(layer: Any, numbers: dict[str, npt.NDArray[np.float32]]) -> Any:
    """Set the layer's parameters of these names, and return the layer."""
    for name, array in numbers.items():
        getattr(layer, name).set_value(array)
    return layer


def save_layer(layer: Any, folder: Path) -> None:
    """Save the state of the layer to a file in a folder."""
    # Nested: `save` warns of a state without parameters.
    paddle.save({"layer": layer.state_dict()}, str(folder / "layer.pdparams"))


def load_layer(make: Callable[[], Any], folder: Path) -> Any:
    """Load the file that `save_layer` wrote into a new layer, and return that."""
    loaded = make()
    loaded.set_state_dict(paddle.load(str(folder / "layer.pdparams"))["layer"])
    return loaded


def parameter_gradient(
    layer: Any, name: str, x: paddle.Tensor, weights: paddle.Tensor, **options: Any
) -> paddle.Tensor:
    """Return the gradient of `sum(layer(x, …) * weights)` with respect to the layer's parameter of this name."""
    (result,) = paddle.grad(layer(x, **options), getattr(layer, name), weights)
    return result


class Model(nn.Layer):
    """A model that contains a layer."""

    def __init__(self, layer: nn.Layer) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, arguments: Any) -> Any:
        return self.layer(*arguments)


class AutocastModel(Model):
    """A model that calls its layer under bfloat16 autocast."""

    def forward(self, arguments: Any) -> Any:
        with paddle.amp.auto_cast(level="O1", dtype="bfloat16"):
            return self.layer(*arguments)


def compile_layer(case: LayerCase, folder: Path) -> Run:
    """Compile the layer from its source, once for every length."""
    return _compiled(case, case.layer())


def compiled_sot(case: LayerCase, folder: Path) -> Run:
    """Compile a model that contains the layer from its bytecode (SOT)."""
    OpcodeExecutorCache().clear()  # Paddle compiles 20 programs from one piece of code, and silently no more
    CompileSIRCache().clear()
    static = paddle.jit.to_static(Model(_traced(case.layer())), full_graph=False)

    def run(*arrays: Any) -> Any:
        with min_graph_size_guard(0):  # a model with a single sum is below Paddle's limit
            return static(_positional(case, arrays))

    return run


def in_a_model(case: LayerCase, folder: Path) -> Run:
    """Compile a model that contains the layer from its source."""
    return _compiled_model(Model(case.layer()), case)


def exported(case: LayerCase, folder: Path) -> Run:
    """Save the layer as a program for every length, and load it without Python code."""
    return paddle.jit.load(_export(case, folder))


def predicted(case: LayerCase, folder: Path, *, has_onednn: bool = True) -> Run:
    """Save the layer as a program, and run it with Paddle Inference and its default optimizations."""
    path = _export(case, folder)
    config = inference.Config(f"{path}.json", f"{path}.pdiparams")
    config.disable_glog_info()
    if not has_onednn:
        config.disable_mkldnn()
    predictor = inference.create_predictor(config)
    return lambda *arrays: predictor.run(list(arrays))[0].clone()  # the next run overwrites the result


def predicted_without_onednn(case: LayerCase, folder: Path) -> Run:
    """Save the layer as a program, and run it with Paddle Inference without oneDNN."""
    return predicted(case, folder, has_onednn=False)


def autocast(case: LayerCase, folder: Path) -> Run:
    """Compile a model that calls the layer under bfloat16 autocast; on a CPU, Paddle ignores autocast in eager code."""
    if case.kind == "MultiHeadAttention":
        raise RuntimeError("Compiled in half precision on a CPU, Paddle's `Linear` ends the process.")
    return _compiled_model(AutocastModel(case.layer()), case)


def cast_layer(case: LayerCase, folder: Path) -> Run:
    """Cast the layer to float16 and bfloat16: its parameters change their dtype, its tables do not."""
    return partial(case.call, case.layer().to(dtype="float16").to(dtype="bfloat16"))


def gradient_compiled(case: LayerCase, folder: Path) -> Run:
    """Compile forward and backward pass from source."""
    layer = case.layer()
    layer.train()  # in evaluation mode, Paddle compiles no backward pass
    return gradient_of(gradient, _compiled(case, layer))


def recomputed(case: LayerCase, folder: Path) -> Run:
    """Recompute the layer in the backward pass (activation checkpointing)."""
    layer = case.layer()
    return gradient_of(gradient, lambda *arrays: fleet.recompute(layer, *_positional(case, arrays)))


def _specs(case: LayerCase) -> list[Any]:
    """Return an `InputSpec` for each array, of unknown length. Paddle needs one object for each."""
    arrays = zip(case.names, case.arrays(), case.shapes(), strict=True)
    return [InputSpec(list(shape), array.dtype, name) for name, array, shape in arrays]  # it writes into the list


def _positional(case: LayerCase, arrays: Any) -> list[Any]:
    """Return the arguments of a call in order, up to the last one: a traced layer takes no arrays by keyword."""
    arguments = dict(zip(case.names, arrays, strict=True)) | case.options
    signature = inspect.signature(getattr(case.on.backend, case.kind).forward)
    parameters = list(signature.parameters.values())[1:]
    last = max(i for i, parameter in enumerate(parameters) if parameter.name in arguments)
    return [arguments.get(parameter.name, parameter.default) for parameter in parameters[: last + 1]]


def _traced(layer: Any) -> Any:
    """Return the layer, changed to raise an error if Paddle silently does not compile it."""

    class Traced(type(layer)):  # type: ignore[misc]
        def __call__(self, *arguments: Any) -> Any:
            if not self.backend.is_traced(arguments[0]):
                raise RuntimeError("Paddle did not compile the layer.")
            return super().__call__(*arguments)

    layer.__class__ = Traced
    return layer


def _compiled(case: LayerCase, layer: Any) -> Run:
    static = paddle.jit.to_static(layer, _positional(case, _specs(case)), full_graph=True)
    return lambda *arrays: static(*_positional(case, arrays))


def _compiled_model(model: Model, case: LayerCase) -> Run:
    static = paddle.jit.to_static(model, [_positional(case, _specs(case))], full_graph=True)
    return lambda *arrays: static(_positional(case, arrays))


def _export(case: LayerCase, folder: Path) -> str:
    path = str(folder / "layer")
    paddle.jit.save(case.layer(), path, input_spec=_positional(case, _specs(case)), skip_prune_program=True)
    return path


MODES: dict[str, Mode] = {
    "compiled": compile_layer,
    "compiled, SOT": compiled_sot,
    "in a model": in_a_model,
    "exported": exported,
    "predicted": predicted,
    "predicted, without oneDNN": predicted_without_onednn,
    "saved": saved,
    "autocast": autocast,
    "cast": cast_layer,
    "copied": copied,
    "pickled": pickled,
}
GRADIENT_MODES: dict[str, Mode] = {
    "compiled": gradient_compiled,
    "compiled, SOT": partial(gradient_in, compiled_sot),
    "grad": partial(gradient_in, eager),
    "recomputed": recomputed,
}
