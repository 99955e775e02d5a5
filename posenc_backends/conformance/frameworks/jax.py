"""What the conformance suite asks of JAX."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import numpy.typing as npt
from jax import numpy as jnp

from ...jax.state import from_state, to_state

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


def evaluated(layer: Any, dtype: str = "float32") -> Any:
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


def filled(layer: Any, matrices: dict[str, npt.NDArray[np.float32]]) -> Any:
    """The attention layer, with these matrices (inputs × outputs) as its projections."""

    def chosen(path: Any, leaf: jax.Array) -> jax.Array:
        return jnp.array(matrices[path[0].name]) if getattr(path[-1], "name", "") == "weight" else leaf

    return jax.tree_util.tree_map_with_path(chosen, layer)


def with_parameters(layer: Any, numbers: dict[str, npt.NDArray[np.float32]]) -> Any:
    """The layer, with these numbers as its parameters of these names."""

    def chosen(path: Any, leaf: jax.Array) -> jax.Array:
        return jnp.array(numbers.get(getattr(path[-1], "key", ""), leaf))

    return jax.tree_util.tree_map_with_path(chosen, layer)
