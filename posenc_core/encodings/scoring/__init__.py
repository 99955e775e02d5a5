"""Scoring encodings: biases of attention scores."""

from .alibi import Alibi
from .cope import Cope
from .deberta import DebertaBias, Terms
from .decomposed import DecomposedBias
from .dynamic import DynamicPositionBias
from .fire import Fire
from .forgetting import ForgettingBias
from .kerple import Kerple, Variant
from .relative_logits import RelativeLogits
from .sandwich import Sandwich
from .shaw import AppliesTo, ShawBias
from .swin import SwinBias
from .swin_v2 import SwinV2Bias
from .t5 import T5Bias
from .transformer_xl import TransformerXLBias

__all__ = [
    "Alibi",
    "AppliesTo",
    "Cope",
    "DebertaBias",
    "DecomposedBias",
    "DynamicPositionBias",
    "Fire",
    "ForgettingBias",
    "Kerple",
    "RelativeLogits",
    "Sandwich",
    "ShawBias",
    "SwinBias",
    "SwinV2Bias",
    "T5Bias",
    "Terms",
    "TransformerXLBias",
    "Variant",
]
