"""The rotation of many tokens on a CPU part by part, where the compiled kernel is missing.

Intermediate results of the formula go through memory; those of a part stay in the L2 cache of a core.
"""

from __future__ import annotations

import torch
from torch import Tensor

from posenc_core.rotation import Pairing, pair_slices

PART = 1 << 17  # numbers in a part, for each thread


def rotate(x: Tensor, cos: Tensor, sin: Tensor, pairing: Pairing) -> Tensor:
    """Return `x` rotated, with the bits of `rotate_reference`; nothing is checked, and no gradient recorded.

    Args:
        x: at least one token, `(..., length, width)`, on the CPU: float64, float32, bfloat16 or float16.
        cos, sin: tables of any of these dtypes that broadcast to `x`, but for the last axis: one column per pair.
        pairing: which channels are pairs.
    """
    blocks, unrotated = pair_slices(x.shape[-1], cos.shape[-1], pairing)
    wide = torch.float64 if x.dtype is torch.float64 else torch.float32
    cos, sin = (table.to(wide).expand(*x.shape[:-1], -1) for table in (cos, sin))
    result = torch.empty_like(x, memory_format=torch.contiguous_format)
    for channels in unrotated:
        result[..., channels] = x[..., channels]
    axis = max(range(x.ndim - 1), key=x.shape.__getitem__)  # the longest, but for that of the channels
    count = max(1, PART * torch.get_num_threads() * x.shape[axis] // x.numel())
    for part, c, s, to in zip(*(tensor.split(count, axis) for tensor in (x, cos, sin, result)), strict=True):
        tokens = part.to(wide)
        for block in blocks:
            first, second = tokens[..., block.first], tokens[..., block.second]
            cosines, sines = c[..., block.columns], s[..., block.columns]
            to[..., block.to_first] = (first * cosines).sub_(second * sines)
            to[..., block.to_second] = (second * cosines).add_(first * sines)
    return result
