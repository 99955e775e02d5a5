"""Scoring encodings: biases of attention scores."""

from .alibi import Alibi
from .cope import Cope
from .fire import Fire
from .forgetting import ForgettingBias
from .kerple import Kerple, Variant
from .sandwich import Sandwich
from .shaw import AppliesTo, ShawBias
from .swin import SwinBias
from .t5 import T5Bias
from .transformer_xl import TransformerXLBias

__all__ = [
    "Alibi",
    "AppliesTo",
    "Cope",
    "Fire",
    "ForgettingBias",
    "Kerple",
    "Sandwich",
    "ShawBias",
    "SwinBias",
    "T5Bias",
    "TransformerXLBias",
    "Variant",
]
