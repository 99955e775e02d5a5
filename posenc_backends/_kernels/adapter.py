"""The part of a kernel that all frameworks share: when it may run, and where it may write."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

from posenc_core._array_api.checks import check_alike, write
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
        is_eager: `(x) -> bool`: whether operators would run now, and nothing traces, transforms or intercepts them.
        memory: `(x) -> Memory`: where the numbers of `x` lie, once all pending writes are done; None unless `x` is a
            plain array in CPU memory.
        empty_like: `(x) -> (array, address)`: a new contiguous array of the shape and dtype of `x` and its memory's
            address, or None where the framework would put it on another device.
        cast: `(table, dtype) -> array`.
        is_followed: `(x, cos, sin) -> bool`: whether a gradient is recorded for one of them.
        is_learned: `(table) -> bool`: whether, while one is recorded, it reaches this table.
        differentiable: `(x, cos, sin, pairing) -> array`: the rotation with a gradient for `x`, the rotation back.
        may_take: `(out) -> bool`: whether a plain array may be written to, and no two of its elements share memory.
        written: `(out) -> None`: tell the framework that `out` has changed.
        threads: `() -> int`: how many threads may share the work.
        by_operators: `(x, cos, sin, pairing, made) -> array`: the rotation where the library is missing, or None for
            calls that it does not support. It raises if sizes do not fit. In `made`, a dictionary, it may keep what it
            makes of the tables for other tokens that the same rows rotate.
    """

    dtypes: Mapping[Any, str]
    memory: Callable[[Any], Memory | None]
    empty_like: Callable[[Any], tuple[Any, int] | None]
    cast: Callable[[Any, Any], Any]
    is_eager: Callable[[Any], bool] = lambda x: True
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

    @cached_property
    def wide(self) -> dict[Any, Any]:
        """The dtype that tables must have, by that of tokens."""
        return {dtype: dtype if name == "float64" else self.float32 for dtype, name in self.dtypes.items()}

    def register(self, array_type: type) -> None:
        """Rotate arrays of exactly this class by the kernel, if its library is here or operators take its place."""
        if library.LIBRARY is not None or self.by_operators is not None:
            register_kernel(array_type, Kernel(self.is_eager, self.rotate, self.rotate_rows))

    def rotate(self, x: Any, cos: Any, sin: Any, pairing: Pairing, out: Any = None) -> Any:
        """Rotate `x`; raise if sizes do not fit.

        Returns:
            An array; None if an array is not plain, if a table is of none of `dtypes`, if a gradient reaches one, if
            `out` is not like `x`, or if it overlaps a table, or `x` without being it.
        """
        tokens, cosines, sines, wide = self.memory(x), self.memory(cos), self.memory(sin), self.wide.get(x.dtype)
        if tokens is None or cosines is None or sines is None or wide is None:
            return None
        are_wide = cos.dtype == wide and sin.dtype == wide
        if not are_wide and not (cos.dtype in self.dtypes and sin.dtype in self.dtypes):
            return None
        if self.is_followed(x, cos, sin):
            refused = self.differentiable is None or out is not None or self.is_learned(cos) or self.is_learned(sin)
            return None if refused else self.differentiable(x, cos, sin, pairing)  # type: ignore[misc]
        if library.LIBRARY is None:
            return self._by_operators(out, x, cos, sin, pairing)
        if not are_wide:
            return self.rotate(x, self.cast(cos, wide), self.cast(sin, wide), pairing, out)
        place = tokens, cosines, sines
        return self._rotated(x, *place, pairing) if out is None else self._to(out, x, place, pairing)

    def rotate_rows(
        self, tokens: tuple[Any, ...], cos: Any, sin: Any, rows: tuple[int, int], pairing: Pairing
    ) -> tuple[Any, ...] | None:
        """Rotate each of `tokens` by consecutive rows of tables; return None where `rotate` has to.

        Args:
            tokens: each `(..., length, width)`.
            cos, sin: tables, `(positions, pairs)`; other dtypes than float32 are left to `rotate`.
            rows: the first of their rows, and their number, the length of all tokens.
            pairing: which channels are pairs.
        """
        cosines, sines, (start, length), results = self.memory(cos), self.memory(sin), rows, []
        if cosines is None or sines is None or start < 0 or cos.dtype != self.float32 or sin.dtype != self.float32:
            return None
        cos_layout, sin_layout = cosines[1], sines[1]
        if start + length > cos_layout[0][0] or start + length > sin_layout[0][0]:
            return None
        if library.LIBRARY is None:
            return self._rows_by_operators(tokens, cos[start : start + length], sin[start : start + length], pairing)
        cosines = cosines[0] + 4 * start * cos_layout[1][0], cos_layout
        sines = sines[0] + 4 * start * sin_layout[1][0], sin_layout
        for x in tokens:
            place = self.memory(x)
            if place is None or self.wide.get(x.dtype) != self.float32 or self.is_followed(x, cos, sin):
                return None
            rotated = self._rotated(x, place, cosines, sines, pairing, length)
            if rotated is None:
                return None
            results.append(rotated)
        return tuple(results)

    def _rotated(
        self, x: Any, tokens: Memory, cosines: Memory, sines: Memory, pairing: Pairing, rows: int | None = None
    ) -> Any:
        """Rotate `x` to a new array, given where it and the tables lie, or so many of their rows."""
        plan = plan_of(self.dtypes[x.dtype], tokens[1], None, cosines[1], sines[1], pairing, rows)
        made = None if plan is None else self.empty_like(x)
        if plan is None or made is None:
            return None
        library.run(plan, tokens[0], made[1], cosines[0], sines[0], self.threads)
        return made[0]

    def _by_operators(self, out: Any, x: Any, cos: Any, sin: Any, pairing: Pairing) -> Any:
        """Rotate plain tokens by few operators, where there are such."""
        if self.by_operators is None:
            return None
        if out is not None:
            check_alike("out", out, x)
        rotated = self.by_operators(x, cos, sin, pairing, {})
        return rotated if out is None or rotated is None else write("out", out, rotated)

    def _rows_by_operators(self, tokens: tuple[Any, ...], cos: Any, sin: Any, pairing: Pairing) -> Any:
        """Rotate tokens by the same rows, where operators can; return None otherwise."""
        for x in tokens:
            plain = self.memory(x) is not None and self.wide.get(x.dtype) == self.float32
            if self.by_operators is None or not plain or self.is_followed(x, cos, sin):
                return None
        made: dict[str, Any] = {}
        rotated = tuple([self.by_operators(x, cos, sin, pairing, made) for x in tokens])  # type: ignore[misc]
        return None if any(each is None for each in rotated) else rotated

    def _to(self, out: Any, x: Any, memory: tuple[Memory, Memory, Memory], pairing: Pairing) -> Any:
        """Rotate `x` to `out`, given where it and the tables lie; return None if that may not be written to."""
        (tokens, cosines, sines), results, dtype = memory, self.memory(out), x.dtype
        if results is None or out.dtype != dtype or tokens[1][0] != results[1][0]:
            return None
        plan = plan_of(self.dtypes[dtype], tokens[1], results[1][1], cosines[1], sines[1], pairing)
        places = tokens, results, cosines, sines
        if plan is None or not (self.may_take(out) and may_write(self.dtypes[dtype], pairing, places)):
            return None
        library.run(plan, tokens[0], results[0], cosines[0], sines[0], self.threads)
        self.written(out)
        return out


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
