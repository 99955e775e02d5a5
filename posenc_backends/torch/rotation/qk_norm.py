"""The norm and the rotation of queries and keys in one call: a Triton kernel on a GPU, the formula elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor

from posenc_core.normalization import Norm, Order, check_weight, norm_of, normalize_and_rotate
from posenc_core.rotation import Layout, Pairing, Placement, pairing_of

from ..distributed import PLAIN
from . import gpu
from .apply_rotary import check_call
from .compiled import is_eager
from .plans import ALIGNED, Call, Plans
from .spec import RotationSpec, Rows, aligned_rows

PLANS = Plans()  # of the kernel that normalizes and rotates
HEADS = 4  # of a token in a program, for which it reads rows of tables once
PARTS = 1024  # programs of a backward pass, each with a sum of its own: as many on all devices, for the same bits


def apply_qk_norm_rotary(  # noqa: PLR0913
    q: Tensor | None,
    k: Tensor | None,
    cos: Tensor,
    sin: Tensor,
    q_weight: Tensor | None = None,
    k_weight: Tensor | None = None,
    *,
    layout: Layout,
    epsilon: float = 1e-6,
    offset: float = 0.0,
    order: Order = "norm_first",
    placement: Placement = "lead",
    blocks: int = 1,
    positions: Tensor | None = None,
    axes: Sequence[int] | None = None,
    start: int | Tensor = 0,
    cu_seqlens: Tensor | None = None,
    seq_axis: int = -2,
) -> tuple[Tensor | None, Tensor | None]:
    """Normalize each head of queries and keys by its root mean square (QK-norm) and rotate: on a GPU in one launch.

    Args:
        q, k, cos, sin, layout, placement, blocks, positions, axes, start, cu_seqlens, seq_axis: as in `apply_rotary`.
        q_weight, k_weight: of each channel, `(width,)`, or None.
        epsilon, offset, order: as in `posenc_core.normalize_and_rotate`, which computes the same. The kernel may add
            the squares in another order, all else is rounded as there.
    Returns:
        The queries and keys, normalized and rotated in float32 and rounded once; None where none were given. Gradients
        reach queries, keys and weights by a kernel, with the same bits each time; tables by operators.
    Raises:
        TypeError: as in `apply_rotary`, or if a weight is not floating-point.
        ValueError: as in `apply_rotary` and `normalize_and_rotate`.
    Source: Dehghani et al. 2023 (arXiv:2302.05442), section 2; Su et al. 2021 (arXiv:2104.09864).

    >>> q, k = torch.ones(1, 2, 3, 4), torch.ones(1, 1, 3, 4)
    >>> cos, sin = torch.zeros(8, 2), torch.ones(8, 2)
    >>> apply_qk_norm_rotary(3 * q, k, cos, sin, torch.full((4,), 0.5), epsilon=0.0, layout="half")[0][0, 0]
    tensor([[-0.5000, -0.5000,  0.5000,  0.5000],
            [-0.5000, -0.5000,  0.5000,  0.5000],
            [-0.5000, -0.5000,  0.5000,  0.5000]])
    """
    weights = [weight for x, weight in ((q, q_weight), (k, k_weight)) if x is not None]
    norm = norm_of(epsilon, offset, order, None, has_weight=any(weight is not None for weight in weights))
    pairing, given = pairing_of(layout, placement, blocks), (positions, axes, start, cu_seqlens)
    call, found = _repeated((q, k, cos, sin, positions, cu_seqlens), weights, start, axes, pairing, norm, seq_axis)
    if found is not None:
        return found
    tokens, tables, rows, spec = check_call(q, k, (cos, sin), pairing, given, False, seq_axis)
    for x, weight in zip(tokens, weights, strict=True):
        if weight is not None:
            check_weight(weight, x, norm)
    results = iter(_normalized(tokens, weights, tables, rows, spec, norm, call))
    return None if q is None else next(results), None if k is None else next(results)


def _repeated(
    tensors: tuple[Any, ...], weights: Sequence[Any], start: Any, axes: Any, pairing: Pairing, norm: Norm, seq_axis: Any
) -> tuple[Call | None, Any]:
    """Return a call on a GPU, and its results if such a one was checked before; None for either."""
    x, is_int = tensors[1] if tensors[0] is None else tensors[0], type(start) is int
    if torch.compiler.is_compiling() or type(x) not in PLAIN or not (gpu.IS_INTERPRETED or x.is_cuda):
        return None, None
    if type(seq_axis) is not int or not (axes is None or type(axes) in {tuple, list}):
        return None, None
    given = (*tensors, None if is_int else start, None, None)
    call, read = _call_of(given, weights, pairing, norm, axes and repr(axes), seq_axis)
    kept, at = PLANS.find(call), start if is_int else 0
    if call is None or kept is None or not 0 <= at <= kept.plan.last_start:
        return call, None
    if not _is_followed(*tensors[:2], *weights):
        return call, PLANS.rotate(call, at, True, read)
    rows = Rows(kept.rows.find, None if call.given is None else call.given.view(kept.sizes), kept.rows.axes, at)
    tokens = [x for x in tensors[:2] if x is not None]

    def launched() -> list[Tensor]:
        return [x for x in PLANS.rotate(call, at, True, read) if x is not None]

    results = iter(_Normalize.apply(launched, len(tokens), rows, kept.spec, norm, *tensors[2:4], *tokens, *weights))
    return call, tuple(None if x is None else next(results) for x in tensors[:2])


def _call_of(tensors: tuple[Any, ...], weights: Sequence[Any], *how: Any) -> tuple[Call | None, tuple[Any, ...]]:
    """Return a call, whose key has the weights, and these as the kernel reads them; None where it may have no plan."""
    x = tensors[1] if tensors[0] is None else tensors[0]
    if not is_eager() or any(weight is not None and type(weight) not in PLAIN for weight in weights):
        return None, ()
    lie: list[Any] = []
    try:
        read = [_read(weight, x) for weight in weights]
        for weight, one in zip(weights, read, strict=True):
            kind = weight is None or (weight.dtype, weight.device, weight.shape, weight.stride(), weight.requires_grad)
            lie.append((kind, one is None or one.data_ptr() % ALIGNED))
    except RuntimeError:  # of tensors without strides or memory
        return None, ()
    return PLANS.call(tensors, *how, *lie), (read[0], read[-1])


def _is_followed(*tensors: Tensor | None) -> bool:
    return torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in tensors)


def _normalized(
    tokens: list[Tensor],
    weights: list[Tensor | None],
    tables: tuple[Tensor, Tensor],
    rows: Rows,
    spec: RotationSpec,
    norm: Norm,
    call: Call | None = None,
) -> list[Tensor]:
    """Return up to two tensors of tokens, normalized and rotated: in one launch, if weights are alike."""
    kinds = {None if weight is None else weight.dtype for weight in weights}
    if len(kinds) > 1:
        return [
            result
            for one, weight in zip(tokens, weights, strict=True)
            for result in _normalized([one], [weight], tables, rows, spec, norm)
        ]
    found = [weight for weight in weights if weight is not None]
    if not tables[0].shape[-1] or not gpu.runs([*tokens, *found], *tables):
        return _by_operators(tokens, weights, tables, rows, spec, norm)
    if torch.compiler.is_compiling():
        tables, rows = rows.select(tables, tokens[0].shape[spec.seq_axis])
        how = *spec.pairing, spec.seq_axis, float(norm.epsilon), float(norm.offset), norm.order
        return torch.ops.posenc.normalize_and_rotate(tokens, found, *tables, rows.find, rows.given, rows.axes, *how)

    def launched() -> list[Tensor]:
        return _launched(tokens, weights, tables, rows, spec, norm, call)

    if not _is_followed(*tokens, *found):
        return launched()
    return list(_Normalize.apply(launched, len(tokens), rows, spec, norm, *tables, *tokens, *weights))


def _by_operators(
    tokens: Sequence[Tensor], weights: Sequence[Tensor | None], tables: Any, rows: Rows, spec: RotationSpec, norm: Norm
) -> list[Tensor]:
    results = []
    for x, weight in zip(tokens, weights, strict=True):
        cos, sin = aligned_rows(tables, rows, spec, x)
        results.append(_by_formula(x, cos, sin, weight, spec.pairing, norm))
    return results


def _by_formula(x: Tensor, cos: Tensor, sin: Tensor, weight: Tensor | None, pairing: Pairing, norm: Norm) -> Tensor:
    layout: Any = pairing.split if pairing.split == pairing.join else "interleaved_to_half"
    placement: Any = pairing.placement
    order: Any = norm.order
    return normalize_and_rotate(
        x, cos, sin, layout=layout, placement=placement, blocks=pairing.blocks, weight=weight,
        offset=norm.offset if weight is not None else 0.0, epsilon=norm.epsilon, order=order,
    )  # fmt: skip


def plan_of_forward(both: Any, tables: Any, rows: Rows, spec: RotationSpec, norm: Norm, has_weight: bool) -> Any:
    """Return the plan of a launch, as `triton_launch.plan_of`, which a call gives both weights behind `start`."""
    from .triton_launch import plan_of  # takes half a second
    from .triton_qk_norm import normalize_rotate_kernel

    plan = plan_of(both, tables, rows, spec, tile_of=partial(_tile, 8, 8))
    if plan is not None:
        plan.kernel, plan.numbers = normalize_rotate_kernel, (*plan.numbers, *_constants(norm, has_weight))
    return plan


def plan_of_gradient(both: Any, tables: Any, rows: Rows, spec: RotationSpec, norm: Norm, has_weight: bool) -> Any:
    """Return the plan of a launch that reads tokens and the gradient of results, both paired with that of the tokens.

    A call gives it in place of the results the gradient of the tokens and the sums of each program, and behind `start`
    the weight and the number of tiles.
    """
    from .triton_launch import plan_of
    from .triton_qk_norm import gradient_kernel

    plan = plan_of(both, tables, rows, spec, tile_of=partial(_tile, 4, 8))
    if plan is None:
        return None
    tiles = plan.grid[0] // 2  # those of the tokens; the gradient has as many
    plan.kernel, plan.numbers = gradient_kernel, (tiles, *plan.numbers, *_constants(norm, has_weight))
    plan.grid = (min(tiles, PARTS), 1, 1)
    return plan


def _tile(at_once: int, in_all: int, *sizes: Any) -> Any:
    """Return a tile of few heads of each token, whose rows of tables are read together.

    Args:
        at_once, in_all: how many pairs a thread has in a tile, and in all its tiles.
        sizes: the arguments of `triton_launch.tile_of`.
    """
    from .triton_launch import THREADS, tile_of

    tile = tile_of(*sizes)
    rows = min(tile.tokens * tile.heads, max(1, at_once * THREADS // tile.columns))
    _, _, _, _, _, num_heads, _ = sizes
    most = 1 << (num_heads - 1).bit_length()
    tokens = min(tile.tokens, rows // min(HEADS, most, rows))
    heads = min(rows // tokens, most)
    repeats = min(in_all * THREADS // (rows * tile.columns), most // heads) if tokens > 1 else 1
    return tile._replace(tokens=tokens, heads=heads, repeats=max(1, repeats))


def _constants(norm: Norm, has_weight: bool) -> tuple[Any, ...]:
    return norm.order == "norm_first", norm.epsilon, norm.offset if has_weight else 0.0


def _launched(
    tokens: Sequence[Tensor],
    weights: Sequence[Tensor | None],
    tables: Any,
    rows: Rows,
    spec: RotationSpec,
    norm: Norm,
    call: Call | None = None,
) -> list[Tensor]:
    outs = [torch.empty_like(x) for x in tokens]
    both = list(zip(tokens, outs, strict=True))
    plan = plan_of_forward(both, tables, rows, spec, norm, weights[0] is not None)
    if plan is None:  # axes that cannot be seen as one
        return _by_operators(tokens, weights, tables, rows, spec, norm)
    first, last = (_read(weight, tokens[0]) for weight in (weights[0], weights[-1]))
    if plan.grid[0]:
        with _device_of(tokens[0]):
            plan.launch(*both[0], *both[-1], *tables, rows.given, rows.axes, rows.start, first, last)
        if call is not None:
            PLANS.keep(call, plan, tables, rows, spec, _Normalize.apply)
    return outs


def _gradients(
    x: Tensor, gradient: Tensor, weight: Tensor | None, tables: Any, rows: Rows, spec: RotationSpec, norm: Norm
) -> tuple[Tensor, Tensor | None]:
    """Return the gradients of tokens and of their weight."""
    result, read, call = torch.empty_like(x), _read(weight, x), None
    if rows.axes is None:  # whose numbers are no part of a key
        given = (x, gradient, *tables, rows.given, None, None, None, None)
        call, _ = _call_of(given, [weight], "back", rows.find, spec, norm)
    kept, is_aligned = PLANS.find(call), result.data_ptr() % ALIGNED == 0
    plan = None if kept is None else kept.plan
    if plan is None:
        how = tables, rows, spec, norm, weight is not None
        plan = plan_of_gradient([(x, result), (gradient, result)], *how)
        if plan is None:
            gradient, call = torch.empty_like(x).copy_(gradient), None
            plan = plan_of_gradient([(x, result), (gradient, result)], *how)
        if plan is None:
            return _gradients_by_operators(x, gradient, weight, tables, rows, spec, norm)
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    sums = None if weight is None else x.new_empty((*plan.grid[:1], x.shape[-1]), dtype=wide)
    if plan.grid[0]:
        given = (x, result, gradient, sums, *tables, rows.given, rows.axes, rows.start, read)
        if kept is not None and is_aligned:
            plan.repeat(*given)
        else:
            with _device_of(x):
                plan.launch(*given)
        if call is not None and kept is None and is_aligned:
            PLANS.keep(call, plan, tables, rows, spec, _Normalize.apply)
    return result, None if weight is None or sums is None else sums.sum(0).to(weight.dtype)


def _gradients_by_operators(
    x: Tensor, gradient: Tensor, weight: Tensor | None, tables: Any, rows: Rows, spec: RotationSpec, norm: Norm
) -> Any:
    """Return the gradients of tokens and of their weight, with gradients of their own if these are recorded."""
    is_followed = torch.is_grad_enabled()
    with torch.enable_grad():
        leaves = [x] if weight is None else [x, weight]
        leaves = leaves if is_followed else [leaf.detach().requires_grad_() for leaf in leaves]
        result = _by_operators(leaves[:1], leaves[1:] or [None], tables, rows, spec, norm)[0]
        return (*torch.autograd.grad(result, leaves, gradient, create_graph=is_followed), None)[:2]


def _read(weight: Tensor | None, x: Tensor) -> Tensor | None:
    """Return a weight as the kernel reads it: contiguous, of no dtype that would change that in which it computes."""
    if weight is not None and torch.float64 in {weight.dtype, x.dtype}:
        weight = weight.to(torch.float64 if x.dtype == torch.float64 else torch.float32)
    return None if weight is None else weight.contiguous()


def _device_of(x: Tensor) -> Any:
    return torch.cuda.device(x.device) if x.is_cuda else nullcontext()


class _Normalize(torch.autograd.Function):
    """The gradient by a kernel of its own, which reads the tokens again; that of the gradient by operators."""

    @staticmethod
    def forward(
        context: Any, launched: Callable[[], list[Tensor]], count: int, rows: Rows, spec: Any, norm: Norm, *tensors: Any
    ) -> Any:
        context.save_for_backward(*tensors, rows.given, rows.axes)
        context.how = count, rows.find, rows.start, spec, norm
        context.set_materialize_grads(False)
        return tuple(launched())

    @staticmethod
    def backward(context: Any, *gradients: Any) -> Any:
        count, find, start, spec, norm = context.how
        cos, sin, *both, given, axes = context.saved_tensors
        rows, found = Rows(find, given, axes, start), []
        gradients_of = _gradients_by_operators if torch.is_grad_enabled() else _gradients
        for x, weight, gradient in zip(both[:count], both[count:], gradients, strict=True):
            none = gradient is None
            found.append((None, None) if none else gradients_of(x, gradient, weight, (cos, sin), rows, spec, norm))
        return *([None] * 7), *[of_x for of_x, _ in found], *[of_weight for _, of_weight in found]


HOW = (
    "Tensor cos, Tensor sin, str find, Tensor? given, Tensor? axes, str split, str join, str placement, int blocks, "
    "int seq_axis, float epsilon, float offset, str order) -> Tensor[]"
)
torch.library.define("posenc::normalize_and_rotate", f"(Tensor[] tokens, Tensor[] weights, {HOW}")
torch.library.define("posenc::normalize_and_rotate_back", f"(Tensor x, Tensor gradient, Tensor? weight, {HOW}")


def _read_how(find: str, given: Any, axes: Any, *how: Any) -> tuple[Rows, RotationSpec, Norm]:
    return Rows(find, given, axes), RotationSpec(Pairing(*how[:4]), False, how[4]), Norm(*how[5:])


@torch.library.impl("posenc::normalize_and_rotate", ("cpu", "cuda"))
def _forward(tokens: Any, weights: Any, cos: Tensor, sin: Tensor, *how: Any) -> list[Tensor]:
    (rows, spec, norm), call = _read_how(*how), None
    weights = weights or [None] * len(tokens)
    if rows.axes is None:
        given = (*(*tokens, None)[:2], cos, sin, rows.given, None, None, None, None)
        call, read = _call_of(given, weights, rows.find, spec, norm)
        found = PLANS.rotate(call, 0, True, read)
        if found is not None:
            return [x for x in found if x is not None]
    return _launched(tokens, weights, (cos, sin), rows, spec, norm, call)


@torch.library.impl("posenc::normalize_and_rotate_back", ("cpu", "cuda"))
def _back(x: Tensor, gradient: Tensor, weight: Tensor | None, cos: Tensor, sin: Tensor, *how: Any) -> list[Tensor]:
    found = _gradients(x, gradient, weight, (cos, sin), *_read_how(*how))
    return [one for one in found if one is not None]


@torch.library.register_fake("posenc::normalize_and_rotate")
def _(tokens: Any, *_: Any) -> Any:
    return [torch.empty_like(x) for x in tokens]


@torch.library.register_fake("posenc::normalize_and_rotate_back")
def _(x: Any, gradient: Any, weight: Any, *_: Any) -> Any:
    return [torch.empty_like(x)] + ([] if weight is None else [weight.new_empty(weight.shape)])


def _save(ctx: Any, inputs: Any, output: Any) -> None:
    tokens, weights, cos, sin, find, given, axes, *how = inputs
    ctx.save_for_backward(*tokens, *weights, cos, sin, given, axes)
    ctx.how = len(tokens), find, how


def _differentiate(ctx: Any, gradients: Any) -> Any:
    count, find, how = ctx.how
    *both, cos, sin, given, axes = ctx.saved_tensors
    tokens, weights = both[:count], both[count:]
    back = torch.ops.posenc.normalize_and_rotate_back
    found = [
        (None, None) if gradient is None else back(x, gradient, weight, cos, sin, find, given, axes, *how)
        for x, gradient, weight in zip(tokens, gradients, weights or [None] * count, strict=True)
    ]
    return [one[0] for one in found], [one[1] for one in found] if weights else [], *([None] * 13)


torch.library.register_autograd("posenc::normalize_and_rotate", _differentiate, setup_context=_save)
