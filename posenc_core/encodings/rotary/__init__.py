"""Rotary encodings (RoPE): tables that rotate channel pairs."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .axial import AxialRotary as AxialRotary
    from .fope import FoPE as FoPE
    from .learned import LearnedRotary as LearnedRotary
    from .mixed import MixedRotary as MixedRotary
    from .multimodal import MultimodalRotary as MultimodalRotary
    from .pope import PoPE as PoPE
    from .rotary import Rotary as Rotary
    from .xpos import XPos as XPos
else:
    from ..._lazy import attach

    __getattr__, __dir__, __all__ = attach(
        __name__,
        {
            "axial": "AxialRotary",
            "fope": "FoPE",
            "learned": "LearnedRotary",
            "mixed": "MixedRotary",
            "multimodal": "MultimodalRotary",
            "pope": "PoPE",
            "rotary": "Rotary",
            "xpos": "XPos",
        },
    )
