"""The part of a kernel that all frameworks share: when it may run, and where it may write."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from struct import Struct
from typing import Any, TypeAlias

from posenc_core._array_api.kernels import Kernel, register_kernel
from posenc_core.normalization import Norm
from posenc_core.rotation import Pairing

from . import library
from .plan import BYTES, Strided, plans_of

NORM, WIDEST = Struct("2d3q").pack, 512  # `norm` in rotate.c, and its most channels
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
        is_followed: `(*arrays) -> bool`: whether a gradient is recorded for one of them.
        is_learned: `(table) -> bool`: whether, while one is recorded, it reaches this table.
        differentiable: `(x, cos, sin, pairing) -> array`: the rotation with a gradient for `x`, the rotation back.
        differentiable_rows: `(q, k, cos, sin, rows, pairing) -> tuple`: the same for `rotate_rows`, whose arguments it
            has, where both arrays have a gradient. A framework may lack it.
        may_take: `(out) -> bool`: whether a plain array may be written to, and no two of its elements share memory.
        written: `(out) -> None`: tell the framework that `out` has changed.
        threads: `() -> int`: how many threads may share the work.
    """

    dtypes: Mapping[Any, str]
    memory: Callable[[Any], Memory | None]
    empty_like: Callable[[Any], tuple[Any, int] | None]
    cast: Callable[[Any, Any], Any]
    is_eager: Callable[[Any], bool] = lambda x: True
    is_followed: Callable[..., bool] = lambda *arrays: False
    is_learned: Callable[[Any], bool] = lambda table: False
    differentiable: Callable[..., Any] | None = None
    differentiable_rows: Callable[..., Any] | None = None
    may_take: Callable[[Any], bool] = lambda out: True
    written: Callable[[Any], None] = lambda out: None
    threads: Callable[[], int] = library.threads_of_process

    @cached_property
    def float32(self) -> Any:
        """The framework's float32."""
        return next(dtype for dtype, name in self.dtypes.items() if name == "float32")

    @cached_property
    def in_float32(self) -> dict[Any, str]:
        """The dtypes that are rotated in float32, and their names."""
        return {dtype: name for dtype, name in self.dtypes.items() if name != "float64"}

    @cached_property
    def wide(self) -> dict[Any, Any]:
        """The dtype that tables must have, by that of tokens."""
        return {dtype: dtype if name == "float64" else self.float32 for dtype, name in self.dtypes.items()}

    def register(self, array_type: type) -> None:
        """Rotate arrays of exactly this class by the kernel, if its library is here."""
        if library.LIBRARY is not None:
            register_kernel(array_type, Kernel(self.is_eager, self.rotate, self.rotate_rows, normalize=self.normalize))

    def rotate(self, x: Any, cos: Any, sin: Any, pairing: Pairing, out: Any = None) -> Any:
        """Rotate `x`; raise if sizes do not fit.

        Returns:
            An array; None if an array is not plain, if a table is of none of `dtypes`, if a gradient reaches one, if
            `out` is not like `x`, or if it overlaps a table, or `x` without being it.
        """
        tokens, cosines, sines, wide = self.memory(x), self.memory(cos), self.memory(sin), self.wide.get(x.dtype)
        if tokens is None or cosines is None or sines is None or wide is None or library.LIBRARY is None:
            return None
        are_wide = cos.dtype == wide and sin.dtype == wide
        if not are_wide and not (cos.dtype in self.dtypes and sin.dtype in self.dtypes):
            return None
        if self.is_followed(x, cos, sin):
            return self.with_gradient(x, cos, sin, pairing, out)
        if not are_wide:
            return self.rotate(x, self.cast(cos, wide), self.cast(sin, wide), pairing, out)
        if out is not None:
            return self._to(out, x, (tokens, cosines, sines), pairing)
        plans = plans_of((self.dtypes[x.dtype], tokens[1]), None, None, cosines[1], sines[1], pairing)
        made = None if plans is None else self.empty_like(x)
        if plans is not None and made is not None:
            library.run(plans, (tokens[0], made[1]), cosines[0], sines[0], self.threads)
        return made and made[0]

    def rotate_rows(
        self, q: Any, k: Any, cos: Any, sin: Any, rows: tuple[int, int] | None, pairing: Pairing
    ) -> tuple[Any, ...] | None:
        """Return `q`, or `q` and `k`, rotated by consecutive rows of tables; None where `rotate` has to do it.

        Args:
            q, k: `(..., length, width)`; `k` may be None.
            cos, sin: tables, `(positions, pairs)`; other dtypes than float32 are left to `rotate`.
            rows: the first of their rows, and their number, the length of all tokens; None for tables that broadcast to
                the tokens.
            pairing: which channels are pairs.
        """
        at_q, at_k = self.memory(q), None if k is None else self.memory(k)
        at_cos, at_sin = self.memory(cos), self.memory(sin)
        if at_q is None or (at_k is None and k is not None) or at_cos is None or at_sin is None:
            return None
        if rows is not None and not 0 <= rows[0] <= min(at_cos[1][0][0], at_sin[1][0][0]) - rows[1]:
            return None
        if not cos.dtype == sin.dtype == self.float32:
            return None
        if library.LIBRARY is None:
            return None
        followed = self.is_followed(q, cos, sin) if k is None else self.is_followed(q, k, cos, sin)
        return self._rows_by_library(q, k, (cos, sin), (at_q, at_k, at_cos, at_sin), rows, pairing, followed)

    def _rows_by_library(
        self,
        q: Any,
        k: Any,
        tables: tuple[Any, Any],
        memory: tuple[Memory, Memory | None, Memory, Memory],
        rows: tuple[int, int] | None,
        pairing: Pairing,
        followed: bool,
    ) -> tuple[Any, ...] | None:
        if followed and not self.is_differentiable(q, k, *tables):
            return None
        (at_q, at_k, (cosines, cos_lies), (sines, sin_lies)), (start, length) = memory, rows or (0, None)
        names = self.in_float32
        of_q, of_k = (names.get(q.dtype), at_q[1]), None if at_k is None else (names.get(k.dtype), at_k[1])
        plans = plans_of(of_q, of_k, None, cos_lies, sin_lies, pairing, length)
        if plans is None or followed:
            return plans and self.differentiable_rows(q, k, *tables, rows, pairing)  # type: ignore[misc]
        made, other = self.empty_like(q), None if k is None else self.empty_like(k)
        if made is None or (other is None and k is not None):
            return None
        places = (at_q[0], made[1]) if other is None else (at_q[0], made[1], at_k[0], other[1])  # type: ignore[index]
        cosines, sines = cosines + 4 * start * cos_lies[1][0], sines + 4 * start * sin_lies[1][0]
        library.run(plans, places, cosines, sines, self.threads)
        return (made[0],) if other is None else (made[0], other[0])

    def normalize(
        self, tokens: Sequence[Any], cos: Any, sin: Any, weights: Sequence[Any], pairing: Pairing, norm: Norm
    ) -> tuple[Any, ...] | None:
        """Return one or two arrays normalized and rotated in float32; None for float64, gradients, and all heads."""
        given = [weight for weight in weights if weight is not None]
        at_cos, at_sin, *places = map(self.memory, (cos, sin, *tokens))
        if library.LIBRARY is None or at_cos is None or at_sin is None or norm.head_axis is not None:
            return None
        if not cos.dtype == sin.dtype == self.float32 or self.is_followed(*tokens, cos, sin, *given):
            return None
        results = []
        for x, at, given_weight in zip(tokens, places, weights, strict=False):
            weight = None if given_weight is None else self.cast(given_weight, self.float32)
            at_weight = (0, ((0,), (1,))) if weight is None else self.memory(weight)
            if at is None or at_weight is None or at[1][1][-1] != 1 or at_weight[1][1] != (1,) or x.shape[-1] > WIDEST:
                return None
            plans = plans_of((self.in_float32.get(x.dtype), at[1]), None, None, at_cos[1], at_sin[1], pairing)
            made = plans and self.empty_like(x)
            if plans is None or made is None:
                return None
            how = NORM(norm.epsilon, norm.offset, at_weight[0], norm.order == "rope_first", x.shape[-1])
            library.run(plans, (at[0], made[1]), at_cos[0], at_sin[0], self.threads, how)
            results.append(made[0])
        return tuple(results)

    def is_differentiable(self, q: Any, k: Any, cos: Any, sin: Any) -> bool:
        """Return whether one function rotates tokens that all have a gradient, by tables that have none."""
        have_function = self.differentiable_rows is not None
        have_gradient = have_function and self.is_followed(q) and (k is None or self.is_followed(k))
        return have_gradient and not (self.is_learned(cos) or self.is_learned(sin))

    def with_gradient(self, x: Any, cos: Any, sin: Any, pairing: Pairing, out: Any) -> Any:
        """Rotate by a function that has a gradient for `x`; return None where another one is asked for."""
        if self.differentiable is None or out is not None or self.is_learned(cos) or self.is_learned(sin):
            return None
        return self.differentiable(x, cos, sin, pairing)

    def _to(self, out: Any, x: Any, memory: tuple[Memory, Memory, Memory], pairing: Pairing) -> Any:
        """Rotate `x` to `out`, given where it and the tables lie; return None if that may not be written to."""
        (tokens, cosines, sines), results, dtype = memory, self.memory(out), x.dtype
        if results is None or out.dtype != dtype or tokens[1][0] != results[1][0]:
            return None
        plans = plans_of((self.dtypes[dtype], tokens[1]), None, results[1][1], cosines[1], sines[1], pairing)
        places = tokens, results, cosines, sines
        if plans is None or not (self.may_take(out) and may_write(self.dtypes[dtype], pairing, places)):
            return None
        library.run(plans, (tokens[0], results[0]), cosines[0], sines[0], self.threads)
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
