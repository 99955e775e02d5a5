"""What the suite needs of JAX: how to test a layer, and what its own tools do with one (modes)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jax
import numpy as np
import numpy.typing as npt
from jax import export
from jax import numpy as jnp

from posenc_backends.conformance.known_failures import known_failures
from posenc_backends.conformance.tooling import LayerCase, Run, copied, pickled

from ...jax.state import from_state, to_state
from .jax_sharding import by_heads, by_sequence, manual

KNOWN_FAILURES = known_failures("jax", ("",) if jax.config.jax_enable_x64 else ("", "without x64"))
CONTRACTS = True  # whether compiled code may fuse a multiplication and an addition, rounding once
WARNINGS = ()


def cast(array: jax.Array, dtype: str) -> jax.Array:
    """The array in the dtype of this name."""
    return array.astype(dtype)


def gradient(function: Callable[[jax.Array], jax.Array], x: jax.Array, weights: jax.Array) -> jax.Array:
    """The gradient of `sum(function(x) * weights)` with respect to `x`."""
    _, pull_back = jax.vjp(function, x)
    (result,) = pull_back(weights)
    return result


def compiled(layer: Any) -> Callable[..., Any]:
    """The layer, compiled; options that are no arrays are known to the compiler."""

    def call(*arrays: Any, **options: Any) -> Any:
        traced = {name: option for name, option in options.items() if isinstance(option, jax.Array)}
        known = {name: option for name, option in options.items() if name not in traced}
        return jax.jit(partial(layer, **known))(*arrays, **traced)

    return call


def eval_mode(layer: Any, dtype: str = "float32") -> Any:
    """The layer itself: it drops nothing unless a call brings a key, and computes in the dtype of its tokens."""
    return layer


def reloaded(layer: Any, make: Callable[[], Any], folder: Path) -> Any:
    """A layer made anew, with what was saved of `layer`."""
    state: dict[str, Any] = dict(to_state(layer))
    np.savez(folder / "layer.npz", **state)
    with np.load(folder / "layer.npz") as saved:
        return from_state(make(), dict(saved))


def parameter_gradient(layer: Any, name: str, x: jax.Array, weights: jax.Array, **options: Any) -> jax.Array:
    """The gradient of `sum(layer(x, …) * weights)` with respect to the layer's parameter of this name."""
    _, pull_back = jax.vjp(lambda layer: layer(x, **options), layer)
    (result,) = pull_back(weights)
    return result.parameters[name]


def with_projections(layer: Any, matrices: dict[str, npt.NDArray[np.float32]]) -> Any:
    """The attention layer, with these matrices (inputs × outputs) as its projections."""

    def chosen(path: Any, leaf: jax.Array) -> jax.Array:
        return jnp.array(matrices[path[0].name]) if getattr(path[-1], "name", "") == "weight" else leaf

    return jax.tree_util.tree_map_with_path(chosen, layer)


def with_parameters(layer: Any, numbers: dict[str, npt.NDArray[np.float32]]) -> Any:
    """The layer, with these numbers as its parameters of these names."""

    def chosen(path: Any, leaf: jax.Array) -> jax.Array:
        return jnp.array(numbers.get(getattr(path[-1], "key", ""), leaf))

    return jax.tree_util.tree_map_with_path(chosen, layer)


def compile_layer(layer_case: LayerCase, folder: Path) -> Run:
    """`jit`, with the layer as a constant."""
    return jax.jit(partial(layer_case.call, layer_case.layer()))


def ahead(layer_case: LayerCase, folder: Path) -> Run:
    """`jit`, compiled for shapes and dtypes alone, before there is an array."""
    call = jax.jit(partial(layer_case.call, layer_case.layer()))

    def run(*arrays: Any) -> Any:
        told = jax.tree.map(jax.typeof, arrays)
        result, wanted = call.lower(*told).compile()(*arrays), jax.eval_shape(call, *told)
        if (wanted.shape, wanted.dtype) != (result.shape, result.dtype):
            raise ValueError(f"`eval_shape` says {wanted}, got {result.dtype} of shape {result.shape}.")
        return result

    return run


def donated(layer_case: LayerCase, folder: Path) -> Run:
    """`jit` with the layer as an argument, its leaves as inputs, and with tokens that the result may be written over."""
    layer, kept, given = layer_case.layer(), jax.jit(layer_case.call), jax.jit(layer_case.call, donate_argnums=1)

    def run(x: Any, *arrays: Any) -> Any:
        result = jax.eval_shape(kept, layer, x, *arrays)
        fits = (result.shape, result.dtype) == (x.shape, x.dtype)
        return (given if fits else kept)(layer, jnp.copy(x), *arrays)

    return run


def vmapped(layer_case: LayerCase, folder: Path) -> Run:
    """`vmap` over a new axis of everything the layer is called with."""
    call = jax.jit(jax.vmap(partial(layer_case.call, layer_case.layer())))
    return lambda *arrays: call(*(jnp.stack([jnp.flip(x, 0), x]) for x in arrays))[1]


def scanned(layer_case: LayerCase, folder: Path) -> Run:
    """`scan` over a stack of layers, the last of which is the one."""
    layers = jax.tree.map(lambda *leaves: jnp.stack(leaves), layer_case.make(), layer_case.layer())

    @jax.jit
    def run(*arrays: Any) -> Any:
        return jax.lax.scan(lambda _, layer: (None, layer_case.call(layer, *arrays)), None, layers, length=2)[1][1]

    return run


def exported(layer_case: LayerCase, folder: Path) -> Run:
    """`jax.export` with a length that is a symbol, written to a file, and read."""
    (length,) = export.symbolic_shape("length", constraints=["length >= 1"])
    call = jax.jit(partial(layer_case.call, layer_case.layer()))
    given = zip(layer_case.arrays(), layer_case.sizes, strict=True)
    program = export.export(call)(*(_unknown(x, axes, length) for x, axes in given))
    (folder / "layer.jax").write_bytes(program.serialize())
    return export.deserialize((folder / "layer.jax").read_bytes()).call


def at_traced_positions(layer_case: LayerCase, folder: Path) -> Run:
    """`jit`, with the positions as inputs, which only the running program knows."""
    layer, wanted = layer_case.layer(), _positions(layer_case)

    @jax.jit
    def call(positions: Any, *arrays: Any) -> Any:
        given = dict(zip(layer_case.names, arrays, strict=True))
        return layer(**given, **dict.fromkeys(wanted, positions), **layer_case.options)

    return lambda *arrays: call(jnp.arange(arrays[0].shape[-2]), *arrays)


def saved(layer_case: LayerCase, folder: Path) -> Run:
    """The leaves in an `.npz` file, read into a layer made anew."""
    layer = reloaded(layer_case.layer(), layer_case.make, folder)
    return partial(layer_case.call, layer)


def in_other_width(layer_case: LayerCase, folder: Path) -> Run:
    """`jit` where 64 bits are switched on after the layer was made, or off if they were on."""
    layer, other = layer_case.layer(), not jax.config.jax_enable_x64
    call = jax.jit(partial(layer_case.call, layer))

    def run(*arrays: Any) -> Any:
        with jax.enable_x64(other):
            return call(*arrays)

    return run


def in_a_model(layer_case: LayerCase, folder: Path) -> Run:
    """Held by a flax NNX module, its leaves as `nnx.Param`, under `nnx.jit`."""
    from flax import nnx

    class Model(nnx.Module):
        def __init__(self) -> None:
            self.layer = nnx.data(jax.tree.map(nnx.Param, layer_case.layer()))

        def __call__(self, *arrays: Any) -> Any:
            return layer_case.call(self.layer, *arrays)

    return partial(nnx.jit(Model.__call__), Model())


def pulled_back(transform: Callable[..., Any], layer_case: LayerCase, folder: Path) -> Run:
    """The gradient of a transformed call, compiled."""
    call = transform(partial(layer_case.call, layer_case.layer()))

    def run(weights: Any, x: Any, *arrays: Any) -> Any:
        result, pull_back = jax.vjp(lambda x: call(x, *arrays), x)
        return pull_back(weights.astype(result.dtype))[0]

    return jax.jit(run)


def vmapped_gradient(layer_case: LayerCase, folder: Path) -> Run:
    """The gradient under `vmap` over a new axis of everything."""
    call = jax.jit(jax.vmap(pulled_back(lambda call: call, layer_case, folder)))
    return lambda *arrays: call(*(jnp.stack([jnp.flip(x, 0), x]) for x in arrays))[1]


def _unknown(x: Any, axes: tuple[int, ...], length: Any) -> jax.ShapeDtypeStruct:
    """What stands for `x` where the size of these axes is a symbol."""
    known = [length if axis - x.ndim in axes else size for axis, size in enumerate(x.shape)]
    return jax.ShapeDtypeStruct(tuple(known), x.dtype)


def _positions(layer_case: LayerCase) -> tuple[str, ...]:
    """The arguments for positions that would count from 0 if they were left out."""
    if not {"positions", "query_positions", "start"}.isdisjoint([*layer_case.names, *layer_case.options]):
        return ()
    own = {"MultiHeadAttention": "positions key_positions", "AttentionBias": "query_positions key_positions"}
    return tuple(own.get(layer_case.kind, "positions").split())


MODES = {
    "compiled": compile_layer,
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
