"""The names of the array API standard that the core uses: `array_api_compat.torch`, but for what it cannot compile."""

from __future__ import annotations

import torch
from array_api_compat.torch import (  # noqa: F401
    arange,
    asarray,
    astype,
    broadcast_to,
    concat,
    expand_dims,
    matmul,
    matrix_transpose,
    max,  # noqa: A004
    maximum,
    minimum,
    permute_dims,
    reshape,
    sum,  # noqa: A004
    take,
    where,
)
from torch import (  # noqa: F401
    abs,  # noqa: A004
    cos,
    exp,
    float32,
    full_like,
    int32,
    ones_like,
    sin,
    stack,
    zeros_like,
)


def cumulative_sum(x: torch.Tensor, /, *, axis: int) -> torch.Tensor:
    """That of `array_api_compat` asks for the namespace of `x`, which `torch.compile` does not get through."""
    return torch.cumsum(x, axis)
