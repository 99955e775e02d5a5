"""Scalings: lower the frequencies of RoPE for contexts longer than those of training.

A scaling takes the frequencies `f[i] = base ** (-2i / d)`, highest first, where `d` is twice their number. To raise the
base to `base * g ** (d / (d - 2))`, it multiplies `f[i]` by `g ** (-2i / (d - 2))`.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .base import Scaling as Scaling
    from .diffusion import DyPE as DyPE
    from .diffusion import RIFLEx as RIFLEx
    from .llama3 import Llama3 as Llama3
    from .longrope import LongRoPE as LongRoPE
    from .ntk import NTK as NTK
    from .ntk import AttentionFactor as AttentionFactor
    from .ntk import DynamicNTK as DynamicNTK
    from .ntk import Linear as Linear
    from .ntk import NTKAlpha as NTKAlpha
    from .ntk import Proportional as Proportional
    from .yarn import YaRN as YaRN

    NAMES: list[str]
else:
    from .._lazy import attach

    __getattr__, __dir__, __all__ = attach(
        __name__,
        {
            "base": "Scaling",
            "diffusion": "DyPE RIFLEx",
            "llama3": "Llama3",
            "longrope": "LongRoPE",
            "ntk": "NTK AttentionFactor DynamicNTK Linear NTKAlpha Proportional",
            "yarn": "YaRN",
        },
    )
    NAMES = [name for name in __all__ if name != "Scaling"]
