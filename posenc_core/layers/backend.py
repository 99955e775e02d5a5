"""The contract of a backend: what the layers and the core ask of a framework.

A layer has a `Backend`, whose `namespace` has the framework's names of the array API standard. Beside those, the core
uses these functions of a namespace where it has them, and otherwise does the same with the names of the standard:

| function | returns |
|---|---|
| `partners(x, layout)` | the other channel of each pair, `(..., channels)`; None if halves are better |
| `split_pairs(x, layout)` | the first and the second channels of all pairs, `(..., pairs)` each |
| `join_pairs(first, second, dtype)` | interleaved pairs in one array, rounded to the dtype; None if `stack` does |
| `rounds_parts(x, split, join)` | whether to round the parts of half precision before they are joined |
| `expand_offsets(by_offset, queries, keys, first)` | `(heads, queries, keys)` of numbers by offset, or None |
| `fused_attention(q, k, v, bias, mask, is_causal)` | attention of `(batch, heads, length, width)` |
| `check_formula()` | nothing; raises where attention by its formula would miss keys of other processes |
| `recomputed(function, *arrays)` | `function(*arrays)`, computed again for its gradient |
| `take_nd(x, index, axis)` | `take` by an index of any shape |
| `add_to(x, rows)` | whether it added rows to tokens where they are |
| `distance(first, second)`, `difference(first, second)` | these, of integers whose dtype overflows |
| `shape(x)`, `is_specialized(size)` | sizes that a tracer may not know; whether one is a constant of the program |
| `apply_gufunc` | arrays in blocks, as in dask |

In no row of the `mask` of `fused_attention` all keys are hidden, and `is_causal` comes without a bias and a mask. In
`expand_offsets`, `first` is the column of `by_offset` for the last query and the first key; the core takes numbers by
index where it returns None.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeAlias

import numpy.typing as npt

from .._array_api.namespace import Namespace, is_floating
from ..rotation import Pairing, rotate_checked

Host: TypeAlias = npt.NDArray[Any]  # numbers on the host
Tensor: TypeAlias = Any  # an array of the framework of a layer, whose class the core cannot name
Size: TypeAlias = Any  # an integer, or what a tracer has in the place of one
Given: TypeAlias = Any  # positions, starts or lengths as they are given: numbers, lists or arrays of any library


class Backend(ABC):
    """The contract of a backend: the operations that layers need from a framework. Four methods have no default.

    Attributes:
        namespace: the framework's names of the array API standard, as the core uses them.
        array_types: the classes of its arrays, traced ones included, for `isinstance`.
        rotate: rotates tokens by rows of tables that fit them, `(x, cos, sin, pairing)`.
        compiles_each_length: whether a compiled program is for one length alone, so that it may read what is computed
            for that length; such a framework is not asked whether it compiles.
    """

    namespace: Namespace
    array_types: Any
    rotate: Callable[..., Tensor] = staticmethod(rotate_checked)
    compiles_each_length: bool = False

    @abstractmethod
    def from_numpy(self, array: Host, /, *, like: Tensor = None) -> Tensor:
        """Return the framework's array of the same numbers, on the device of `like`."""

    @abstractmethod
    def to_numpy(self, array: Tensor, /) -> Host:
        """Return the numbers of the framework's array; float32 for a dtype that NumPy lacks."""

    @abstractmethod
    def is_traced(self, array: Tensor, /) -> bool:
        """Return whether the values of the array are unknown, because a tracer stands for it."""

    @abstractmethod
    def stop_gradient(self, array: Tensor, /) -> Tensor:
        """Return the same numbers without a gradient; the array itself if it has none."""

    def is_unread(self, array: Tensor, /) -> bool:
        """Return whether positions and lengths are treated as unknown: traced, or slow to read."""
        return self.is_traced(array)

    def is_recorded(self, x: Tensor, /) -> bool:
        """Return whether this call with `x` is staged to run later; `vmap` and `grad` alone do not stage it."""
        return self.is_traced(x)

    def is_floating(self, x: Tensor, /) -> bool:
        """Return whether `x` holds floating-point numbers."""
        return is_floating(x)

    def is_float64(self, x: Tensor, /) -> bool:
        """Return whether `x` holds numbers of float64, which get tables of float64."""
        return "float64" in str(x.dtype)

    def shape(self, x: Tensor, /) -> tuple[Size, ...]:
        """Return the sizes of `x`: integers, or integers of the framework for sizes unknown while tracing."""
        return x.shape

    def slices(self, tables: tuple[Tensor, ...], start: int, stop: int, /) -> tuple[Tensor, ...]:
        """Return the rows from `start` to `stop` of each table."""
        return tuple([table[start:stop, ...] for table in tables])

    def hoist(self, operation: Callable[..., Tensor], /, *arrays: Tensor) -> Tensor:
        """Return `operation(*arrays)`; compute it once if compiled, since it depends on constants alone."""
        return operation(*arrays)

    def eager(self, function: Callable[..., Tensor], /, *arguments: object) -> Tensor:
        """Return `function(*arguments)`, computed outside of what the framework compiles."""
        return function(*arguments)

    def beside(self, rows: tuple[Tensor, ...], x: Tensor, /) -> tuple[Tensor, ...]:
        """Return rows of tables that can be combined with `x`, for instance replicated if `x` is distributed."""
        return rows

    def is_beside(self, table: Tensor, x: Tensor, /) -> bool:
        """Return whether a table of a layer lies on the device of `x`, where the framework does not move it there."""
        return True

    def check_length(self, stop: Size, limit: Callable[[], tuple[int, Callable[[Size], str]]], /) -> None:  # noqa: B027
        """Check a symbolic `stop` against the limit that the function returns, if the tracer can."""

    def rotate_both(self, q: Tensor, k: Tensor, rows: tuple[Tensor, ...], pairing: Pairing, seq_axis: int, /) -> Tensor:
        """Return queries and keys rotated by the same rows in one call; None if each needs its own call."""
        return None

    def call_context(self, x: Tensor, /) -> AbstractContextManager[object]:
        """Return a context in which to compute with `x`, for instance without autocast.

        For a projection of attention whose heads processes share, `with` gives the processes, such as
        `HeadProcesses` of PyTorch.
        """
        return nullcontext()

    def check_shared(self, layer: Any, /) -> None:  # noqa: B027
        """Raise if a layer of positions cannot be shared by several blocks of attention."""

    def linear(self, width: int, out: int, bias: bool, /, **options: Any) -> Tensor:
        """Return a learned projection, `(..., width) -> (..., out)`."""
        raise NotImplementedError

    def dropout(self, rate: float, /) -> Tensor:
        """Return the `dropout` attribute of a layer: a layer of the framework, or the rate itself."""
        return rate
