"""Rotations on GPUs: when Triton's kernel runs, where it may write, and its gradient."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from posenc_core.layers.inputs import batch_size
from posenc_core.rotation import Pairing, check_sizes, rotate_reference

from ..distributed import PLAIN
from .compiled import is_eager, is_exporting, is_transformed
from .plans import Call, Plans
from .spec import RotationSpec, Rows, aligned_rows

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
HAS_TRITON = find_spec("triton") is not None
IS_INTERPRETED = HAS_TRITON and os.environ.get("TRITON_INTERPRET") == "1"  # which runs kernels on the CPU, for tests
# Like Triton's own cache of what it compiled for a kernel: it holds how calls are launched and none of their numbers,
# so that no result depends on it. `apply_rotary` is a function, and has no object that could hold it.
PLANS = Plans()


def runs(tokens: Sequence[Tensor], *tables: Tensor) -> bool:
    """Return whether Triton's kernel rotates these tokens by these tables, in eager or in compiled code.

    Operators do it where a call is transformed, traced by `torch.jit`, or exported, or a gradient reaches a table.
    """
    here = all(map(_is_here, (*tokens, *tables)))
    if not here or is_exporting() or (torch.is_grad_enabled() and any(table.requires_grad for table in tables)):
        return False
    return not is_transformed() if torch.compiler.is_compiling() else is_eager()


def may_rotate(q: Tensor, k: Tensor, rows: tuple[Tensor, ...], seq_axis: int) -> bool:
    """Return whether one launch, in eager code, rotates queries and keys that are equally long by the same rows."""
    if torch.compiler.is_compiling() or not runs((q, k), *rows):
        return False
    alike = q.dtype == k.dtype and q.device == k.device and q.ndim == k.ndim
    sequence = seq_axis % q.ndim
    return alike and (rows[0].ndim == 2 or batch_size(q, sequence) == batch_size(k, sequence))


def _is_here(x: Any) -> bool:
    """Return whether `x` is a plain tensor that Triton's kernel could read: on a GPU, or interpreted."""
    device = HAS_TRITON and type(x) in PLAIN and (x.is_cuda or (IS_INTERPRETED and x.is_cpu))
    plain = device and x.layout is torch.strided and x.dtype in DTYPES
    return plain and (torch.compiler.is_compiling() or not x.is_neg())


def rotate(x: Tensor, cos: Tensor, sin: Tensor, pairing: Pairing, out: Tensor | None = None) -> Tensor | None:
    """Rotate `x` by rows that broadcast to it; return None if operators are to do it. Raise if sizes do not fit."""
    if not runs((x,), cos, sin) or (out is not None and (out.shape, out.dtype) != (x.shape, x.dtype)):
        return None
    check_sizes(tuple(x.shape), tuple(cos.shape), tuple(sin.shape), pairing)
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    both = (table if table.dtype == torch.float32 else table.to(wide) for table in (cos, sin.expand(cos.shape)))
    of_cos, of_sin = (_rows_beside(x, table) for table in both)  # of one stride, as one launch needs them
    if of_cos is None or of_sin is None:
        return None
    tables, spec = (of_cos[0], of_sin[0]), RotationSpec(pairing, False, of_cos[1])
    if out is None:
        return rotated([x], tables, Rows("rows"), spec)[0]
    if torch.is_grad_enabled() and (x.requires_grad or out.requires_grad):
        return None
    rotate_into([out], [x], tables, Rows("rows"), spec)
    return out


def repeated(
    tensors: tuple[Any, ...], start: Any, out: Any, pairing: Pairing, axes: Any, *how: Any
) -> tuple[Call | None, Any]:
    """Return a call of `apply_rotary`, and its results if such a one was checked before; None for either.

    Args:
        tensors: `(q, k, cos, sin, positions, cu_seqlens)`, each of them or None.
        start, out, axes: as `apply_rotary` takes them.
        pairing: its layout, placement and blocks.
        how: `inverse` and `seq_axis`.
    """
    is_int = type(start) is int
    if torch.compiler.is_compiling():
        return None, None
    if not (axes is None or type(axes) in {tuple, list}) or not (out is None or type(out) in {tuple, list}):
        return None, None
    outs = (None, None) if out is None else tuple(out)
    if len(outs) != 2 or tuple(map(type, how)) != (bool, int):
        return None, None
    call = PLANS.call((*tensors, None if is_int else start, *outs), pairing, axes and repr(axes), *how)  # True is 1
    return call, PLANS.rotate(call, start if is_int else 0)


def rotate_rows(q: Tensor, k: Any, cos: Tensor, sin: Tensor, rows: tuple[int, int], pairing: Pairing) -> Any:
    """Return `q`, and `k` unless it is None, rotated by consecutive rows of tables; None where they are checked."""
    start, length = rows
    if q.dtype == torch.float64:  # whose rows are float64
        return None
    call = PLANS.call((q, k, cos, sin, None, None, None, None, None), pairing, None, False, -2)
    found = PLANS.rotate(call, start)
    if found is None:
        tokens = [q] if k is None else [q, k]
        is_whole = call is not None and length == q.shape[-2]
        if not is_whole or not are_rows_of(tokens, cos, sin, start, pairing) or not runs(tokens, cos, sin):
            return None
        spec = RotationSpec(pairing, False, -2)
        found = rotated(tokens, (cos, sin), Rows("rows", start=start), spec, call)
    return (found[0],) if k is None else tuple(found)


def are_rows_of(
    tokens: Sequence[Tensor], cos: Tensor, sin: Tensor, start: int, pairing: Pairing, seq_axis: int = -2
) -> bool:
    """Return whether tables in float32 have rows for the tokens from `start` on."""
    q, k, sizes = tokens[0], tokens[-1], cos.shape
    if not (q.dtype == k.dtype and q.device == k.device and q.ndim == k.ndim >= -seq_axis):
        return False
    if q.shape[-1] != k.shape[-1] or q.shape[seq_axis] != k.shape[seq_axis] or len(sizes) != 2:
        return False
    tables = cos.dtype == sin.dtype == torch.float32 and sin.shape == sizes and cos.device == sin.device == q.device
    if not tables or not 0 <= start <= sizes[0] - q.shape[seq_axis]:
        return False
    return 0 < 2 * sizes[1] <= q.shape[-1] and sizes[1] % pairing.blocks == 0


def _rows_beside(x: Tensor, table: Tensor) -> tuple[Tensor, int] | None:
    """Return the rows `(length, pairs)` or `(batch, length, pairs)` of a table that broadcasts to `x`, and their axis.

    None if heads have tables of their own.
    """
    *outer, pairs = table.shape
    axes = [axis - len(outer) for axis, size in enumerate(outer) if size != 1]
    if x.ndim < 2 or not pairs or len(axes) > 2 or (len(axes) == 2 and axes[0] != 1 - x.ndim):
        return None
    if not axes:
        return table.reshape(1, pairs).expand(x.shape[-2], pairs), -2
    return table.reshape(*[size for size in outer if size != 1], pairs), axes[-1] - 1


def rotated(
    tokens: Sequence[Tensor], tables: tuple[Tensor, Tensor], rows: Rows, spec: RotationSpec, call: Call | None = None
) -> list[Tensor]:
    """Return queries, keys or both rotated in one launch, in the order of axes in memory that each has.

    The call keeps the plan, if there is one.
    """
    if torch.compiler.is_compiling():
        tables, rows = rows.select(tables, tokens[0].shape[spec.seq_axis])
        if torch.is_grad_enabled() and any(x.requires_grad for x in tokens):
            return list(_RotateCompiled.apply(*tables, rows, spec, *tokens))
        return _rotate_compiled(tokens, *tables, rows, spec)

    def launched() -> list[Tensor]:
        return _launched(tokens, [torch.empty_like(x) for x in tokens], tables, rows, spec, call)

    if not torch.is_grad_enabled() or not any(x.requires_grad for x in tokens):
        return launched()
    q, k, *_ = *tokens, None
    both = _Rotate.apply(q, k, *tables, rows, spec, lambda: (*launched(), None)[:2])
    return [x for x in both if x is not None]


class _Rotate(Function):
    """Queries and keys, each of them or None; the gradient is the rotation back by the same rows."""

    @staticmethod
    def forward(  # noqa: PLR0913, PLR0917
        context: Any,
        q: Tensor | None,
        k: Tensor | None,
        cos: Tensor,
        sin: Tensor,
        rows: Rows,
        spec: RotationSpec,
        launched: Callable[[], Any],
    ) -> Any:
        context.save_for_backward(cos, sin, rows.given)
        context.rows, context.spec = rows, spec
        context.set_materialize_grads(False)
        return launched()

    @staticmethod
    def backward(context: Any, *gradients: Tensor | None) -> tuple[Any, ...]:
        cos, sin, given = context.saved_tensors
        rows, spec = context.rows._replace(given=given), context.spec.opposite
        tokens, call = [gradient for gradient in gradients if gradient is not None], None
        if rows.axes is None:  # whose numbers are no part of a key
            call = PLANS.call((*gradients, cos, sin, given, None, None, None, None), rows.find, spec)
        both = PLANS.rotate(call, rows.start)
        if both is None:
            if tokens and runs(tokens, cos, sin):
                results = iter(rotated(tokens, (cos, sin), rows, spec, call))
            else:
                results = iter(
                    [rotate_reference(x, *aligned_rows((cos, sin), rows, spec, x), spec.pairing) for x in tokens]
                )
            both = tuple(None if gradient is None else next(results) for gradient in gradients)
        return *both, None, None, None, None, None


def rotate_into(
    outs: Sequence[Tensor],
    tokens: Sequence[Tensor],
    tables: tuple[Tensor, Tensor],
    rows: Rows,
    spec: RotationSpec,
    call: Call | None = None,
) -> None:
    """Write queries, keys or both, rotated, to other tensors or in place; nothing may be recorded for a gradient."""
    if torch.compiler.is_compiling() or not _may_write(outs, tokens, (*tables, rows.given, rows.axes), spec.pairing):
        for out, result in zip(outs, rotated(tokens, tables, rows, spec), strict=True):
            out.copy_(result)
        return
    _launched(tokens, outs, tables, rows, spec, call)
    torch.autograd.graph.increment_version(outs)


def _launched(
    tokens: Sequence[Tensor],
    outs: Sequence[Tensor],
    tables: tuple[Tensor, Tensor],
    rows: Rows,
    spec: RotationSpec,
    call: Call | None = None,
) -> list[Tensor]:
    from .triton_launch import launch  # takes half a second

    plan = launch(list(zip(tokens, outs, strict=True)), tables, rows, spec)
    if plan is None:  # axes that cannot be seen as one
        for x, out in zip(tokens, outs, strict=True):
            out.copy_(rotate_reference(x, *aligned_rows(tables, rows, spec, x), spec.pairing))
    elif call is not None and plan.grid[0]:
        PLANS.keep(call, plan, tables, rows, spec, _Rotate.apply)
    return list(outs)


# By PyTorch's lower functions: each call of a `custom_op` takes a hundred microseconds of the host
torch.library.define(
    "posenc::rotate",
    "(Tensor[] tokens, Tensor cos, Tensor sin, str find, Tensor? given, Tensor? axes, "
    "str split, str join, str placement, int blocks, bool back, int seq_axis) -> Tensor[]",
)


@torch.library.impl("posenc::rotate", "default")
def _rotate(tokens: Any, cos: Any, sin: Any, find: Any, given: Any, axes: Any, *spec: Any) -> Any:
    both, call = (*tokens, None)[:2], None
    if axes is None:  # whose numbers are no part of a key
        call = PLANS.call((*both, cos, sin, given, None, None, None, None), find, *spec)
        both = PLANS.rotate(call)
        if both is not None:
            return [x for x in both if x is not None]
    outs, pairing = [torch.empty_like(x) for x in tokens], Pairing(*spec[:4])
    return _launched(tokens, outs, (cos, sin), Rows(find, given, axes), RotationSpec(pairing, *spec[4:]), call)


@torch.library.register_fake("posenc::rotate")
def _(tokens: Any, *_: Any) -> Any:
    return [torch.empty_like(x) for x in tokens]


def _rotate_compiled(
    tokens: Sequence[Tensor], cos: Tensor, sin: Tensor, rows: Rows, spec: RotationSpec
) -> list[Tensor]:
    """Rotate as `rotated` does, by an operator that `torch.compile` keeps."""
    found = rows.find, rows.given, rows.axes
    return torch.ops.posenc.rotate.default(list(tokens), cos, sin, *found, *spec.pairing, spec.back, spec.seq_axis)


class _RotateCompiled(Function):
    """The gradient is the rotation back."""

    @staticmethod
    def forward(context: Any, cos: Tensor, sin: Tensor, rows: Rows, spec: RotationSpec, *tokens: Tensor) -> Any:
        context.save_for_backward(cos, sin, *[x for x in (rows.given, rows.axes) if x is not None])
        context.find, context.has_axes, context.spec = rows.find, rows.axes is not None, spec
        return tuple(_rotate_compiled(tokens, cos, sin, rows, spec))

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Any, ...]:
        cos, sin, *integers = context.saved_tensors
        rows = Rows(context.find, integers[0] if integers else None, integers[1] if context.has_axes else None)
        rotated_back = _rotate_compiled(gradients, cos, sin, rows, context.spec.opposite)
        return None, None, None, None, *rotated_back


def _may_write(outs: Sequence[Tensor], tokens: Sequence[Tensor], others: Sequence[Any], pairing: Pairing) -> bool:
    """Return whether each result lies apart from all that is read, or is its own tokens, whose channels stay."""
    for i, (out, x) in enumerate(zip(outs, tokens, strict=True)):
        in_place = pairing.split == pairing.join and out.data_ptr() == x.data_ptr() and out.stride() == x.stride()
        read = [other for other in (*others, *tokens, *outs[:i]) if other is not None and other is not x]
        if any(_overlap(out, other) for other in read) or not (in_place or not _overlap(out, x)):
            return False
    return True


def _overlap(one: Tensor, other: Tensor) -> bool:
    """Return whether two tensors may share memory; parts of one fused tensor, side by side in it, do not."""
    if not one.numel() or not other.numel():
        return False
    low, high = sorted((one, other), key=Tensor.data_ptr)
    apart = high.data_ptr() - low.data_ptr()
    if apart >= low.element_size() * (1 + _reach(low)):
        return False
    size, apart = low.element_size(), apart // low.element_size()
    if low.stride() != high.stride() or high.element_size() != size or not apart:
        return True
    sizes = zip(map(max, low.shape, high.shape), low.stride(), strict=True)
    outer = sorted(step for length, step in sizes if length > 1 and step > apart)
    rows = outer and all(step % outer[0] == 0 for step in outer)
    return not rows or _reach(low, apart) >= apart or apart + _reach(high, apart) >= outer[0]


def _reach(x: Tensor, up_to: int | None = None) -> int:
    """Return how far the last element is from the first, along axes of strides up to one."""
    steps = zip(x.shape, x.stride(), strict=True)
    return sum((size - 1) * step for size, step in steps if size > 1 and (up_to is None or step <= up_to))
