"""Rotary encodings (RoPE): tables that rotate channel pairs."""

from .axial import Arrangement, AxialRotary, Series, Unit
from .base import Direction, Precision, RotaryEncoding
from .fope import FoPE
from .learned import LearnedRotary
from .mixed import MixedRotary
from .multimodal import MultimodalRotary, Sections
from .pope import PoPE
from .rotary import Rotary
from .xpos import XPos

__all__ = [
    "Arrangement",
    "AxialRotary",
    "Direction",
    "FoPE",
    "LearnedRotary",
    "MixedRotary",
    "MultimodalRotary",
    "PoPE",
    "Precision",
    "Rotary",
    "RotaryEncoding",
    "Sections",
    "Series",
    "Unit",
    "XPos",
]
