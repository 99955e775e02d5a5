"""The rotation of queries and keys, by the kernel or by PyTorch's operators, and its gradient."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from .pairing import Pairing
from .spec import RotationSpec, Rows, rows_of

LAYOUTS = ("half", "interleaved")
HAS_TRITON = find_spec("triton") is not None
IS_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"  # which runs kernels on the CPU, for tests


def apply_rotary(  # noqa: PLR0913
    q: Tensor | None,
    k: Tensor | None,
    cos: Tensor,
    sin: Tensor,
    *,
    layout: str = "half",
    positions: Tensor | None = None,
    start: int = 0,
    cu_seqlens: Tensor | None = None,
    seq_axis: int = -2,
    inverse: bool = False,
) -> tuple[Tensor | None, Tensor | None]:
    """Rotate queries and keys by the rows of their positions.

    Args:
        q, k: `(batch, heads, length, width)`, or None; heads may differ, and all strides are read as they are.
        cos, sin: `(rows, pairs)`, or `(batch, length, pairs)` if the rows are already those of the tokens.
        layout: which channels form a pair: `"half"`, (i, i + pairs), or `"interleaved"`, (2i, 2i + 1).
        positions: the rows of the tokens, int32 or int64, `(length,)` or `(batch, length)`; NaN past the tables.
        start: the row of the first token, without `positions`.
        cu_seqlens: cumulative lengths of packed sequences, `(sequences + 1,)`, each of which begins with row 0.
        seq_axis: the axis of the tokens: -2, or -3 for `(batch, length, heads, width)` and `(length, heads, width)`.
        inverse: whether to rotate back.
    Returns:
        Both rotated, in float32 and rounded once; None where none were given.
    Raises:
        ValueError: if sizes do not fit, rows are named twice, or `layout` is unknown.
    """
    tokens = [x for x in (q, k) if x is not None]
    if layout not in LAYOUTS:
        raise ValueError(f"`layout` must be one of {LAYOUTS}, got {layout!r}.")
    if not tokens or cos.shape != sin.shape or any(2 * cos.shape[-1] > x.shape[-1] for x in tokens):
        raise ValueError("`q` or `k` must be given, and `cos` and `sin` be alike, with a column for each pair.")
    if (positions is not None) + (cu_seqlens is not None) + (cos.ndim == 3) + (start != 0) > 1:
        raise ValueError("`positions`, `cu_seqlens`, `start` and tables of three axes exclude each other.")
    length = tokens[0].shape[seq_axis]
    if cu_seqlens is not None:
        rows = Rows("packed", cu_seqlens)
    elif positions is not None:
        rows = Rows("positions", positions[None, None] if positions.ndim == 1 else positions[None])
    else:
        rows = Rows("rows", start=start)
        if not 0 <= start <= cos.shape[-2] - length:
            raise ValueError(f"`cos` must have the rows of {length} tokens from {start} on, got {cos.shape[-2]}.")
    spec = RotationSpec(Pairing(layout, layout), inverse, seq_axis)
    results = iter(_rotated(tokens, cos, sin, rows, spec))
    return None if q is None else next(results), None if k is None else next(results)


def apply_rotary_transformers(
    q: Tensor, k: Tensor | None, cos: Tensor, sin: Tensor, unsqueeze_dim: int = 1
) -> tuple[Tensor | None, Tensor | None]:
    """Rotate as `apply_rotary_pos_emb` of models whose pairs are half a head apart.

    Args:
        q, k: `(batch, heads, length, width)`, or `(batch, length, heads, width)` with `unsqueeze_dim=2`.
        cos, sin: `(batch, length, width)`, as models make them, or of half as many columns.
        unsqueeze_dim: the axis of the heads.
    """
    if cos.shape[-1] == q.shape[-1]:
        cos, sin = cos.chunk(2, -1)[0], sin.chunk(2, -1)[0]
    return apply_rotary(q, k, cos, sin, seq_axis=-2 if unsqueeze_dim in {1, -3} else -3)


apply_rotary_transformers.can_torch_compile = True  # type: ignore[attr-defined]


def _rotated(tokens: list[Tensor], cos: Tensor, sin: Tensor, rows: Rows, spec: RotationSpec) -> Any:
    """Return tokens rotated, with a gradient if one is recorded."""
    if torch.compiler.is_compiling() or not HAS_TRITON or not (tokens[0].is_cuda or tokens[0].is_xpu or IS_INTERPRETED):
        return _by_operators(tokens, cos, sin, rows, spec)
    if torch.is_grad_enabled() and (cos.requires_grad or sin.requires_grad):
        return _by_operators(tokens, cos, sin, rows, spec)
    return _Rotate.apply(cos, sin, rows, spec, *tokens)


class _Rotate(torch.autograd.Function):
    """The gradient is the rotation back."""

    @staticmethod
    def forward(context: Any, cos: Tensor, sin: Tensor, rows: Rows, spec: RotationSpec, *tokens: Tensor) -> Any:
        from .triton_launch import launch

        context.save_for_backward(cos, sin, rows.given)
        context.how = rows._replace(given=None), spec
        context.set_materialize_grads(True)
        outs = tuple(torch.empty_like(x) for x in tokens)
        if launch(list(zip(tokens, outs, strict=True)), (cos, sin), rows, spec) is None:  # axes that are not one
            return tuple(_by_operators(list(tokens), cos, sin, rows, spec))
        return outs

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> Any:
        cos, sin, given = context.saved_tensors
        rows, spec = context.how
        return None, None, None, None, *_rotated(list(gradients), cos, sin, rows._replace(given=given), spec.opposite)


def _by_operators(tokens: list[Tensor], cos: Tensor, sin: Tensor, rows: Rows, spec: RotationSpec) -> list[Tensor]:
    length, results = tokens[0].shape[spec.seq_axis], []
    cos, sin = (rows_of(table, rows, length) for table in (cos, sin))
    if cos.ndim == tokens[0].ndim:  # packed tokens have no batch
        cos, sin = cos[0], sin[0]
    if spec.seq_axis == -3:
        cos, sin = cos.unsqueeze(-2), sin.unsqueeze(-2)
    elif cos.ndim == 3:
        cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    for x in tokens:
        wide, pairs = torch.float64 if x.dtype == torch.float64 else torch.float32, cos.shape[-1]
        c, s = cos.to(wide), -sin.to(wide) if spec.back else sin.to(wide)
        turned, rest = x[..., : 2 * pairs], x[..., 2 * pairs :]
        is_half = spec.pairing.split == "half"
        sizes = (2, pairs) if is_half else (pairs, 2)
        first, second = turned.to(wide).unflatten(-1, sizes).unbind(-2 if is_half else -1)
        both = torch.stack((first * c - second * s, second * c + first * s), -2 if is_half else -1)
        results.append(torch.cat((both.flatten(-2).to(x.dtype), rest), -1))
    return results
