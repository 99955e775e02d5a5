"""The part of a kernel that all frameworks share: when it may run, and where it may write."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

from posenc_core._array_api.checks import write
from posenc_core._array_api.kernels import Kernel, register_kernel
from posenc_core.rotation import Pairing

from . import library
from .plan import BYTES, Strided, plan_of

Memory: TypeAlias = tuple[int, Strided]  # the address of the first number; shape and strides, in numbers


@dataclass(frozen=True)
class CpuKernel:
    """The fused rotation for the arrays of one framework.

    Attributes:
        dtypes: the framework's dtypes and their names, some of `DTYPES`.
        is_eager: `() -> bool`: whether operators would run now, and nothing traces, transforms or intercepts them.
        is_plain: `(x) -> bool`: whether `x` is a plain array whose numbers lie in CPU memory.
        memory: `(x) -> Memory`: where they lie, once all pending writes are done.
        empty_like: `(x) -> array`: a new contiguous array of the shape and dtype of `x`, or None.
        cast: `(table, dtype) -> array`.
        is_followed: `(x, cos, sin) -> bool`: whether a gradient is recorded for one of them.
        is_learned: `(table) -> bool`: whether, while one is recorded, it reaches this table.
        differentiable: `(x, cos, sin, pairing) -> array`: the rotation with a gradient for `x`, the rotation back.
        may_take: `(out) -> bool`: whether a plain array may be written to, and no two of its elements share memory.
        written: `(out) -> None`: tell the framework that `out` has changed.
        threads: `() -> int`: how many threads may share the work.
        by_operators: `(x, cos, sin, pairing) -> array`: the rotation where the library is missing, or None for calls
            that it does not support.
    """

    dtypes: Mapping[Any, str]
    is_plain: Callable[[Any], bool]
    memory: Callable[[Any], Memory]
    empty_like: Callable[[Any], Any]
    cast: Callable[[Any, Any], Any]
    is_eager: Callable[[], bool] = lambda: True
    is_followed: Callable[[Any, Any, Any], bool] = lambda x, cos, sin: False
    is_learned: Callable[[Any], bool] = lambda table: False
    differentiable: Callable[..., Any] | None = None
    may_take: Callable[[Any], bool] = lambda out: True
    written: Callable[[Any], None] = lambda out: None
    threads: Callable[[], int] = library.threads_of_process
    by_operators: Callable[..., Any] | None = None

    @cached_property
    def float32(self) -> Any:
        """The framework's float32."""
        return next(dtype for dtype, name in self.dtypes.items() if name == "float32")

    def register(self, array_type: type) -> None:
        """Rotate arrays of exactly this class by the kernel, if its library is here or operators take its place."""
        if library.LIBRARY is not None or self.by_operators is not None:
            register_kernel(array_type, Kernel(self.supports, self.rotate))

    def supports(self, x: Any) -> bool:
        """Return whether the kernel may rotate `x`."""
        return self.is_eager() and x.dtype in self.dtypes and self.is_plain(x)

    def rotate(self, x: Any, cos: Any, sin: Any, pairing: Pairing, out: Any = None) -> Any:
        """Rotate `x`; return None if a gradient reaches a table, or `out` overlaps a table, or `x` without being it."""
        if not (self.is_plain(cos) and self.is_plain(sin)):
            return None
        if self.is_followed(x, cos, sin):
            refused = self.differentiable is None or out is not None or self.is_learned(cos) or self.is_learned(sin)
            return None if refused else self.differentiable(x, cos, sin, pairing)  # type: ignore[misc]
        if library.LIBRARY is not None:
            return self._run(x, cos, sin, pairing, out)
        rotated = None if self.by_operators is None else self.by_operators(x, cos, sin, pairing)
        return rotated if out is None or rotated is None else write("out", out, rotated)

    def _run(self, x: Any, cos: Any, sin: Any, pairing: Pairing, out: Any) -> Any:
        name = self.dtypes[x.dtype]
        wide = x.dtype if name == "float64" else self.float32
        cos = cos if cos.dtype == wide else self.cast(cos, wide)
        sin = sin if sin.dtype == wide else self.cast(sin, wide)
        tokens, cosines, sines = self.memory(x), self.memory(cos), self.memory(sin)
        strides = None
        if out is not None:
            if not (self.is_plain(out) and self.may_take(out)):
                return None
            results = self.memory(out)
            if not may_write(name, pairing, (tokens, results, cosines, sines)):
                return None
            strides = results[1][1]
        plan = plan_of(name, tokens[1], strides, cosines[1], sines[1], pairing)
        result = None if plan is None else self.empty_like(x) if out is None else out
        if plan is None or not self.is_plain(result):  # a framework may put new arrays on another device
            return None
        library.run(plan, tokens[0], self.memory(result)[0], cosines[0], sines[0], self.threads())
        if out is not None:
            self.written(out)
        return result


def may_write(name: str, pairing: Pairing, memory: tuple[Memory, Memory, Memory, Memory]) -> bool:
    """Return whether the result overlaps no table, and lies apart from `x`, or is `x` and its channels stay in place.

    Args:
        name: the dtype of `x` and the result.
        pairing: which channels are pairs.
        memory: of `x`, the result, the cosines and the sines.
    """
    x, out, *tables = memory
    size, table_size = BYTES[name], max(BYTES[name], 4)
    written = _extent(out, size)
    if any(_overlap(written, _extent(table, table_size)) for table in tables):
        return False
    return (x == out and pairing.split == pairing.join) or not _overlap(written, _extent(x, size))


def _extent(memory: Memory, size: int) -> tuple[int, int]:
    """Return the first byte of an array, and the one after its last."""
    address, (shape, strides) = memory
    steps = [(n - 1) * stride for n, stride in zip(shape, strides, strict=True)]
    before, after = sum(min(step, 0) for step in steps), sum(max(step, 0) for step in steps)
    return address + size * before, address + size * (1 + after)


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] < other[1] and other[0] < one[1]
