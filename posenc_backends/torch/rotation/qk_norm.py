"""The norm and the rotation of queries and keys in one call: a Triton kernel on a GPU, the formula elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from posenc_core.normalization import Norm, Order, check_weight, norm_of
from posenc_core.rotation import Layout, Pairing, Placement, check_sizes, pairing_of

from . import gpu
from .apply_rotary import check_call
from .operators import by_operators
from .plans import Call
from .spec import RotationSpec, Rows


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
    weights = (k_weight if q is None else q_weight), (q_weight if k is None else k_weight)
    norm = norm_of(epsilon, offset, order, None, has_weight=any(weight is not None for weight in weights))
    pairing, call = pairing_of(layout, placement, blocks), None
    one: Any = k if q is None else q
    if gpu.IS_INTERPRETED or (isinstance(one, Tensor) and one.is_cuda):
        tensors = q, k, cos, sin, positions, cu_seqlens
        call, found = gpu.repeated(tensors, start, None, pairing, axes, False, seq_axis, norm, weights=weights)
        if found is not None:
            return found
    given = positions, axes, start, cu_seqlens
    tokens, tables, rows, spec = check_call(q, k, (cos, sin), pairing, given, False, seq_axis)
    for x, weight in zip((tokens[0], tokens[-1]), weights, strict=True):
        if weight is not None:
            check_weight(weight, x, norm)
    results = iter(normalized(tokens, weights, tables, rows, spec._replace(norm=norm), call))
    return None if q is None else next(results), None if k is None else next(results)


def normalize(
    tokens: tuple[Tensor, ...], cos: Tensor, sin: Tensor, weights: tuple[Any, Any], pairing: Pairing, norm: Norm
) -> tuple[Tensor, ...] | None:
    """Normalize and rotate on a GPU by rows that broadcast to the tokens; return None if operators are to do it."""
    q, k, *_ = *tokens, None
    call = gpu.PLANS.call((q, k, cos, sin, None, None, None, None, None, *weights), pairing, norm)
    both: Any = gpu.PLANS.rotate(call)
    if both is None:
        given = [weight for weight in weights if weight is not None]
        if not gpu.runs((*tokens, *given), cos, sin) or any(x.ndim != q.ndim for x in tokens):
            return None
        check_sizes(tuple(q.shape), tuple(cos.shape), tuple(sin.shape), pairing)
        rows = gpu.rows_beside(q, cos, sin)
        if rows is None or (rows[0][0].ndim == 3 and tokens[-1].shape[0] != len(q)):
            return None
        if norm.head_axis is not None and (q.ndim != 4 or norm.head_axis + rows[1] != -5):  # the other of both axes
            return None
        both = normalized(tokens, weights, rows[0], Rows("rows"), RotationSpec(pairing, False, rows[1], norm), call)
    return tuple([x for x in both if x is not None])


def normalized(
    tokens: Sequence[Tensor],
    weights: tuple[Tensor | None, Tensor | None],
    tables: tuple[Tensor, Tensor],
    rows: Rows,
    spec: RotationSpec,
    call: Call | None = None,
) -> list[Tensor]:
    """Return up to two tensors of tokens, normalized and rotated: in one launch, if weights are alike."""
    if len({None if weight is None else weight.dtype for weight in weights}) > 1:
        each = zip(tokens, weights, strict=True)
        return [normalized([x], (weight, weight), tables, rows, spec)[0] for x, weight in each]
    found = [weight for weight in weights if weight is not None]
    if tables[0].shape[-1] and gpu.runs([*tokens, *found], *tables):
        read = _read(weights[0], tokens[0]), _read(weights[1], tokens[0])
        return gpu.rotated(tokens, tables, rows, spec, read, call)
    return [by_operators(x, tables, rows, spec, weight) for x, weight in zip(tokens, weights, strict=False)]


def _read(weight: Tensor | None, x: Tensor) -> Tensor | None:
    """Return a weight as the kernel reads it: contiguous, of no dtype that would change that in which it computes."""
    if weight is not None and torch.float64 in {weight.dtype, x.dtype}:
        weight = weight.to(torch.float64 if x.dtype == torch.float64 else torch.float32)
    return None if weight is None else weight.contiguous()
