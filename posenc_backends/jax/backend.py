"""The backend of JAX: how arrays are made, read and traced."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

import jax
import numpy as np
import numpy.typing as npt
from jax import Array
from jax import numpy as jnp
from jax._src.core import trace_state_clean

from posenc_core import register_namespace
from posenc_core.layers import Backend

from . import namespace
from .module import Module, normal

register_namespace(jax.Array, namespace)
register_namespace(jax.core.Tracer, namespace)


class JaxBackend(Backend):
    """JAX."""

    namespace = namespace
    array_types = (jax.Array, jax.core.Tracer)

    def __init__(self) -> None:
        self._interned: WeakValueDictionary[Any, Array] = WeakValueDictionary()

    def from_numpy(self, array: npt.NDArray[Any], /, *, like: Any = None) -> Array:
        """Return an array that is bound to no device: it follows the arrays that it meets, sharded or not."""
        with jax.ensure_compile_time_eval():  # it outlives the trace that may be under way
            return jnp.array(array)

    def to_numpy(self, array: Any, /) -> npt.NDArray[Any]:
        """Return the numbers of an array; bfloat16, which NumPy lacks, becomes float32."""
        host = np.asarray(array)
        return host.astype(np.float32) if host.dtype == jnp.bfloat16 else host

    def is_traced(self, array: Any, /) -> bool:
        """Return whether values are unknown: under `jit`, `grad`, `vmap` and the like."""
        return isinstance(array, jax.core.Tracer)

    def stop_gradient(self, array: Any, /) -> Array:
        """Return the same numbers without a gradient; only tracers have one."""
        return jax.lax.stop_gradient(array) if self.is_traced(array) else array

    def is_recorded(self, x: Any, /) -> bool:
        """Return whether the call is recorded to run later, by `jit` for instance."""
        return namespace.is_recorded()

    def is_floating(self, x: Any, /) -> bool:
        """Return whether the array holds floating-point numbers."""
        return jnp.issubdtype(x.dtype, jnp.floating)

    def intern(self, array: Array, /) -> Array:
        """Return the one array of these numbers that is alive: in a program, each array is a constant of its own."""
        numbers = hashlib.blake2b(np.asarray(array).tobytes(), digest_size=16).digest()
        return self._interned.setdefault((numbers, array.shape, array.dtype, array.sharding), array)

    def slices(self, tables: tuple[Any, ...], start: int, stop: int, /) -> tuple[Any, ...]:
        """Return the rows from `start` to `stop` of each table, hoisted out of compiled code."""
        return self.hoist(partial(_rows, start, stop - start), *tables)

    def hoist(self, operation: Callable[..., Any], /, *arrays: Any) -> Any:
        """Compute with constants now, so that compiled code holds these rows and not the whole table."""
        if any(map(self.is_traced, arrays)):
            return operation(*arrays)
        with jax.ensure_compile_time_eval():
            result = operation(*arrays)
        return result if trace_state_clean() or not self.is_recorded(result) else jax.tree.map(self.intern, result)

    def check_shared(self, layer: Any, /) -> None:
        """Raise for a layer with leaves: a tree that had them twice would train them as if they were two."""
        if layer.encoding.parameters():
            raise ValueError(
                f"`position` must be an encoding, got the layer of {layer.encoding!r}, which learns: "
                "JAX would train its leaves in each block apart."
            )

    def linear(self, width: int, out: int, bias: bool, /, **options: Any) -> Linear:
        """Return a projection whose weights are drawn from the option `key`."""
        return Linear(width, out, bias, **options)


@partial(jax.jit, static_argnums=1)  # compiled once for each length, not for each start
def _rows(start: Any, length: int, *tables: Array) -> tuple[Array, ...]:
    return tuple([jax.lax.dynamic_slice_in_dim(table, start, length) for table in tables])


class Linear(Module):
    """`x @ weight`, plus a bias if there is one, in `dtype` or that of `x`: `(..., width) -> (..., out)`."""

    children = ("weight", "bias")

    def __init__(  # noqa: PLR0913, PLR0917 - what `nnx.Linear` takes
        self,
        width: int,
        out: int,
        bias: bool,
        key: Array,
        param_dtype: Any = jnp.float32,
        kernel_init: Callable[..., Array] | None = None,
        bias_init: Callable[..., Array] | None = None,
        dtype: Any = None,
    ) -> None:
        if kernel_init is None:
            self.weight = (normal(key, (width, out)) / math.sqrt(width)).astype(param_dtype)
        else:
            self.weight = kernel_init(key, (width, out), param_dtype)
        bias_init = jax.nn.initializers.zeros if bias_init is None else bias_init
        self.bias = bias_init(jax.random.fold_in(key, 1), (out,), param_dtype) if bias else None
        self.dtype = dtype

    def __call__(self, x: Array) -> Array:
        x = jnp.asarray(x, self.dtype)
        weight = jnp.asarray(self.weight).astype(x.dtype)
        sharding = namespace.product_sharding(x, weight)
        product = x @ weight if sharding is None else jnp.matmul(x, weight, out_sharding=sharding)
        return product if self.bias is None else product + jnp.asarray(self.bias).astype(x.dtype)


BACKEND = JaxBackend()
from_numpy, to_numpy, is_traced = BACKEND.from_numpy, BACKEND.to_numpy, BACKEND.is_traced
