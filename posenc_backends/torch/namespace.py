"""The names of the array API standard that the core uses: `array_api_compat.torch`, but for what it cannot compile."""

from __future__ import annotations

import torch
from array_api_compat.torch import *


def cumulative_sum(x: torch.Tensor, /, *, axis: int) -> torch.Tensor:
    """That of `array_api_compat` asks for the namespace of `x`, which `torch.compile` does not get through."""
    return torch.cumsum(x, axis)
