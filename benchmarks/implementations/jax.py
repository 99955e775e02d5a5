"""JAX: our layer and function, eager and compiled, and what is compiled without the kernel; the usual formulas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax import numpy as jnp

from posenc_backends.jax import RotaryEmbedding
from posenc_core import Rotary, rotate
from posenc_core.rotation import pairing_of, rotate_reference

from . import Rotation, each, floor

DTYPES = ("float32", "bfloat16", "float16")
_copy = jax.jit(jnp.copy)


def _donated(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function that rotates in place: each call rotates the result of the one before."""
    compiled = jax.jit(function, donate_argnums=(0, 1))
    arrays: list[Any] = []

    def call(q: Any, k: Any) -> Any:
        arrays[:] = compiled(*(arrays or (jnp.copy(q), jnp.copy(k))))
        return tuple(arrays)

    return call


COMPILERS = {"compiled": jax.jit, "compiled, donated": _donated}
FORWARD_ONLY = {"compiled, donated"}  # it overwrites what derivatives need


def array(numbers: Any, dtype: str) -> Any:
    return jnp.asarray(numbers, dtype)


def to_numpy(x: Any) -> Any:
    return np.array(x, np.float32)


def copy(x: Any) -> Any:
    """Return a compiled copy; an eager one costs as much."""
    return _copy(x)


def ready(result: Any) -> Any:
    return jax.block_until_ready(result)


def gradients(function: Callable[..., Any], q: Any, k: Any, to_q: Any, to_k: Any) -> Callable[[], Any]:
    """Return a call of forward and backward: the gradients with respect to both, compiled if the function is."""

    def both(q: Any, k: Any, to_q: Any, to_k: Any) -> Any:
        _, pull_back = jax.vjp(function, q, k)
        return pull_back((to_q, to_k))

    call = jax.jit(both) if hasattr(function, "lower") else both
    return lambda: call(q, k, to_q, to_k)


def rotations(rotary: Rotary, start: int, length: int, dtype: str) -> dict[str, Rotation]:
    """Return ours, and the usual formulas on our tables."""
    layer = RotaryEmbedding(rotary, max_len=start + length)
    cos, sin = (jnp.asarray(table) for table in rotary.cos_sin(np.arange(start, start + length)))
    narrow, only = (cos.astype(dtype), sin.astype(dtype)), {"compilers": ("compiled",), "eager": False}
    pairing = pairing_of(rotary.layout)
    found = {
        "posenc": Rotation(lambda q, k: layer(q, k, start=start), compilers=("compiled", "compiled, donated")),
        "posenc.rotate": Rotation(each(lambda x: rotate(x, cos, sin, layout=rotary.layout)), compilers=("compiled",)),
        "posenc's formula": Rotation(each(lambda x: rotate_reference(x, cos, sin, pairing)), **only),
        **floor("compiled"),
    }
    if rotary.layout == "half":
        wide = [jnp.concatenate([one, one], -1) for one in narrow]
        found["rotate_half"] = Rotation(each(lambda x: _rotate_half(x, *wide)), **only)
        found["two products of halves"] = Rotation(each(lambda x: _halved(x, *narrow)), **only)
    else:
        found["two products of slices"] = Rotation(each(lambda x: _sliced(x, *narrow)), **only)
        if dtype == "float32":
            found["complex product"] = Rotation(each(lambda x: _as_complex(x, cos + 1j * sin)), **only)
    return found


def _rotate_half(x: Any, cos: Any, sin: Any) -> Any:
    first, second = jnp.split(x, 2, -1)
    return x * cos + jnp.concatenate([-second, first], -1) * sin


def _halved(x: Any, cos: Any, sin: Any) -> Any:
    first, second = jnp.split(x, 2, -1)
    return jnp.concatenate([first * cos - second * sin, second * cos + first * sin], -1)


def _sliced(x: Any, cos: Any, sin: Any) -> Any:
    first, second = x[..., ::2], x[..., 1::2]
    return jnp.stack([first * cos - second * sin, second * cos + first * sin], -1).reshape(x.shape)


def _as_complex(x: Any, table: Any) -> Any:
    rotated = jax.lax.complex(x[..., ::2], x[..., 1::2]) * table
    return jnp.stack([rotated.real, rotated.imag], -1).reshape(x.shape)
