"""Modes: what JAX's own tools do with a layer."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jax
from jax import export
from jax import numpy as jnp

from posenc_backends.conformance.tooling import Run, Specimen, copied, pickled

from .jax_sharding import by_heads, by_sequence, manual


def compiled(specimen: Specimen, folder: Path) -> Run:
    """`jit`, with the layer as a constant."""
    return jax.jit(partial(specimen.call, specimen.layer()))


def ahead(specimen: Specimen, folder: Path) -> Run:
    """`jit`, compiled for shapes and dtypes alone, before there is an array."""
    call = jax.jit(partial(specimen.call, specimen.layer()))

    def run(*arrays: Any) -> Any:
        told = jax.tree.map(jax.typeof, arrays)
        result, wanted = call.lower(*told).compile()(*arrays), jax.eval_shape(call, *told)
        if (wanted.shape, wanted.dtype) != (result.shape, result.dtype):
            raise ValueError(f"`eval_shape` says {wanted}, got {result.dtype} of shape {result.shape}.")
        return result

    return run


def donated(specimen: Specimen, folder: Path) -> Run:
    """`jit` with the layer as an argument, its leaves as inputs, and with tokens that the result may be written over."""
    layer, kept, given = specimen.layer(), jax.jit(specimen.call), jax.jit(specimen.call, donate_argnums=1)

    def run(x: Any, *arrays: Any) -> Any:
        result = jax.eval_shape(kept, layer, x, *arrays)
        fits = (result.shape, result.dtype) == (x.shape, x.dtype)
        return (given if fits else kept)(layer, jnp.copy(x), *arrays)

    return run


def vmapped(specimen: Specimen, folder: Path) -> Run:
    """`vmap` over a new axis of everything the layer is called with."""
    call = jax.jit(jax.vmap(partial(specimen.call, specimen.layer())))
    return lambda *arrays: call(*(jnp.stack([jnp.flip(x, 0), x]) for x in arrays))[1]


def scanned(specimen: Specimen, folder: Path) -> Run:
    """`scan` over a stack of layers, the last of which is the one."""
    layers = jax.tree.map(lambda *leaves: jnp.stack(leaves), specimen.make(), specimen.layer())

    @jax.jit
    def run(*arrays: Any) -> Any:
        return jax.lax.scan(lambda _, layer: (None, specimen.call(layer, *arrays)), None, layers, length=2)[1][1]

    return run


def exported(specimen: Specimen, folder: Path) -> Run:
    """`jax.export` with a length that is a symbol, written to a file, and read."""
    (length,) = export.symbolic_shape("length", constraints=["length >= 1"])
    call = jax.jit(partial(specimen.call, specimen.layer()))
    given = zip(specimen.arrays(), specimen.sizes, strict=True)
    program = export.export(call)(*(_unknown(x, axes, length) for x, axes in given))
    (folder / "layer.jax").write_bytes(program.serialize())
    return export.deserialize((folder / "layer.jax").read_bytes()).call


def at_traced_positions(specimen: Specimen, folder: Path) -> Run:
    """`jit`, with the positions as inputs, which only the running program knows."""
    layer, wanted = specimen.layer(), _positions(specimen)

    @jax.jit
    def call(positions: Any, *arrays: Any) -> Any:
        given = dict(zip(specimen.names, arrays, strict=True))
        return layer(**given, **dict.fromkeys(wanted, positions), **specimen.options)

    return lambda *arrays: call(jnp.arange(arrays[0].shape[-2]), *arrays)


def saved(specimen: Specimen, folder: Path) -> Run:
    """The leaves in an `.npz` file, read into a layer made anew."""
    layer = specimen.on.harness.reloaded(specimen.layer(), specimen.make, folder)
    return partial(specimen.call, layer)


def in_other_width(specimen: Specimen, folder: Path) -> Run:
    """`jit` where 64 bits are switched on after the layer was made, or off if they were on."""
    layer, other = specimen.layer(), not jax.config.jax_enable_x64
    call = jax.jit(partial(specimen.call, layer))

    def run(*arrays: Any) -> Any:
        with jax.enable_x64(other):
            return call(*arrays)

    return run


def in_a_model(specimen: Specimen, folder: Path) -> Run:
    """Held by a flax NNX module, its leaves as `nnx.Param`, under `nnx.jit`."""
    from flax import nnx

    class Model(nnx.Module):
        def __init__(self) -> None:
            self.layer = nnx.data(jax.tree.map(nnx.Param, specimen.layer()))

        def __call__(self, *arrays: Any) -> Any:
            return specimen.call(self.layer, *arrays)

    return partial(nnx.jit(Model.__call__), Model())


def pulled_back(transform: Callable[..., Any], specimen: Specimen, folder: Path) -> Run:
    """The gradient of a transformed call, compiled."""
    call = transform(partial(specimen.call, specimen.layer()))

    def run(weights: Any, x: Any, *arrays: Any) -> Any:
        result, pull_back = jax.vjp(lambda x: call(x, *arrays), x)
        return pull_back(weights.astype(result.dtype))[0]

    return jax.jit(run)


def vmapped_gradient(specimen: Specimen, folder: Path) -> Run:
    """The gradient under `vmap` over a new axis of everything."""
    call = jax.jit(jax.vmap(pulled_back(lambda call: call, specimen, folder)))
    return lambda *arrays: call(*(jnp.stack([jnp.flip(x, 0), x]) for x in arrays))[1]


def _unknown(x: Any, axes: tuple[int, ...], length: Any) -> jax.ShapeDtypeStruct:
    """What stands for `x` where the size of these axes is a symbol."""
    known = [length if axis - x.ndim in axes else size for axis, size in enumerate(x.shape)]
    return jax.ShapeDtypeStruct(tuple(known), x.dtype)


def _positions(specimen: Specimen) -> tuple[str, ...]:
    """The arguments for positions that would count from 0 if they were left out."""
    if not {"positions", "query_positions", "start"}.isdisjoint([*specimen.names, *specimen.options]):
        return ()
    own = {"MultiHeadAttention": "positions key_positions", "AttentionBias": "query_positions key_positions"}
    return tuple(own.get(specimen.kind, "positions").split())


MODES = {
    "compiled": compiled,
    "compiled ahead of time": ahead,
    "compiled, positions as argument": at_traced_positions,
    "compiled, 64 bits switched": in_other_width,
    "donated": donated,
    "vmapped": vmapped,
    "scanned": scanned,
    "saved": saved,
    "copied": copied,
    "pickled": pickled,
}
MODES |= (
    {"sharded over sequence": by_sequence, "sharded over heads": by_heads, "shard_map": manual}
    if jax.device_count() > 1
    else {}
)
MODES |= {"exported": exported} if find_spec("flatbuffers") else {}  # with which JAX writes what it exports
MODES |= {"in a model": in_a_model} if find_spec("flax") else {}
GRADIENT_MODES = {
    "compiled": partial(pulled_back, lambda call: call),
    "checkpointed": partial(pulled_back, jax.checkpoint),
    "vmapped": vmapped_gradient,
}
LEFT_OUT = {  # what 64 bits do not change
    "64 bits": ("donated", "scanned", "sharded over heads", "shard_map", "saved", "copied", "pickled", "in a model"),
}
if jax.config.jax_enable_x64:
    MODES = {name: mode for name, mode in MODES.items() if name not in LEFT_OUT["64 bits"]}
LENGTHS = (48, 7)  # of parts for 8 devices and for 7; each is compiled by itself: a third would show nothing new
CONTRACTING = {*MODES, *GRADIENT_MODES} - {"saved", "copied", "pickled"}
