"""Rotations on GPUs, with and without a norm: when a Triton kernel runs, and its gradient."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from posenc_core.layers.inputs import batch_size
from posenc_core.normalization import Norm
from posenc_core.rotation import Pairing, check_sizes

from ..distributed import PLAIN
from .compiled import is_eager, is_exporting, is_transformed
from .operators import by_operators, gradients_by_operators
from .plans import Call, Plans, may_write
from .spec import RotationSpec, Rows

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
    rows = rows_beside(x, cos, sin)
    if rows is None:
        return None
    tables, spec = rows[0], RotationSpec(pairing, False, rows[1])
    if out is None:
        return rotated([x], tables, Rows("rows"), spec)[0]
    if torch.is_grad_enabled() and (x.requires_grad or out.requires_grad):
        return None
    rotate_into([out], [x], tables, Rows("rows"), spec)
    return out


def repeated(
    tensors: tuple[Any, ...], start: Any, out: Any, pairing: Pairing, axes: Any, *how: Any, weights: Any = ()
) -> tuple[Call | None, Any]:
    """Return a call of `apply_rotary`, and its results if such a one was checked before; None for either.

    Args:
        tensors: `(q, k, cos, sin, positions, cu_seqlens)`, each of them or None.
        start, out, axes: as `apply_rotary` takes them.
        pairing: its layout, placement and blocks.
        how: `inverse` and `seq_axis`, and a norm if there is one.
        weights: with a norm those of the first tokens and of the last, each of them or None.
    """
    is_int = type(start) is int
    if torch.compiler.is_compiling():
        return None, None
    if not (axes is None or type(axes) in {tuple, list}) or not (out is None or type(out) in {tuple, list}):
        return None, None
    outs = (None, None) if out is None else tuple(out)
    if len(outs) != 2 or tuple(map(type, how[:2])) != (bool, int):
        return None, None
    given = *tensors, None if is_int else start, *outs, *weights
    call = PLANS.call(given, pairing, axes and repr(axes), *how)  # True is 1
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
        found = rotated(tokens, (cos, sin), Rows("rows", start=start), spec, call=call)
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


def rows_beside(x: Tensor, cos: Tensor, sin: Tensor) -> tuple[tuple[Tensor, Tensor], int] | None:
    """Return the rows of tables that broadcast to `x`, as a kernel reads them, and the axis of the tokens."""
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    both = (table if table.dtype == torch.float32 else table.to(wide) for table in (cos, sin.expand(cos.shape)))
    of_cos, of_sin = (_rows_beside(x, table) for table in both)  # of one stride, as one launch needs them
    return None if of_cos is None or of_sin is None else ((of_cos[0], of_sin[0]), of_cos[1])


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
    tokens: Sequence[Tensor],
    tables: tuple[Tensor, Tensor],
    rows: Rows,
    spec: RotationSpec,
    weights: tuple[Any, ...] = (),
    call: Call | None = None,
) -> list[Tensor]:
    """Return queries, keys or both rotated in one launch, in the order of axes in memory that each has.

    Args:
        tokens, tables, rows, spec: as `triton_launch.plan_of` takes them.
        weights: with a norm those of the first tokens and of the last, each of them or None.
        call: keeps the plan, if there is one.
    """
    is_followed = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in (*tokens, *weights))
    if torch.compiler.is_compiling():
        tables, rows = rows.select(tables, tokens[0].shape[spec.seq_axis])
        tensors = *tokens, *[weight for weight in weights[: len(tokens)] if weight is not None]
        each = [x.view_as(x) if any(x is one for one in tensors[:i]) else x for i, x in enumerate(tensors)]
        given = *tables, rows, spec, len(tokens), *each  # Dynamo takes no tensor twice
        return list(_RotateCompiled.apply(*given) if is_followed else _rotate_compiled(*given))

    def launched() -> list[Tensor]:
        return _launched(tokens, [torch.empty_like(x) for x in tokens], tables, rows, spec, weights, call)

    if not is_followed:
        return launched()
    q, k, *_ = *tokens, None
    both = _Rotate.apply(lambda: (*launched(), None)[:2], rows, spec, *tables, q, k, *weights)
    return [x for x in both if x is not None]


class _Rotate(Function):
    """Queries and keys, each of them or None. The gradient of a norm is a kernel of its own, which reads them again."""

    @staticmethod
    def forward(
        context: Any, launched: Any, rows: Rows, spec: RotationSpec, cos: Tensor, sin: Tensor, *tensors: Any
    ) -> Any:
        context.save_for_backward(cos, sin, rows.given, *(() if spec.norm is None else tensors))
        context.rows, context.spec = rows, spec
        context.set_materialize_grads(False)
        return launched()

    @staticmethod
    def backward(context: Any, *gradients: Tensor | None) -> tuple[Any, ...]:
        cos, sin, given, *tensors = context.saved_tensors
        rows, spec, found = context.rows._replace(given=given), context.spec, []
        if spec.norm is None:
            return *([None] * 5), *_rotated_back(gradients, (cos, sin), rows, spec.opposite)
        q, k, *weights = tensors
        gradients_of = gradients_by_operators if torch.is_grad_enabled() else _gradients
        for x, gradient, weight in zip((q, k), gradients, weights, strict=True):
            none = gradient is None
            found.append((None, None) if none else gradients_of(x, gradient, (cos, sin), rows, spec, weight))
        return *([None] * 5), *[of_x for of_x, _ in found], *[of_weight for _, of_weight in found]


def _rotated_back(gradients: Sequence[Any], tables: tuple[Tensor, Tensor], rows: Rows, spec: RotationSpec) -> Any:
    """Return the gradients of tokens, or None: the rotation back by the same rows."""
    call = None
    if rows.axes is None:  # whose numbers are no part of a key
        call = PLANS.call((*gradients, *tables, rows.given, None, None, None, None), rows.find, spec)
    both = PLANS.rotate(call, rows.start)
    if both is not None:
        return both
    tokens = [gradient for gradient in gradients if gradient is not None]
    if tokens and runs(tokens, *tables):
        results = iter(rotated(tokens, tables, rows, spec, call=call))
    else:
        results = iter([by_operators(x, tables, rows, spec) for x in tokens])
    return [None if gradient is None else next(results) for gradient in gradients]


def _gradients(
    x: Tensor, gradient: Tensor, tables: tuple[Tensor, Tensor], rows: Rows, spec: RotationSpec, weight: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """Return the gradients of tokens that are normalized as well, and of their weight."""
    from .triton_qk_norm import plan_of_gradient  # takes half a second

    result, call = torch.empty_like(x), None
    if rows.axes is None:
        call = PLANS.call((x, gradient, *tables, rows.given, None, None, None, None, weight), rows.find, spec)
    plan = PLANS.find(call) or plan_of_gradient([(x, result), (gradient, result)], tables, rows, spec)
    if plan is None:
        gradient, call = torch.empty_like(x).copy_(gradient), None
        plan = plan_of_gradient([(x, result), (gradient, result)], tables, rows, spec)
    if plan is None:
        return gradients_by_operators(x, gradient, tables, rows, spec, weight)
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    sums = None if weight is None else x.new_empty((plan.grid[0], len(weight)), dtype=wide)
    if PLANS.rotate(call, rows.start, (result, sums)) is None:
        plan.launch_on(x, x, result, gradient, sums, *tables, rows.given, rows.axes, rows.start, weight)
        if call is not None and plan.grid[0]:
            PLANS.keep(call, plan, tables, rows, spec, (weight,), _Rotate.apply)
    return result, None if weight is None or sums is None else sums.sum(0).to(weight.dtype)


def rotate_into(
    outs: Sequence[Tensor],
    tokens: Sequence[Tensor],
    tables: tuple[Tensor, Tensor],
    rows: Rows,
    spec: RotationSpec,
    call: Call | None = None,
) -> None:
    """Write queries, keys or both, rotated, to other tensors or in place; nothing may be recorded for a gradient."""
    if torch.compiler.is_compiling() or not may_write(outs, tokens, (*tables, rows.given, rows.axes), spec.pairing):
        for out, result in zip(outs, rotated(tokens, tables, rows, spec), strict=True):
            out.copy_(result)
        return
    _launched(tokens, outs, tables, rows, spec, call=call)
    torch.autograd.graph.increment_version(outs)


def _launched(
    tokens: Sequence[Tensor],
    outs: Sequence[Tensor],
    tables: tuple[Tensor, Tensor],
    rows: Rows,
    spec: RotationSpec,
    weights: tuple[Any, ...] = (),
    call: Call | None = None,
) -> list[Tensor]:
    from . import triton_launch, triton_qk_norm  # takes half a second

    plan_of: Any = triton_launch.plan_of if spec.norm is None else triton_qk_norm.plan_of_forward
    both = list(zip(tokens, outs, strict=True))
    plan = triton_launch.launch(both, tables, rows, spec, weights, plan_of)
    if plan is None:  # axes that cannot be seen as one
        for x, out, weight in zip(tokens, outs, weights or (None, None), strict=False):
            out.copy_(by_operators(x, tables, rows, spec, weight))
    elif call is not None and plan.grid[0]:
        PLANS.keep(call, plan, tables, rows, spec, weights, _Rotate.apply)
    return list(outs)


# By PyTorch's lower functions: each call of a `custom_op` takes a hundred microseconds of the host
HOW = (
    "Tensor cos, Tensor sin, str find, Tensor? given, Tensor? axes, Tensor[] weights, str split, str join, "
    "str placement, int blocks, bool back, int seq_axis, float epsilon, float offset, str order, "
    "int? head_axis) -> Tensor[]"
)
torch.library.define("posenc::rotate", f"(Tensor[] tokens, {HOW}")
torch.library.define("posenc::rotate_back", f"(Tensor x, Tensor gradient, {HOW}")


def _read_how(find: str, given: Any, axes: Any, *how: Any) -> tuple[Rows, RotationSpec]:
    norm = Norm(*how[6:]) if how[-2] else None
    return Rows(find, given, axes), RotationSpec(Pairing(*how[:4]), how[4], how[5], norm)


@torch.library.impl("posenc::rotate", "default")
def _rotate(tokens: Any, cos: Any, sin: Any, find: Any, given: Any, axes: Any, weights: Any, *how: Any) -> Any:
    both, call = (*tokens, None)[:2], None
    if how[-2]:
        weights = (weights[0], weights[-1]) if weights else (None, None)
    if axes is None:  # whose numbers are no part of a key
        call = PLANS.call((*both, cos, sin, given, None, None, None, None, *weights), find, *how)
        both = PLANS.rotate(call, record=False)
        if both is not None:
            return [x for x in both if x is not None]
    outs = [torch.empty_like(x) for x in tokens]
    return _launched(tokens, outs, (cos, sin), *_read_how(find, given, axes, *how), tuple(weights), call)


@torch.library.impl("posenc::rotate_back", "default")
def _rotate_back(x: Any, gradient: Any, cos: Any, sin: Any, *how: Any) -> Any:
    *found, weights = how[:4]
    of_x, of_weight = _gradients(x, gradient, (cos, sin), *_read_how(*found, *how[4:]), weights[0] if weights else None)
    return [of_x] if of_weight is None else [of_x, of_weight]


@torch.library.register_fake("posenc::rotate")
def _(tokens: Any, *_: Any) -> Any:
    return [torch.empty_like(x) for x in tokens]


@torch.library.register_fake("posenc::rotate_back")
def _(x: Any, *how: Any) -> Any:
    *_, weights = how[:7]
    return [torch.empty_like(one) for one in (x, *weights)]


def _how_of(rows: Rows, weights: Any, spec: RotationSpec) -> tuple[Any, ...]:
    norm = Norm(0.0, order="") if spec.norm is None else spec.norm
    return (
        rows.find,
        rows.given,
        rows.axes,
        list(weights),
        *spec.pairing,
        spec.back,
        spec.seq_axis,
        float(norm[0]),
        float(norm[1]),
        *norm[2:],
    )


def _rotate_compiled(cos: Tensor, sin: Tensor, rows: Rows, spec: RotationSpec, count: int, *tensors: Tensor) -> Any:
    """Rotate as `rotated` does, by an operator that `torch.compile` keeps."""
    how = _how_of(rows, tensors[count:], spec)
    return torch.ops.posenc.rotate.default(list(tensors[:count]), cos, sin, *how)


class _RotateCompiled(Function):
    """The same, with a gradient."""

    @staticmethod
    def forward(
        context: Any, cos: Tensor, sin: Tensor, rows: Rows, spec: RotationSpec, count: int, *tensors: Tensor
    ) -> Any:
        integers = [x for x in (rows.given, rows.axes) if x is not None]
        context.save_for_backward(cos, sin, *(() if spec.norm is None else tensors), *integers)
        context.how = rows.find, rows.given is not None, rows.axes is not None, spec, count
        return tuple(_rotate_compiled(cos, sin, rows, spec, count, *tensors))

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Any, ...]:
        cos, sin, *tensors = context.saved_tensors
        find, has_given, has_axes, spec, count = context.how
        axes = tensors.pop() if has_axes else None
        rows = Rows(find, tensors.pop() if has_given else None, axes)
        if spec.norm is None:
            return *([None] * 5), *_rotate_compiled(cos, sin, rows, spec.opposite, count, *gradients)
        tokens, weights, found = tensors[:count], tensors[count:], []
        for i, (x, gradient) in enumerate(zip(tokens, gradients, strict=True)):
            how = _how_of(rows, weights[i : i + 1], spec)
            found.append(torch.ops.posenc.rotate_back.default(x, gradient, cos, sin, *how))
        return *([None] * 5), *[both[0] for both in found], *[both[1] for both in found if weights]
