"""Scalings: lower the frequencies of RoPE for contexts longer than those of training.

A scaling takes the frequencies `f[i] = base ** (-2i / d)`, highest first, where `d` is twice their number. To raise the
base to `base * g ** (d / (d - 2))`, it multiplies `f[i]` by `g ** (-2i / (d - 2))`.
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
