"""The names of the array API standard that the core uses: `jax.numpy`, but for `arange`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np
from jax import numpy as jnp
from jax._src.core import trace_state_clean
from jax.numpy import (  # noqa: F401
    abs,  # noqa: A004
    astype,
    bfloat16,
    broadcast_to,
    cos,
    exp,
    expand_dims,
    float16,
    float32,
    full_like,
    int32,
    log,
    log1p,
    matmul,
    matrix_transpose,
    max,  # noqa: A004
    maximum,
    minimum,
    ones_like,
    permute_dims,
    reshape,
    sin,
    stack,
    sum,  # noqa: A004
    where,
    zeros_like,
)
from jax.numpy import cumsum as cumulative_sum  # noqa: F401
from jax.sharding import PartitionSpec

from posenc_core.attention.relative import rows_that_overlap

HAS_TYPES = jax.__version_info__ >= (0, 7)  # with shardings


def __getattr__(name: str) -> Any:
    """Return float64 where JAX has it; elsewhere a cast to it warns and gives float32."""
    if name == "float64" and jax.config.jax_enable_x64:
        return jnp.float64
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def concat(arrays: Sequence[jax.Array], /, *, axis: int) -> jax.Array:
    """Concatenate arrays; pad two traced ones to the width of both, which compiles to one loop, not several."""
    traced = any(isinstance(array, jax.core.Tracer) for array in arrays)
    known = all(type(array.shape[-1]) is int for array in arrays)  # exported code may have sizes that are symbols
    if len(arrays) != 2 or not traced or not known or axis != -1 or arrays[0].dtype != arrays[1].dtype:
        return jnp.concatenate(arrays, axis=axis)
    return _joined(*arrays)


@jax.custom_jvp
def _joined(first: jax.Array, second: jax.Array) -> jax.Array:
    width, more, still = first.shape[-1], second.shape[-1], [(0, 0)] * (first.ndim - 1)
    begins, ends = jnp.pad(first, [*still, (0, more)]), jnp.pad(second, [*still, (width, 0)])
    return jnp.where(np.arange(width + more) < width, begins, ends)


@_joined.defjvp
def _joined_tangents(arrays: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
    return _joined(*arrays), jnp.concatenate(tangents, axis=-1)


def partners(x: jax.Array, layout: str, /) -> jax.Array | None:
    """Return swapped halves where code is traced, which compiles to one loop, and one for the gradient; else None."""
    return _swapped(x) if layout == "half" and isinstance(x, jax.core.Tracer) else None


@jax.custom_jvp
def _swapped(x: jax.Array) -> jax.Array:
    middle, still = x.shape[-1] // 2, [(0, 0)] * (x.ndim - 1)
    begins, ends = jnp.pad(x[..., middle:], [*still, (0, middle)]), jnp.pad(x[..., :middle], [*still, (middle, 0)])
    return jnp.where(np.arange(2 * middle) < middle, begins, ends)


@_swapped.defjvp
def _swapped_tangents(arrays: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
    """Roll the tangent: its gradient is a roll; that of a padded array is padded and summed."""
    (x,), (tangent,) = arrays, tangents
    return _swapped(x), jnp.roll(tangent, x.shape[-1] // 2, -1)


def take(x: jax.Array, index: jax.Array, /, *, axis: int) -> jax.Array:
    """Return entries by an index of any shape; on an explicit mesh they are sharded as the index is."""
    by_axis = spec(index)
    if not any(by_axis):
        return jnp.take(x, index, axis=axis)
    axis %= x.ndim
    used = {name for names in by_axis for name in _names(names)}
    of_x = [None if used.intersection(_names(names)) else names for names in spec(x)]
    sharding = PartitionSpec(*of_x[:axis], *by_axis, *of_x[axis + 1 :])
    return x.at[(slice(None),) * axis + (index,)].get(mode="fill", out_sharding=sharding)


take_nd = take


def spec(x: Any, /) -> tuple[Any, ...]:
    """Return the axes of an explicit mesh over which each axis of an array is sharded; None, or () from old JAX."""
    return tuple(jax.typeof(x).sharding.spec) if HAS_TYPES else ()


def product_sharding(x: jax.Array, weight: jax.Array, /) -> PartitionSpec | None:
    """Return the sharding of `x @ weight` where both are sharded along the axis that is summed, as JAX asks; or None.

    The sum over all devices is on each of them: an all-reduce, as after the last projection in tensor parallelism.
    """
    of_x, of_weight = spec(x), spec(weight)
    return PartitionSpec(*of_x[:-1], of_weight[1]) if any(of_x[-1:]) and any(of_weight[:1]) else None


def _names(names: Any) -> tuple[str, ...]:
    return names if isinstance(names, tuple) else (names,) if names else ()


def expand_offsets(by_offset: jax.Array, queries: int, keys: int, first: int, /) -> jax.Array | None:
    """Return overlapping rows, copied once to memory that JAX uses as it is; None if traced, recorded or not on CPU."""
    if isinstance(by_offset, jax.core.Tracer) or is_recorded() or by_offset.dtype != jnp.float32:
        return None
    if getattr(by_offset, "committed", True) or next(iter(by_offset.devices())).platform != "cpu":
        return None
    rows = rows_that_overlap(np.asarray(by_offset)[:, first:], queries, keys)
    copied = _aligned(rows.size).reshape(rows.shape)
    copied[...] = rows
    return jax.device_put(copied)


def _aligned(size: int) -> Any:
    """Return memory for float32 numbers that begins at a multiple of 64 bytes; JAX copies any other."""
    memory = np.empty(size + 16, np.float32)
    first = -memory.ctypes.data % 64 // 4
    return memory[first : first + size]


def is_recorded() -> bool:
    """Return whether code is recorded to run later, as under `jit`: then even a number made here is a tracer.

    Plain `grad` and `vmap` run it at once, though with tracers.
    """
    # asked first, since it takes less time: an array of JAX takes as long to make as a token to rotate
    return not trace_state_clean() and isinstance(jnp.zeros(()), jax.core.Tracer)


def asarray(x: Any, /, *, device: Any = None) -> jax.Array:
    """Return the numbers of a NumPy array, bound to no device."""
    return jnp.asarray(x)


def arange(stop: Any, /, *, device: Any = None) -> jax.Array:
    """Return `0 … stop - 1`, bound to no device: like a table, it follows the arrays that it meets, sharded or not.

    A constant where it can be: for numbers that compiled code counts, XLA makes shards send each other their parts.
    """
    if not isinstance(stop, int):
        return jnp.arange(stop)
    with jax.ensure_compile_time_eval():
        return jnp.arange(stop)


def distance(first: jax.Array, second: jax.Array, /) -> jax.Array:
    """Return `|first - second|`; of int32, which is all that JAX has without x64, as uint32, which holds any."""
    if first.dtype != jnp.int32:
        return jnp.abs(first - second)
    high, low = jnp.maximum(first, second), jnp.minimum(first, second)
    return high.astype(jnp.uint32) - low.astype(jnp.uint32)


def difference(first: jax.Array, second: jax.Array, /) -> jax.Array:
    """Return `first - second`; of int32, at most 2**31 - 1 in size."""
    if first.dtype != jnp.int32:
        return first - second
    far = jnp.minimum(distance(first, second), 2**31 - 1).astype(jnp.int32)
    return jnp.where(first < second, -far, far)


def recomputed(function: Callable[..., Any], /, *arrays: jax.Array) -> Any:
    """Return `function(*arrays)`; recompute it in the backward pass instead of keeping it, where code is recorded.

    In eager code, JAX would compile every function first.
    """
    return jax.checkpoint(function)(*arrays) if is_recorded() else function(*arrays)


@partial(jax.jit, static_argnums=5, inline=True)
def fused_attention(q: jax.Array, k: jax.Array, v: jax.Array, bias: Any, mask: Any, is_causal: bool, /) -> jax.Array:
    """Return attention by JAX's function, which has the heads after the sequence; eager calls would each trace it."""
    tokens = (jnp.swapaxes(x, 1, 2) for x in (q, k, v))
    return jnp.swapaxes(jax.nn.dot_product_attention(*tokens, bias=bias, mask=mask, is_causal=is_causal), 1, 2)
