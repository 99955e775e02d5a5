"""The fused CPU rotation as an operator of compiled programs: a primitive, with a rule for each transformation.

Where the primitive is lowered, it becomes a call of the kernel, or the formula for what the kernel is not for.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, lru_cache, partial
from typing import Any, TypeAlias

import jax
import numpy as np
from jax import numpy as jnp
from jax._src.array import ArrayImpl
from jax.experimental import jet
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jax.sharding import SingleDeviceSharding

from posenc_backends._kernels import DTYPES, contiguous, library
from posenc_backends._kernels.plan import Plan, plan_of
from posenc_core._array_api.checks import check_floating
from posenc_core._array_api.kernels import Kernel, register_kernel
from posenc_core.rotation import Pairing, rotate_reference

from .namespace import is_recorded

Sizes: TypeAlias = tuple[int, ...]
TARGET = "posenc_rotate"
rotate_p = Primitive("posenc_rotate")  # x, cos, sin; tables have the dtype of the arithmetic, and one width


def rotate(x: Any, cos: Any, sin: Any, pairing: Pairing, out: Any = None) -> Any:
    """Rotate by the primitive, now or as a part of what is traced; return None where the formula is to be traced.

    That is on a mesh, where types have shardings that JAX knows of its own operators alone.
    """
    arrays = (x, cos, sin)
    traced = any(isinstance(array, jax.core.Tracer) for array in arrays)
    if library.LIBRARY is None or out is not None or not all(map(_is_static if traced else _is_here, arrays)):
        return None
    if _plan(x.dtype, x.shape, cos.shape, sin.shape, pairing) is None or not _runs():
        return None
    return (_bind if traced else _compiled)(x, cos, sin, pairing)


def rotate_rows(q: Any, k: Any, cos: Any, sin: Any, rows: tuple[int, int] | None, pairing: Pairing) -> Any:
    """Return eager tokens rotated by consecutive rows of the tables, in one compiled call; None for all others."""
    if rows is None:
        return None
    tokens = (q,) if k is None else (q, k)
    (start, length), (stored, pairs) = rows, cos.shape
    if library.LIBRARY is None or not all(map(_is_here, (*tokens, cos, sin))) or is_recorded():
        return None
    if not 0 <= start <= stored - length:
        return None
    for x in tokens:
        if x.dtype == np.float64 or _plan(x.dtype, x.shape, (length, pairs), (length, pairs), pairing) is None:
            return None
    return _compiled_rows(tokens, cos, sin, start, length, pairing) if _runs() else None


@partial(jax.jit, static_argnums=(4, 5))  # compiled once for each length, not for each start
def _compiled_rows(
    tokens: tuple[Any, ...], cos: Any, sin: Any, start: Any, length: int, pairing: Pairing
) -> tuple[Any, ...]:
    cos, sin = (jax.lax.dynamic_slice_in_dim(table, start, length) for table in (cos, sin))
    return tuple([_bind(x, cos, sin, pairing) for x in tokens])


def _is_static(array: Any) -> bool:
    if not hasattr(array, "shape"):
        return False
    return jax.typeof(array).sharding.mesh.empty and all(type(size) is int for size in array.shape)


def _is_here(array: Any) -> bool:
    return type(array) is ArrayImpl and type(array.sharding) is SingleDeviceSharding


@lru_cache(maxsize=1024)
def _plan(
    dtype: Any, x: Sizes, cos: Sizes, sin: Sizes, pairing: Pairing, axes: tuple[int, ...] | None = None
) -> Plan | None:
    """Return the kernel's plan; None if it has none for such arrays.

    Args:
        dtype: of x.
        x, cos, sin: shapes.
        pairing: which channels are pairs.
        axes: those of x, as they follow each other in memory; by default in their order.
    """
    if dtype.name not in DTYPES:
        return None
    strides = contiguous(x)
    if axes is not None:
        in_memory = dict(zip(axes, contiguous(tuple([x[axis] for axis in axes])), strict=True))
        strides = tuple([in_memory[axis] for axis in range(len(x))])
    return plan_of(dtype.name, (x, strides), None, (cos, contiguous(cos)), (sin, contiguous(sin)), pairing)


def _bind(x: Any, cos: Any, sin: Any, pairing: Pairing) -> Any:
    check_floating("cos", cos)
    check_floating("sin", sin)
    wide = x.dtype if x.dtype == np.float64 else np.float32
    return rotate_p.bind(x, cos.astype(wide), sin.astype(wide), pairing=pairing)


_compiled = jax.jit(_bind, static_argnums=3)


def _formula(x: Any, cos: Any, sin: Any, *, pairing: Pairing) -> Any:
    return rotate_reference(x, cos, sin, pairing)


@cache
def _runs() -> bool:
    """Return whether programs run on the CPU, and this XLA calls the kernel, which returns what it should."""
    if jax.default_backend() != "cpu":
        return False
    arrays = [np.array([numbers], np.float32) for numbers in ([3, 5], [2], [7])]
    try:
        with jax.ensure_compile_time_eval(), jax.disable_jit(False), jax.transfer_guard("allow"):
            return np.array_equal(_compiled(*arrays, Pairing("half", "half")), [[-29, 31]])
    except (RuntimeError, AttributeError, TypeError, ValueError):  # from another version, which has changed
        return False


@rotate_p.def_impl
def _run(x: Any, cos: Any, sin: Any, *, pairing: Pairing) -> Any:
    with jax.disable_jit(False):
        return _compiled(x, cos, sin, pairing)


@rotate_p.def_abstract_eval
def _result_type(x: Any, cos: Any, sin: Any, *, pairing: Pairing) -> Any:
    return x.update(weak_type=False)


def _lower(context: Any, *arrays: Any, pairing: Pairing) -> Any:
    """Call the kernel; lower the formula for export, and for several devices, as XLA would gather all shards first."""
    module, (x, cos, sin) = context.module_context, context.avals_in
    axes = _axes_in_memory(arrays[0], x.ndim)
    plan = _plan(x.dtype, x.shape, cos.shape, sin.shape, pairing, axes)
    here = tuple(context.platforms or module.platforms) == ("cpu",) and not module.lowering_parameters.for_export
    if plan is None or not here or getattr(module.axis_context, "num_devices", None) != 1:
        return _lower_formula(context, *arrays, pairing=pairing)
    layouts = [axes[::-1], *[tuple(range(table.ndim))[::-1] for table in (cos, sin)]]
    return jax.ffi.ffi_lowering(TARGET, operand_layouts=layouts)(context, *arrays, plan=plan.numbers)


def _axes_in_memory(value: Any, rank: int) -> tuple[int, ...]:
    """Return the axes in the order of memory: what is transposed is read as it lies, where XLA would copy it first."""
    producer = value.owner
    if getattr(producer, "name", None) != "stablehlo.transpose":
        return tuple(range(rank))
    return tuple(np.argsort(list(producer.attributes["permutation"])).tolist())


_lower_formula = mlir.lower_fun(_formula, multiple_results=False)
mlir.register_lowering(rotate_p, _lower, cacheable=False)  # it looks at what is around the call


def _push(arrays: Any, tangents: Any, *, pairing: Pairing) -> tuple[Any, Any]:
    """Rotate the tangent of x; the formula has that of learned tables."""
    x, *tables = arrays
    tangent, *of_tables = tangents
    if type(tangent) is not ad.Zero:
        tangent = rotate_p.bind(tangent, *tables, pairing=pairing)
    if any(type(each) is not ad.Zero for each in of_tables):
        by_tables = partial(_formula, x, pairing=pairing)
        more = jax.jvp(by_tables, tuple(tables), tuple(map(ad.instantiate_zeros, of_tables)))[1]
        tangent = ad.add_tangents(tangent, more)
    return rotate_p.bind(*arrays, pairing=pairing), tangent


def _pull(gradient: Any, x: Any, cos: Any, sin: Any, *, pairing: Pairing) -> list[Any]:
    """Rotate back: it is linear in x alone, as `_push` makes it."""
    if type(gradient) is not ad.Zero:
        gradient = rotate_p.bind(gradient, cos, -sin, pairing=pairing.inverse)
    return [gradient, None, None]


def _batch(arrays: Any, axes: Any, *, pairing: Pairing) -> tuple[Any, int]:
    """Rotate the rows of a batch together: tables get its axis where x has it."""
    x, *tables = arrays
    axis, *of_tables = axes
    if axis is None:
        return jax.vmap(partial(_formula, pairing=pairing), axes)(*arrays), 0
    if axis == x.ndim - 1:
        x, axis = jnp.moveaxis(x, axis, 0), 0
    moved = [_with_batch(table, own, axis, x.ndim) for table, own in zip(tables, of_tables, strict=True)]
    return rotate_p.bind(x, *moved, pairing=pairing), axis


def _with_batch(table: Any, own: int | None, axis: int, rank: int) -> Any:
    """Return a table of this rank with a batch along `axis`: its own, along `own`, or one of size 1."""
    table = jnp.expand_dims(table, 0) if own is None else jnp.moveaxis(table, own, 0)
    size, *sizes = table.shape
    return jnp.moveaxis(table.reshape(size, *[1] * (rank - table.ndim), *sizes), 0, axis)


def _taylor(arrays: Any, series: Any, *, pairing: Pairing) -> Any:
    return jet.jet(partial(_formula, pairing=pairing), arrays, series, factorial_scaled=False)


ad.primitive_jvps[rotate_p] = _push
ad.primitive_transposes[rotate_p] = _pull
batching.primitive_batchers[rotate_p] = _batch
jet.jet_rules[rotate_p] = _taylor


def _classes(kind: type) -> Iterator[type]:
    yield kind
    narrower: list[type] = kind.__subclasses__()
    for each in narrower:
        yield from _classes(each)


if library.LIBRARY is not None:
    jax.ffi.register_ffi_target(TARGET, jax.ffi.pycapsule(library.LIBRARY.posenc_rotate_xla), platform="cpu")
    for array_type in (ArrayImpl, *_classes(jax.core.Tracer)):
        register_kernel(array_type, Kernel(lambda x: True, rotate, rotate_rows))
