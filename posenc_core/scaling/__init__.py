"""Scaling: how the frequencies of a rotary encoding are slowed for contexts longer than it was trained on.

Every formula is written for the frequencies that it is given, `f[i] = base ** (-2i / d)`, highest first, `d` being twice
their number: to raise a base to `base * g ** (d / (d - 2))` is to multiply `f[i]` by `g ** (-2i / (d - 2))`.
"""

from .bands import Llama3, YaRN
from .base import Scaling
from .longrope import LongRoPE
from .ntk import NTK, AttentionFactor, DynamicNTK, Linear, NTKAlpha, Proportional

__all__ = [
    "NTK",
    "AttentionFactor",
    "DynamicNTK",
    "Linear",
    "Llama3",
    "LongRoPE",
    "NTKAlpha",
    "Proportional",
    "Scaling",
    "YaRN",
]
