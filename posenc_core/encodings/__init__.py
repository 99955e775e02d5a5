"""All encodings: additive, rotary (RoPE) and scoring. Each is a value, a frozen dataclass that owns no arrays."""

import sys

from . import additive
from .additive.base import Additive
from .additive.fourier import FourierFeatures, RandomFourierFeatures
from .additive.grid_sinusoidal import GridSinusoidal
from .additive.integer import Binary, Integer, Normalized
from .additive.learned import Learned, LearnedSinusoidal
from .additive.sinusoidal import Sine, Sinusoidal
from .additive.timestep import Timestep
from .base import Encoding, Parameter, Tabular
from .placed import Placed
from .query_scale import LearnedQueryScale, QueryEncoding, QueryScale
from .remapping import DualChunk, LeakyReRoPE, RemappedRotary, ReRoPE, SelfExtend
from .rotary.axial import AxialRotary
from .rotary.base import RotaryEncoding
from .rotary.fope import FoPE
from .rotary.learned import LearnedRotary
from .rotary.mixed import MixedRotary
from .rotary.multimodal import MultimodalRotary
from .rotary.pope import PoPE
from .rotary.rotary import Rotary
from .rotary.xpos import XPos
from .scoring.alibi import Alibi
from .scoring.base import ContentScoring, Pairs, PositionScoring, Scoring
from .scoring.cope import Cope
from .scoring.deberta import DebertaBias
from .scoring.decomposed import DecomposedBias
from .scoring.dynamic import DynamicPositionBias
from .scoring.fire import Fire
from .scoring.forgetting import ForgettingBias
from .scoring.kerple import Kerple
from .scoring.relative_logits import RelativeLogits
from .scoring.sandwich import Sandwich
from .scoring.shaw import ShawBias
from .scoring.swin import SwinBias
from .scoring.swin_v2 import SwinV2Bias
from .scoring.t5 import T5Bias
from .scoring.transformer_xl import TransformerXLBias

__all__ = [
    "Additive",
    "Alibi",
    "AxialRotary",
    "Binary",
    "ContentScoring",
    "Cope",
    "DebertaBias",
    "DecomposedBias",
    "DualChunk",
    "DynamicPositionBias",
    "Encoding",
    "Fire",
    "FoPE",
    "ForgettingBias",
    "FourierFeatures",
    "GridSinusoidal",
    "Integer",
    "Kerple",
    "LeakyReRoPE",
    "Learned",
    "LearnedQueryScale",
    "LearnedRotary",
    "LearnedSinusoidal",
    "MixedRotary",
    "MultimodalRotary",
    "Normalized",
    "Pairs",
    "Parameter",
    "Placed",
    "PoPE",
    "PositionScoring",
    "QueryEncoding",
    "QueryScale",
    "RandomFourierFeatures",
    "ReRoPE",
    "RelativeLogits",
    "RemappedRotary",
    "Rotary",
    "RotaryEncoding",
    "Sandwich",
    "Scoring",
    "SelfExtend",
    "ShawBias",
    "Sine",
    "Sinusoidal",
    "SwinBias",
    "SwinV2Bias",
    "T5Bias",
    "Tabular",
    "Timestep",
    "TransformerXLBias",
    "XPos",
]

# Pickles of encodings name the module of a class. Those of version 0.1 name modules that have moved into folders since;
# the classes are all here, and `Series`, which sinusoidal encodings keep, in `additive`.
_FORMER = (
    "alibi axial cope fire fourier grid_sinusoidal kerple learned learned_rotary learned_sinusoidal multimodal "
    "shaw sinusoidal swin t5 timestep transformer_xl xpos"
)
sys.modules.update({f"{__name__}.{name}": sys.modules[__name__] for name in _FORMER.split()})
sys.modules[f"{__name__}.waves"] = additive
