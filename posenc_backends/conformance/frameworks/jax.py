"""Test layers of JAX: helpers of the suite, and modes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jax
import numpy as np
import numpy.typing as npt
from jax import export
from jax import numpy as jnp

from posenc_backends.conformance.known_failures import known_failures
from posenc_backends.conformance.tooling import LayerCase, Mode, Run, compiled_by, copied, eager, pickled, saved

from ... import jax as native
from ...jax import from_numpy, from_state, is_traced, namespace, to_numpy, to_state  # noqa: F401 - of a backend
from .jax_sharding import by_heads, by_sequence, manual

KNOWN_FAILURES = known_failures("jax", ("",) if jax.config.jax_enable_x64 else ("", "without x64"))
WARNINGS = ()
MAKES_LAYERS = True  # in place of the backend
CONTRACTS = True  # `compiled` may fuse a multiplication and an addition


def _keyed(init: Callable[..., None]) -> Callable[..., None]:
    """Return the constructor of a layer with a key by default: the suite makes the layers of all frameworks alike."""

    @wraps(init)
    def with_key(self: Any, *given: Any, key: Any = None, **options: Any) -> None:
        init(self, *given, key=jax.random.key(0) if key is None else key, **options)

    return with_key


class PositionalEncoding(native.PositionalEncoding):
    __init__ = _keyed(native.PositionalEncoding.__init__)


class RotaryEmbedding(native.RotaryEmbedding):
    __init__ = _keyed(native.RotaryEmbedding.__init__)


class AttentionBias(native.AttentionBias):
    __init__ = _keyed(native.AttentionBias.__init__)


class QueryScaling(native.QueryScaling):
    __init__ = _keyed(native.QueryScaling.__init__)


class QueryKeyNorm(native.layers.QueryKeyNorm):
    __init__ = _keyed(native.layers.QueryKeyNorm.__init__)


class MultiHeadAttention(native.MultiHeadAttention):
    rotary_layer, scoring_layer, scaling_layer = RotaryEmbedding, AttentionBias, QueryScaling
    __init__ = _keyed(native.MultiHeadAttention.__init__)


def cast(array: jax.Array, dtype: str) -> jax.Array:
    """Return the array in the dtype of this name."""
    return array.astype(dtype)


def gradient(function: Callable[[jax.Array], jax.Array], x: jax.Array, weights: jax.Array) -> jax.Array:
    """Return the gradient of `sum(function(x) * weights)` with respect to `x`."""
    _, pull_back = jax.vjp(function, x)
    (result,) = pull_back(weights)
    return result


def compiled(layer: Any) -> Callable[..., Any]:
    """Return the layer compiled; options that are not arrays are constants of the program."""
    return compiled_by(jax.jit, jax.Array, layer)


def eval_mode(layer: Any, dtype: str = "float32") -> Any:
    """Return the layer as it is: without a key it has no dropout, and it computes in the dtype of its tokens."""
    return layer


def with_projections(layer: Any, matrices: dict[str, npt.NDArray[np.float32]]) -> Any:
    """Return an attention layer with these matrices (inputs × outputs) as its projections."""

    def replaced(path: Any, leaf: jax.Array) -> jax.Array:
        return jnp.array(matrices[path[0].name]) if getattr(path[-1], "name", "") == "weight" else leaf

    return jax.tree_util.tree_map_with_path(replaced, layer)


def with_parameters(layer: Any, numbers: dict[str, npt.NDArray[np.float32]]) -> Any:
    """Return the layer with these numbers as its parameters of these names."""

    def replaced(path: Any, leaf: jax.Array) -> jax.Array:
        return jnp.array(numbers.get(getattr(path[-1], "key", ""), leaf))

    return jax.tree_util.tree_map_with_path(replaced, layer)


def save_layer(layer: Any, folder: Path) -> None:
    """Save the state of the layer to a file in a folder."""
    state: dict[str, Any] = dict(to_state(layer))
    np.savez(folder / "layer.npz", **state)


def load_layer(make: Callable[[], Any], folder: Path) -> Any:
    """Load the file that `save_layer` wrote into a new layer, and return that."""
    with np.load(folder / "layer.npz") as file:
        return from_state(make(), dict(file))


def parameter_gradient(layer: Any, name: str, x: jax.Array, weights: jax.Array, **options: Any) -> jax.Array:
    """Return the gradient of `sum(layer(x, …) * weights)` with respect to the layer's parameter of this name."""
    _, pull_back = jax.vjp(lambda layer: layer(x, **options), layer)
    (result,) = pull_back(weights)
    return result.parameters[name]


def compile_layer(case: LayerCase, folder: Path) -> Run:
    """Compile with `jit`, the layer as a constant."""
    return jax.jit(eager(case, folder))


def compile_ahead(case: LayerCase, folder: Path) -> Run:
    """Compile with `jit` ahead of time, from shapes and dtypes, and check `eval_shape`."""
    call = jax.jit(eager(case, folder))

    def run(*arrays: Any) -> Any:
        types = jax.tree.map(jax.typeof, arrays)
        result, wanted = call.lower(*types).compile()(*arrays), jax.eval_shape(call, *types)
        if (wanted.shape, wanted.dtype) != (result.shape, result.dtype):
            raise ValueError(f"`eval_shape` says {wanted}, got {result.dtype} of shape {result.shape}.")
        return result

    return run


def donated(case: LayerCase, folder: Path) -> Run:
    """Compile with `jit`, the layer as an argument and the tokens donated: their memory is reused for the result."""
    layer, call, donating_call = case.layer(), jax.jit(case.call), jax.jit(case.call, donate_argnums=1)

    def run(x: Any, *arrays: Any) -> Any:
        result = jax.eval_shape(call, layer, x, *arrays)
        fits = (result.shape, result.dtype) == (x.shape, x.dtype)
        return (donating_call if fits else call)(layer, jnp.copy(x), *arrays)

    return run


def vmapped(case: LayerCase, folder: Path, *, mode: Mode = eager) -> Run:
    """Apply `vmap` over a new first axis of all arguments."""
    call = jax.jit(jax.vmap(mode(case, folder)))
    return lambda *arrays: call(*(jnp.stack([jnp.flip(x, 0), x]) for x in arrays))[1]


def scanned(case: LayerCase, folder: Path) -> Run:
    """Apply `scan` over two stacked layers; the result of the second is checked."""
    layers = jax.tree.map(lambda *leaves: jnp.stack(leaves), case.make(), case.layer())

    @jax.jit
    def run(*arrays: Any) -> Any:
        return jax.lax.scan(lambda _, layer: (None, case.call(layer, *arrays)), None, layers, length=2)[1][1]

    return run


def exported(case: LayerCase, folder: Path) -> Run:
    """Export with `jax.export` for a symbolic length, write the program to a file and read it."""
    (length,) = export.symbolic_shape("length", constraints=["length >= 1"])
    types = (jax.ShapeDtypeStruct(shape, x.dtype) for x, shape in zip(case.arrays(), case.shapes(length), strict=True))
    program = export.export(jax.jit(eager(case, folder)))(*types)
    (folder / "layer.jax").write_bytes(program.serialize())
    return export.deserialize((folder / "layer.jax").read_bytes()).call


def at_traced_positions(case: LayerCase, folder: Path) -> Run:
    """Compile with `jit`, with traced positions."""
    layer, position_names = case.layer(), _position_names(case)

    @jax.jit
    def call(positions: Any, *arrays: Any) -> Any:
        named = dict(zip(case.names, arrays, strict=True)) | dict.fromkeys(position_names, positions)
        return layer(**named, **case.options)

    return lambda *arrays: call(jnp.arange(arrays[0].shape[-2]), *arrays)


def in_other_width(case: LayerCase, folder: Path) -> Run:
    """Compile with `jit` after switching `jax_enable_x64` since the layer was made."""
    layer, x64 = case.layer(), not jax.config.jax_enable_x64
    call = jax.jit(partial(case.call, layer))

    def run(*arrays: Any) -> Any:
        with jax.enable_x64(x64):
            return call(*arrays)

    return run


def in_a_model(case: LayerCase, folder: Path) -> Run:
    """Call the layer inside a flax NNX module under `nnx.jit`, its leaves as `nnx.Param`."""
    from flax import nnx

    class Model(nnx.Module):
        def __init__(self) -> None:
            self.layer = nnx.data(jax.tree.map(nnx.Param, case.layer()))

        def __call__(self, *arrays: Any) -> Any:
            return case.call(self.layer, *arrays)

    return partial(nnx.jit(Model.__call__), Model())


def pulled_back(transform: Callable[..., Any], case: LayerCase, folder: Path) -> Run:
    """Compile the gradient of a transformed call."""
    call = transform(eager(case, folder))

    def run(weights: Any, x: Any, *arrays: Any) -> Any:
        result, pull_back = jax.vjp(lambda x: call(x, *arrays), x)
        return pull_back(weights.astype(result.dtype))[0]

    return jax.jit(run)


def _position_names(case: LayerCase) -> tuple[str, ...]:
    """Return the names of the layer's position arguments; none if the case gives positions itself."""
    if not {"positions", "query_positions", "start"}.isdisjoint([*case.names, *case.options]):
        return ()
    names = {
        "MultiHeadAttention": ("positions", "key_positions"),
        "AttentionBias": ("query_positions", "key_positions"),
    }
    return names.get(case.kind, ("positions",))


MODES: dict[str, Mode] = {
    "compiled": compile_layer,
    "compiled ahead of time": compile_ahead,
    "compiled, positions as argument": at_traced_positions,
    "compiled, 64 bits switched": in_other_width,
    "donated": donated,
    "vmapped": vmapped,
    "scanned": scanned,
    "saved": saved,
    "copied": copied,
    "pickled": pickled,
}
if jax.device_count() > 1:
    MODES |= {"sharded over sequence": by_sequence, "sharded over heads": by_heads, "shard_map": manual}
MODES |= {"exported": exported} if find_spec("flatbuffers") else {}  # which `serialize` needs
MODES |= {"in a model": in_a_model} if find_spec("flax") else {}
GRADIENT_MODES: dict[str, Mode] = {
    "compiled": partial(pulled_back, lambda call: call),
    "checkpointed": partial(pulled_back, jax.checkpoint),
    "vmapped": partial(vmapped, mode=partial(pulled_back, lambda call: call)),
}
LEFT_OUT = {  # modes that 64 bits do not change
    "64 bits": ("donated", "scanned", "sharded over heads", "shard_map", "saved", "copied", "pickled", "in a model"),
}
if jax.config.jax_enable_x64:
    MODES = {name: mode for name, mode in MODES.items() if name not in LEFT_OUT["64 bits"]}
LENGTHS = (48, 7)  # divisible by 8 devices and by 7; each is compiled anew, so there are only two
CONTRACTING = {*MODES, *GRADIENT_MODES} - {"saved", "copied", "pickled"}
