"""The names of the array API standard that the core uses: `array_api_compat.torch`, but for what it cannot compile."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from array_api_compat.torch import (  # noqa: F401
    arange,
    asarray,
    broadcast_to,
    matmul,
    matrix_transpose,
    max,  # noqa: A004
    maximum,
    minimum,
    permute_dims,
    where,
)
from torch import (  # noqa: F401
    abs,  # noqa: A004
    bfloat16,
    cos,
    exp,
    float16,
    float32,
    float64,
    full_like,
    int32,
    log,
    log1p,
    ones_like,
    reshape,
    sin,
    stack,
    sum,  # noqa: A004
    zeros_like,
)
from torch.utils.checkpoint import checkpoint

from .distributed import PLAIN, check_formula
from .rotation.compiled import is_exporting, is_specialized  # noqa: F401
from .rotation.words import JoinWords, SplitWords, are_words_best

# PyTorch takes `axis` and `keepdims` for `dim` and `keepdim`
expand_dims: Callable[..., torch.Tensor] = torch.unsqueeze
astype: Callable[..., torch.Tensor] = torch.Tensor.to
concat: Callable[..., torch.Tensor] = torch.cat  # `torch.concat` has no rule for batched gradients
cumulative_sum: Callable[..., torch.Tensor] = torch.cumsum


def take(x: torch.Tensor, indices: torch.Tensor, /, *, axis: int) -> torch.Tensor:
    """Return some of the rows on an axis; `array_api_compat` looks for negative indices, of which we have none."""
    return torch.index_select(x, axis, indices)


def take_nd(x: torch.Tensor, index: torch.Tensor, /, *, axis: int) -> torch.Tensor:
    """Return some of the rows on an axis, whose numbers may have several axes."""
    rows = torch.index_select(x, axis, index.reshape(-1))
    return rows.view(*x.shape[:axis], *index.shape, *x.shape[axis + 1 :])


def add_to(x: torch.Tensor, rows: torch.Tensor, /) -> bool:
    """Add rows to tokens where they are."""
    x.add_(rows)
    return True


def fused_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: Any, mask: Any, is_causal: bool, /
) -> torch.Tensor:
    """Return attention by PyTorch's fused kernel, which never has all scores and weights in memory."""
    if bias is not None and mask is not None:
        bias = torch.where(mask, bias, -math.inf)
    seen = mask if bias is None else bias
    if seen is not None:
        check_formula()
    grouped = bool(q.shape[1] != k.shape[1])  # a tensor in what `torch.jit.trace` runs
    result = torch.nn.functional.scaled_dot_product_attention(q, k, v, seen, is_causal=is_causal, enable_gqa=grouped)
    if torch.compiler.is_compiling() and is_exporting():
        return result.clone(memory_format=torch.contiguous_format)
    return result


def expand_offsets(by_offset: torch.Tensor, queries: int, keys: int, first: int, /) -> torch.Tensor | None:
    """Return overlapping rows, in one copy, or as a view of one query; None where code is traced."""
    if not _is_plain(by_offset):
        return None
    if queries == 1:
        return by_offset.narrow(1, first, keys).unsqueeze(1)
    return by_offset.unfold(1, keys, 1).narrow(1, first, queries).flip(1)


def recomputed(function: Callable[..., Any], /, *arrays: torch.Tensor) -> Any:
    """Return `function(*arrays)`; recompute it in the backward pass instead of keeping it, unless code is traced."""
    if not torch.is_grad_enabled() or not all(map(_is_plain, arrays)):
        return function(*arrays)
    return checkpoint(function, *arrays, use_reentrant=False, preserve_rng_state=False)


def _is_plain(array: torch.Tensor) -> bool:
    """Return whether it is a plain tensor, and code is eager and not transformed, as by `vmap`."""
    if torch.compiler.is_compiling() or torch.jit.is_tracing():
        return False
    return type(array) in PLAIN and torch._C._functorch.peek_interpreter_stack() is None


def split_pairs(x: torch.Tensor, layout: str, /) -> tuple[torch.Tensor, ...]:
    """Return the first and second channels of pairs by an operator with a cheaper gradient than two slices have."""
    if layout != "interleaved":
        return x.chunk(2, -1)
    if are_words_best(x, x.dtype):
        return SplitWords.apply(x)
    return x.view(*x.shape[:-1], x.shape[-1] // 2, 2).unbind(-1)  # `unflatten` has no rule for batched gradients


def join_pairs(first: torch.Tensor, second: torch.Tensor, dtype: torch.dtype, /) -> torch.Tensor | None:
    """Return interleaved pairs, rounded to a dtype of half precision, where code is compiled; else None."""
    return JoinWords.apply(first, second, dtype) if are_words_best(first, dtype) else None


def partners(x: torch.Tensor, layout: str, /) -> torch.Tensor | None:
    """Return swapped halves where code is compiled, into one loop, and one for the gradient; else None."""
    if layout != "half" or not torch.compiler.is_compiling() or is_exporting():
        return None
    return x.unflatten(-1, (2, -1)).flip(-2).flatten(-2)


def rounds_parts(x: torch.Tensor, split: str, join: str, /) -> bool:
    """Return whether to round parts to half precision before they are joined: one compiled loop, not three."""
    if not torch.compiler.is_compiling() or split == join == "half":
        return False
    return x.dtype in (torch.float16, torch.bfloat16) and not torch.is_autocast_enabled(x.device.type)
