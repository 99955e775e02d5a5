"""JAX arrays: how they are made, read and traced."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import numpy.typing as npt
from jax import numpy as jnp

from posenc_core import register_namespace

from . import namespace

register_namespace(jax.Array, namespace)
register_namespace(jax.core.Tracer, namespace)


def from_numpy(array: npt.NDArray[Any], /, *, like: Any = None) -> jax.Array:
    """An array of the same numbers, bound to no device: it follows the arrays that it meets, sharded or not."""
    with jax.ensure_compile_time_eval():  # it outlives the trace that may be under way
        return jnp.array(array)


def to_numpy(array: Any, /) -> npt.NDArray[Any]:
    """The numbers of an array; bfloat16, which NumPy lacks, becomes float32."""
    host = np.asarray(array)
    return host.astype(np.float32) if host.dtype == jnp.bfloat16 else host


def is_traced(array: Any, /) -> bool:
    """Whether the numbers are unknown: under `jit`, `grad`, `vmap` and the like."""
    return isinstance(array, jax.core.Tracer)


def stop_gradient(array: Any, /) -> jax.Array:
    """The same numbers, through which no gradient flows; only tracers have one."""
    return jax.lax.stop_gradient(array) if is_traced(array) else array
