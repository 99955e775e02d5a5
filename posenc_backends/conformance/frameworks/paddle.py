"""What the suite needs of Paddle: how to test a layer, and what its own tools do with one (modes)."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from copy import copy
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
from posenc_backends.conformance.tooling import LayerCase, Run, copied, pickled

from ...paddle.layers import MultiHeadAttention

KNOWN_FAILURES = known_failures("paddle")
CONTRACTS = False  # whether compiled code may fuse a multiplication and an addition, rounding once
WARNINGS = (
    "ignore:Tensor do not have '.*' interface for (pir|static) graph mode:UserWarning",
)  # of all that is traced

_failed: list[
    Exception
] = []  # Paddle mixes a program up with one whose trace failed, if that is gone and had the same id


def cast(array: paddle.Tensor, dtype: str) -> paddle.Tensor:
    """The array in the dtype of this name."""
    return array.astype(dtype)


def gradient(
    function: Callable[[paddle.Tensor], paddle.Tensor], x: paddle.Tensor, weights: paddle.Tensor
) -> paddle.Tensor:
    """The gradient of `sum(function(x) * weights)` with respect to `x`."""
    leaf = x.detach()
    leaf.stop_gradient = False
    (result,) = paddle.grad(function(leaf), leaf, weights)
    return result


def compiled(layer: Any) -> Callable[..., Any]:
    """The layer, compiled without a fallback; `to_static` changes what it is given."""
    static = paddle.jit.to_static(copy(layer), full_graph=True)

    def call(*arrays: Any, **options: Any) -> Any:
        try:
            return static(*arrays, **options)
        except Exception as error:
            _failed.append(error)
            raise

    return call


def eval_mode(layer: Any, dtype: str = "float32") -> Any:
    """The layer, told that it is not in training. It computes in the dtype of its tokens.

    Raises:
        NotImplementedError: if it is attention in half precision, whose compiled projections end the process on a CPU.
    """
    if isinstance(layer, MultiHeadAttention) and dtype != "float32":
        raise NotImplementedError(f"Paddle's `Linear` does not compute in {dtype} on a CPU.")
    layer.eval()
    return layer


def reloaded(layer: Any, make: Callable[[], Any], folder: Path) -> Any:
    """A layer made anew, with what was saved of `layer`."""
    path = str(folder / "layer.pdparams")
    paddle.save({"layer": layer.state_dict()}, path)  # `save` warns of a state without parameters, unless it is inside
    fresh = make()
    fresh.set_state_dict(paddle.load(path)["layer"])
    return fresh


def parameter_gradient(
    layer: Any, name: str, x: paddle.Tensor, weights: paddle.Tensor, **options: Any
) -> paddle.Tensor:
    """The gradient of `sum(layer(x, …) * weights)` with respect to the layer's parameter of this name."""
    (result,) = paddle.grad(layer(x, **options), getattr(layer, name), weights)
    return result


def with_projections(layer: Any, matrices: dict[str, npt.NDArray[np.float32]]) -> Any:
    """The attention layer, with these matrices (inputs × outputs) as its projections."""
    for name, matrix in matrices.items():
        getattr(layer, name).weight.set_value(matrix)
    return layer


def with_parameters(layer: Any, numbers: dict[str, npt.NDArray[np.float32]]) -> Any:
    """The layer, with these numbers as its parameters of these names."""
    for name, array in numbers.items():
        getattr(layer, name).set_value(array)
    return layer


class Model(nn.Layer):
    """A model that holds a layer, as users write them."""

    def __init__(self, layer: nn.Layer) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, given: Any) -> Any:
        return self.layer(*given)


class Autocasting(Model):
    """The same, where Paddle chooses dtypes."""

    def forward(self, given: Any) -> Any:
        with paddle.amp.auto_cast(level="O1", dtype="bfloat16"):
            return self.layer(*given)


def compile_layer(layer_case: LayerCase, folder: Path) -> Run:
    """Compiled once for every length, with all that Python says in one graph."""
    return _compiled(layer_case, layer_case.layer())


def compiled_sot(layer_case: LayerCase, folder: Path) -> Run:
    """Compiled from its bytecode, inside a model: Paddle's own layers are not compiled alone, either."""
    OpcodeExecutorCache().clear()  # as from one piece of code Paddle compiles 20 programs, and no more without a word
    CompileSIRCache().clear()
    static = paddle.jit.to_static(Model(_traced(layer_case.layer())), full_graph=False)

    def run(*arrays: Any) -> Any:
        with min_graph_size_guard(0):  # as a model of nothing but a sum is too small for Paddle
            return static(_ordered(layer_case, arrays))

    return run


def in_a_model(layer_case: LayerCase, folder: Path) -> Run:
    """Inside a model that is compiled as a whole from its source."""
    return _whole(Model(layer_case.layer()), layer_case)


def exported(layer_case: LayerCase, folder: Path) -> Run:
    """Saved as a program for every length, and loaded without Python."""
    return paddle.jit.load(_saved(layer_case, folder))


def predicted(layer_case: LayerCase, folder: Path) -> Run:
    """The same program, optimized and run by Paddle Inference as it comes."""
    return _predictor(_config(_saved(layer_case, folder)))


def predicted_without_onednn(layer_case: LayerCase, folder: Path) -> Run:
    """The same, by Paddle's own kernels alone."""
    config = _config(_saved(layer_case, folder))
    config.disable_mkldnn()
    return _predictor(config)


def saved(layer_case: LayerCase, folder: Path) -> Run:
    """Its state, saved and loaded into a new layer."""
    layer = reloaded(layer_case.layer(), layer_case.make, folder)
    return lambda *arrays: layer_case.call(layer, *arrays)


def autocast(layer_case: LayerCase, folder: Path) -> Run:
    """Where Paddle computes matrix products in bfloat16; on a CPU it does so in compiled code alone."""
    if layer_case.kind == "MultiHeadAttention":
        raise RuntimeError("Compiled in half precision on a CPU, Paddle's `Linear` ends the process.")
    return _whole(Autocasting(layer_case.layer()), layer_case)


def cast_layer(layer_case: LayerCase, folder: Path) -> Run:
    """Told to be of another dtype, which its parameters become, and its tables do not."""
    layer = layer_case.layer().to(dtype="float16").to(dtype="bfloat16")
    return lambda *arrays: layer_case.call(layer, *arrays)


MODES: dict[str, Callable[[LayerCase, Path], Run]] = {
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


def with_grad(layer_case: LayerCase, folder: Path) -> Run:
    """`paddle.grad` of eager code."""
    layer = layer_case.layer()
    return _gradient(lambda *arrays: layer_case.call(layer, *arrays))


def compiled_backward(layer_case: LayerCase, folder: Path) -> Run:
    """Compiled, forward and backward."""
    layer = layer_case.layer()
    layer.train()  # otherwise Paddle compiles no backward pass
    return _gradient(_compiled(layer_case, layer))


def compiled_sot_backward(layer_case: LayerCase, folder: Path) -> Run:
    """The same, from bytecode."""
    return _gradient(compiled_sot(layer_case, folder))


def recomputed(layer_case: LayerCase, folder: Path) -> Run:
    """Computed a second time in the backward pass, in place of being kept."""
    layer = layer_case.layer()
    return _gradient(lambda *arrays: fleet.recompute(layer, *_ordered(layer_case, arrays)))


GRADIENT_MODES: dict[str, Callable[[LayerCase, Path], Run]] = {
    "compiled": compiled_backward,
    "compiled, SOT": compiled_sot_backward,
    "grad": with_grad,
    "recomputed": recomputed,
}


def _specs(layer_case: LayerCase) -> list[Any]:
    """What is known of each array when code is traced: not its length. One object for each, as Paddle asks for."""
    specs = []
    for name, array, axes in zip(layer_case.names, layer_case.arrays(), layer_case.sizes, strict=True):
        shape = list(array.shape)
        for axis in axes:
            shape[axis] = None
        specs.append(InputSpec(shape, array.dtype, name))
    return specs


def _ordered(layer_case: LayerCase, arrays: Any) -> list[Any]:
    """All that the layer is called with up to the last thing said: a traced layer takes no arrays by keyword."""
    said = dict(zip(layer_case.names, arrays, strict=True)) | layer_case.options
    names = list(inspect.signature(getattr(layer_case.on.backend, layer_case.kind).forward).parameters.values())[1:]
    last = max(place for place, name in enumerate(names) if name.name in said)
    return [said.get(name.name, name.default) for name in names[: last + 1]]


def _traced(layer: Any) -> Any:
    """The layer, with an error where Paddle, without a word, does not compile it."""

    class Traced(type(layer)):  # type: ignore[misc]
        def __call__(self, *given: Any) -> Any:
            if not self.backend.is_traced(given[0]):
                raise RuntimeError("Paddle did not compile the layer.")
            return super().__call__(*given)

    layer.__class__ = Traced
    return layer


def _compiled(layer_case: LayerCase, layer: Any) -> Run:
    static = paddle.jit.to_static(layer, _ordered(layer_case, _specs(layer_case)), full_graph=True)
    return lambda *arrays: static(*_ordered(layer_case, arrays))


def _saved(layer_case: LayerCase, folder: Path) -> str:
    path = str(folder / "layer")
    paddle.jit.save(
        layer_case.layer(), path, input_spec=_ordered(layer_case, _specs(layer_case)), skip_prune_program=True
    )
    return path


def _config(path: str) -> Any:
    config = inference.Config(f"{path}.json", f"{path}.pdiparams")
    config.disable_glog_info()
    return config


def _predictor(config: Any) -> Run:
    predictor = inference.create_predictor(config)
    return lambda *arrays: predictor.run(list(arrays))[0].clone()  # as the next run writes over the result


def _whole(model: Model, layer_case: LayerCase) -> Run:
    static = paddle.jit.to_static(model, [_ordered(layer_case, _specs(layer_case))], full_graph=True)
    return lambda *arrays: static(_ordered(layer_case, arrays))


def _gradient(run: Run) -> Run:
    """`run`'s gradient with respect to the first array."""

    def gradient(weights: Any, first: Any, *others: Any) -> Any:
        leaf = first.detach()
        leaf.stop_gradient = False
        (result,) = paddle.grad(run(leaf, *others), leaf, weights)
        return result

    return gradient
