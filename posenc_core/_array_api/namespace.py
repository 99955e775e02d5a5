"""Find the array library of an array, and bridge the little that differs between libraries."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np
from array_api_compat import array_namespace

Namespace: TypeAlias = ModuleType
COMMON_DTYPES = ("float32", "int64", "int32", "bfloat16", "float16", "float64", "bool")


class Array(Protocol):
    """An array of any framework: a shape, a dtype, slices and the arithmetic operators.

    Operators return `Any`: with `Array`, type checkers would compare NumPy's overloads with this protocol without end.
    """

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> Any: ...
    def __getitem__(self, key: Any, /) -> Any: ...
    def __neg__(self) -> Any: ...
    def __add__(self, other: Any, /) -> Any: ...
    def __sub__(self, other: Any, /) -> Any: ...
    def __mul__(self, other: Any, /) -> Any: ...
    def __truediv__(self, other: Any, /) -> Any: ...
    def __pow__(self, other: Any, /) -> Any: ...
    def __and__(self, other: Any, /) -> Any: ...
    def __lt__(self, other: Any, /) -> Any: ...
    def __le__(self, other: Any, /) -> Any: ...
    def __gt__(self, other: Any, /) -> Any: ...
    def __ge__(self, other: Any, /) -> Any: ...


A = TypeVar("A", bound=Array)
Weights: TypeAlias = Mapping[str, Array]  # the constants and parameters of a layer, by name

_NAME = re.compile(r"(bfloat|float|complex|uint|int|bool)\d*")  # PyTorch cannot compile code that parses a pattern

# that of NumPy is imported at its first use: it takes longer than NumPy, whose tests and compilers it imports
_namespaces: dict[type, Namespace | None] = {np.ndarray: None}


def register_namespace(cls: type, namespace: Any) -> None:
    """Let `namespace_of` return `namespace` for arrays of this class and its subclasses.

    A framework outside the array API standard calls this once, with the base class of its arrays.
    """
    _namespaces[cls] = namespace


def namespace_of(*arrays: object) -> Namespace:
    """Return the array library of the first array whose class is registered, else that of the array API standard.

    Raises:
        TypeError: if an array belongs to no known library.
    """
    for array in arrays:
        found = _namespaces.get(type(array))
        if found is not None:
            return found
    for array in arrays:
        for cls, namespace in _namespaces.items():
            if isinstance(array, cls):
                return namespace or _import_numpy_namespace()
    try:
        return array_namespace(*arrays)
    except TypeError as error:
        names = ", ".join(sorted({type(array).__name__ for array in arrays}))
        raise TypeError(
            f"No array library is known for {names}; pass arrays, or import `posenc_backends.<framework>` first."
        ) from error


def _import_numpy_namespace() -> Namespace:
    found: Namespace = array_namespace(np.empty(0))
    _namespaces[np.ndarray] = found
    return found


def shape_of(x: Array) -> tuple[int, ...]:
    """Return the sizes of `x`; for a size that a tracer does not know, an integer of its framework, or -1."""
    xp = namespace_of(x)
    sizes: tuple[Any, ...] = xp.shape(x) if hasattr(xp, "shape") else x.shape
    return tuple([-1 if size is None else size for size in sizes])


def beside(x: Any) -> dict[str, Any]:
    """Return the argument `device` with which a library makes an array beside `x`; none where arrays have no device."""
    device = getattr(x, "device", None)
    return {} if device is None else {"device": device}


def dtype_of(x: Array) -> Any:
    """Return the dtype of `x`; None if it has none."""
    return getattr(x, "dtype", None)


def dtype_name(x: Array) -> str:
    """Return `"float32"`, `"bfloat16"`, `"int64"` …, the one spelling that all frameworks share."""
    return name_of_dtype(getattr(x, "dtype", None))


def name_of_dtype(dtype: Any) -> str:
    """Return the name of a dtype of any framework, like `dtype_name`."""
    last = str(dtype).rpartition(".")[2]
    if last in COMMON_DTYPES:
        return last
    found = _NAME.search(str(dtype))
    return found.group() if found else str(dtype)


def is_floating(x: Array) -> bool:
    """Return whether `x` holds real floating-point numbers of any width."""
    return "float" in str(getattr(x, "dtype", None))


def in_float32(operation: Callable[..., Any], x: A, *others: Any) -> Any:
    """Return `operation(x, *others)`, an array or a tuple, computed in float32 and rounded once to the dtype of `x`.

    Where `x` is float64, it is computed in float64.
    """
    xp, dtype = namespace_of(x), x.dtype
    wide = dtype if dtype == xp.float32 or dtype_name(x) == "float64" else xp.float32
    result = operation(*[y if y.dtype == wide else xp.astype(y, wide) for y in (x, *others)])
    if dtype == wide:
        return result
    if isinstance(result, tuple):
        return tuple(xp.astype(part, dtype) for part in result)
    return xp.astype(result, dtype)


def take_nd(x: Array, index: Array, *, axis: int) -> Any:
    """Return `take` by an index of any shape, which the standard lacks; symbols without a shape have it."""
    xp = namespace_of(x)
    own = getattr(xp, "take_nd", xp.take if len(getattr(index, "shape", "1")) == 1 else None)
    if own is not None:
        return own(x, index, axis=axis)
    sizes = shape_of(x)
    sizes = (*sizes[:axis], *shape_of(index), *sizes[axis + 1 :])
    return xp.reshape(xp.take(x, xp.reshape(index, (-1,)), axis=axis), sizes)


def paired(queries: Array, keys: Array) -> tuple[Array, Array]:
    """Return a column and a row of one dtype: `(..., n), (..., m) -> (..., n, 1), (..., 1, m)`."""
    xp = namespace_of(queries)
    shared = _shared_dtype(queries, keys)
    return xp.expand_dims(xp.astype(queries, shared), axis=-1), xp.expand_dims(xp.astype(keys, shared), axis=-2)


def distance(first: Array, second: Array) -> Array:
    """Return how far apart numbers are; a namespace with narrow integers has its own function."""
    xp = namespace_of(first)
    apart = getattr(xp, "distance", None)
    return xp.abs(first - second) if apart is None else apart(first, second)


def difference(first: Array, second: Array, *, limit: int) -> Array:
    """Return `first - second`, cut off at `±limit`."""
    less = getattr(namespace_of(first), "difference", None)
    return cut_off(first - second if less is None else less(first, second), limit=limit)


def cut_off(x: Array, *, limit: int) -> Array:
    """Return `x`, cut off at `±limit`."""
    xp = namespace_of(x)
    return xp.minimum(xp.maximum(x, xp.full_like(x, -limit)), xp.full_like(x, limit))


def _shared_dtype(*arrays: Array) -> Any:
    """Return the widest of the dtypes, at least 32 bits wide, so that no position is cut to fit; None for symbols."""
    xp, by_name = namespace_of(*arrays), {dtype_name(array): dtype_of(array) for array in arrays}
    if "None" in by_name:
        return None
    if any(is_floating(array) for array in arrays):
        return by_name.get("float64", xp.float32)
    return by_name.get("int64", xp.int32)


def aligned(table: Array, x: Array, *, seq_axis: int) -> Array:
    """Return a table `(length, columns)` or `(batch, length, columns)` with axes of size 1 where `x` has others.

    The batch of a table is the first axis of `x` that is not its sequence.
    """
    rank = len(x.shape)
    sequence = seq_axis % rank
    xp = namespace_of(table)
    if sequence == rank - 2:
        for _ in range(rank - 3 if len(table.shape) == 3 else 0):
            table = xp.expand_dims(table, axis=1)
        return table
    sizes = shape_of(table)
    batch = 0 if sequence else 1
    if len(sizes) == 3 and batch > sequence:
        table = xp.permute_dims(table, (1, 0, 2))
    shape = [1] * (rank - 1) + [sizes[-1]]
    shape[sequence] = sizes[-2]
    if len(sizes) == 3:
        shape[batch] = sizes[0]
    return xp.reshape(table, tuple(shape))


def aligned_by_head(table: Array, x: Array, *, seq_axis: int) -> Array:
    """Return a table `(heads, length, columns)` or `(batch, heads, length, columns)` that fits `x`.

    The heads of `x` lie beside its sequence; if they are more, each head of the table serves neighbouring ones.

    Raises:
        ValueError: unless `x` has such an axis of heads, and a batch if the table has one.
    """
    rank, (*batch, heads, _, _) = len(x.shape), shape_of(table)
    sequence = seq_axis % rank
    if rank < 3 + len(batch) or sequence < rank - 3 or sequence == rank - 1:
        raise ValueError(
            f"`q` must be (batch, heads, length, head_dim), or with `seq_axis` -3 (batch, length, heads, head_dim), as "
            f"each head has a table, got shape {tuple(x.shape)} and `seq_axis` {sequence - rank}."
        )
    xp = namespace_of(table)
    count: Any = shape_of(x)[rank - 3 if sequence == rank - 2 else rank - 2]  # of a graph: no integer
    if isinstance(count, int) and count % heads:
        raise ValueError(f"`q` must have a multiple of the {heads} heads of the tables, got {count}.")
    table = repeat_heads(table, count)
    if sequence == rank - 3:
        lead = range(len(batch))
        table = xp.permute_dims(table, (*lead, *(len(batch) + axis for axis in (1, 0, 2))))
    for _ in range(rank - 3 - len(batch) if batch else 0):
        table = xp.expand_dims(table, axis=1)
    return table


def repeat_heads(x: A, count: int) -> A:
    """Return `x`, `(..., heads, length, width)`, with each head repeated beside itself until there are `count`."""
    *lead, heads, length, width = shape_of(x)
    if heads == count:
        return x
    xp: Any = namespace_of(x)
    copies = xp.broadcast_to(xp.expand_dims(x, axis=-3), (*lead, heads, count // heads, length, width))
    return xp.reshape(copies, (*lead, count, length, width))
