"""Modes: what Paddle's own tools do with a layer."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import paddle
from paddle import inference, nn
from paddle.distributed.fleet import utils as fleet
from paddle.jit.sot.opcode_translator.executor.executor_cache import OpcodeExecutorCache
from paddle.jit.sot.symbolic.compile_cache import CompileSIRCache
from paddle.jit.sot.utils.envs import min_graph_size_guard
from paddle.static import InputSpec

from posenc_backends.conformance.tooling import Run, Specimen, copied, pickled

from . import paddle as harness


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


def compiled(specimen: Specimen, folder: Path) -> Run:
    """Compiled once for every length, with all that Python says in one graph."""
    return _compiled(specimen, specimen.layer())


def compiled_sot(specimen: Specimen, folder: Path) -> Run:
    """Compiled from its bytecode, inside a model: Paddle's own layers are not compiled alone, either."""
    OpcodeExecutorCache().clear()  # as from one piece of code Paddle compiles 20 programs, and no more without a word
    CompileSIRCache().clear()
    static = paddle.jit.to_static(Model(_traced(specimen.layer())), full_graph=False)

    def run(*arrays: Any) -> Any:
        with min_graph_size_guard(0):  # as a model of nothing but a sum is too small for Paddle
            return static(_ordered(specimen, arrays))

    return run


def in_a_model(specimen: Specimen, folder: Path) -> Run:
    """Inside a model that is compiled as a whole from its source."""
    return _whole(Model(specimen.layer()), specimen)


def exported(specimen: Specimen, folder: Path) -> Run:
    """Saved as a program for every length, and loaded without Python."""
    return paddle.jit.load(_saved(specimen, folder))


def predicted(specimen: Specimen, folder: Path) -> Run:
    """The same program, optimized and run by Paddle Inference as it comes."""
    return _predictor(_config(_saved(specimen, folder)))


def predicted_without_onednn(specimen: Specimen, folder: Path) -> Run:
    """The same, by Paddle's own kernels alone."""
    config = _config(_saved(specimen, folder))
    config.disable_mkldnn()
    return _predictor(config)


def saved(specimen: Specimen, folder: Path) -> Run:
    """Its state, saved and loaded into a new layer."""
    layer = harness.reloaded(specimen.layer(), specimen.make, folder)
    return lambda *arrays: specimen.call(layer, *arrays)


def autocast(specimen: Specimen, folder: Path) -> Run:
    """Where Paddle computes matrix products in bfloat16; on a CPU it does so in compiled code alone."""
    if specimen.kind == "MultiHeadAttention":
        raise RuntimeError("Compiled in half precision on a CPU, Paddle's `Linear` ends the process.")
    return _whole(Autocasting(specimen.layer()), specimen)


def cast(specimen: Specimen, folder: Path) -> Run:
    """Told to be of another dtype, which its parameters become, and its tables do not."""
    layer = specimen.layer().to(dtype="float16").to(dtype="bfloat16")
    return lambda *arrays: specimen.call(layer, *arrays)


MODES: dict[str, Callable[[Specimen, Path], Run]] = {
    "compiled": compiled,
    "compiled, SOT": compiled_sot,
    "in a model": in_a_model,
    "exported": exported,
    "predicted": predicted,
    "predicted, without oneDNN": predicted_without_onednn,
    "saved": saved,
    "autocast": autocast,
    "cast": cast,
    "copied": copied,
    "pickled": pickled,
}


def with_grad(specimen: Specimen, folder: Path) -> Run:
    """`paddle.grad` of eager code."""
    layer = specimen.layer()
    return _gradient(lambda *arrays: specimen.call(layer, *arrays))


def compiled_backward(specimen: Specimen, folder: Path) -> Run:
    """Compiled, forward and backward."""
    layer = specimen.layer()
    layer.train()  # otherwise Paddle compiles no backward pass
    return _gradient(_compiled(specimen, layer))


def compiled_sot_backward(specimen: Specimen, folder: Path) -> Run:
    """The same, from bytecode."""
    return _gradient(compiled_sot(specimen, folder))


def recomputed(specimen: Specimen, folder: Path) -> Run:
    """Computed a second time in the backward pass, in place of being kept."""
    layer = specimen.layer()
    return _gradient(lambda *arrays: fleet.recompute(layer, *_ordered(specimen, arrays)))


GRADIENT_MODES: dict[str, Callable[[Specimen, Path], Run]] = {
    "compiled": compiled_backward,
    "compiled, SOT": compiled_sot_backward,
    "grad": with_grad,
    "recomputed": recomputed,
}


def _specs(specimen: Specimen) -> list[Any]:
    """What is known of each array when code is traced: not its length. One object for each, as Paddle asks for."""
    specs = []
    for name, array, axes in zip(specimen.names, specimen.arrays(), specimen.sizes, strict=True):
        shape = list(array.shape)
        for axis in axes:
            shape[axis] = None
        specs.append(InputSpec(shape, array.dtype, name))
    return specs


def _ordered(specimen: Specimen, arrays: Any) -> list[Any]:
    """All that the layer is called with up to the last thing said: a traced layer takes no arrays by keyword."""
    said = dict(zip(specimen.names, arrays, strict=True)) | specimen.options
    names = list(inspect.signature(getattr(specimen.on.room, specimen.kind).forward).parameters.values())[1:]
    last = max(place for place, name in enumerate(names) if name.name in said)
    return [said.get(name.name, name.default) for name in names[: last + 1]]


def _traced(layer: Any) -> Any:
    """The layer, with an error where Paddle, without a word, does not compile it."""

    class Traced(type(layer)):  # type: ignore[misc]
        def __call__(self, *given: Any) -> Any:
            if not self.room.is_traced(given[0]):
                raise RuntimeError("Paddle did not compile the layer.")
            return super().__call__(*given)

    layer.__class__ = Traced
    return layer


def _compiled(specimen: Specimen, layer: Any) -> Run:
    static = paddle.jit.to_static(layer, _ordered(specimen, _specs(specimen)), full_graph=True)
    return lambda *arrays: static(*_ordered(specimen, arrays))


def _saved(specimen: Specimen, folder: Path) -> str:
    path = str(folder / "layer")
    paddle.jit.save(specimen.layer(), path, input_spec=_ordered(specimen, _specs(specimen)), skip_prune_program=True)
    return path


def _config(path: str) -> Any:
    config = inference.Config(f"{path}.json", f"{path}.pdiparams")
    config.disable_glog_info()
    return config


def _predictor(config: Any) -> Run:
    predictor = inference.create_predictor(config)
    return lambda *arrays: predictor.run(list(arrays))[0].clone()  # as the next run writes over the result


def _whole(model: Model, specimen: Specimen) -> Run:
    static = paddle.jit.to_static(model, [_ordered(specimen, _specs(specimen))], full_graph=True)
    return lambda *arrays: static(_ordered(specimen, arrays))


def _gradient(run: Run) -> Run:
    """`run`'s gradient with respect to the first array."""

    def gradient(weights: Any, first: Any, *others: Any) -> Any:
        leaf = first.detach()
        leaf.stop_gradient = False
        (result,) = paddle.grad(run(leaf, *others), leaf, weights)
        return result

    return gradient
