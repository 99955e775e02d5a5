"""Modes: what Gluon's own tools do with a layer."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import mxnet as mx
from mxnet import autograd, gluon

from posenc_backends.conformance.tooling import Run, Specimen, copied, pickled

Mode: TypeAlias = Callable[[Specimen, Path], Run]


class Model(gluon.HybridBlock):
    """A block that calls a layer with its inputs, which are symbols when it is hybridized."""

    def __init__(self, specimen: Specimen) -> None:
        super().__init__()
        self.specimen, self.layer = specimen, cast(specimen)

    def hybrid_forward(self, F: Any, *arrays: Any) -> Any:  # noqa: N803
        return self.specimen.call(self.layer, *arrays)


def cast(specimen: Specimen) -> Any:
    """The layer, cast to the dtype of its tokens, as blocks of Gluon are."""
    layer = specimen.layer()
    layer.cast(specimen.dtype)
    return layer


def cast_by_gluon(specimen: Specimen, folder: Path) -> Run:
    """The layer after `cast`, not hybridized."""
    return partial(specimen.call, cast(specimen))


def hybridized(specimen: Specimen, folder: Path, **how: Any) -> Run:
    """The layer, hybridized by itself."""
    layer = specimen.layer()
    layer.hybridize(**how)
    return partial(specimen.call, layer)


def in_a_model(specimen: Specimen, folder: Path, **how: Any) -> Model:
    """The layer as a part of a hybridized block, all that it is called with being inputs of one graph."""
    model = Model(specimen)
    model.hybridize(**how)
    return model


def exported(specimen: Specimen, folder: Path) -> Run:
    """The graph of that, made at one length, written to files, and read."""
    model = in_a_model(specimen, folder)
    model(*specimen.arrays())
    model.export(str(folder / "model"))
    names = [given.name for given in model._cached_graph[0]]
    return gluon.SymbolBlock.imports(str(folder / "model-symbol.json"), names, str(folder / "model-0000.params"))


def saved(specimen: Specimen, folder: Path) -> Run:
    """The parameters, written to a file, and read by a layer made anew."""
    file, layer = str(folder / "layer.params"), specimen.make()
    specimen.layer().save_parameters(file)
    layer.load_parameters(file)
    return partial(specimen.call, layer)


def symbolic(specimen: Specimen, folder: Path) -> Run:
    """A graph that the layer makes of variables, bound to arrays without Gluon."""
    layer = cast(specimen)
    variables = [mx.sym.var(name).as_np_ndarray() for name in specimen.names]
    graph = specimen.call(layer, *variables)
    held = {name: given.data() for name, given in layer.collect_params().items()}
    needed = graph.list_arguments()

    def run(*arrays: Any) -> Any:
        given = held | dict(zip(specimen.names, arrays, strict=True))
        args = {name: given[name] for name in needed}
        return graph.bind(arrays[0].ctx, args, grad_req="null").forward()[0]

    return run


def gradient(mode: Mode, specimen: Specimen, folder: Path) -> Run:
    """The gradient of a mode's result with respect to the first array."""
    run = mode(specimen, folder)

    def backwards(weights: mx.np.ndarray, tokens: mx.np.ndarray, *others: mx.np.ndarray) -> mx.np.ndarray:
        tokens = tokens.copy()
        tokens.attach_grad()
        with autograd.record(train_mode=False):
            result = run(tokens, *others)
        result.backward(weights)
        return tokens.grad

    return backwards


STATIC: dict[str, Any] = {"static_alloc": True, "static_shape": True}

MODES: dict[str, Mode] = {
    "hybridized": hybridized,
    "hybridized, static": partial(hybridized, **STATIC),
    "in a model": in_a_model,
    "in a model, static": partial(in_a_model, **STATIC),
    "cast": cast_by_gluon,
    "exported": exported,
    "symbolic": symbolic,
    "saved": saved,
    "copied": copied,
    "pickled": pickled,
}
GRADIENT_MODES: dict[str, Mode] = {
    "hybridized": partial(gradient, hybridized),
    "in a model": partial(gradient, in_a_model),
    "in a model, static": partial(gradient, partial(in_a_model, **STATIC)),
    "exported": partial(gradient, exported),
}
