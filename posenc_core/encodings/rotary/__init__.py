"""Rotary encodings (RoPE): tables that rotate channel pairs."""

from .axial import Arrangement, AxialRotary, Series, Unit
from .base import Direction, Precision, RotaryEncoding
from .learned import LearnedRotary
from .multimodal import MultimodalRotary, Sections
from .pope import PoPE
from .rotary import Rotary
from .xpos import XPos

__all__ = [
    "Arrangement",
    "AxialRotary",
    "Direction",
    "LearnedRotary",
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
