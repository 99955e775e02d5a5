"""The catalogue: each encoding is a value, in a few lines that compose the stages."""

from .additive import Binary, Integer, Normalized
from .alibi import Alibi
from .axial import AxialRotary
from .cope import Cope
from .encoding import Additive, ContentScoring, Encoding, Parameter, PositionScoring, Scoring, Tabular
from .fire import Fire
from .fourier import FourierFeatures, RandomFourierFeatures
from .grid_sinusoidal import GridSinusoidal
from .kerple import Kerple
from .learned import Learned
from .learned_rotary import LearnedRotary
from .learned_sinusoidal import LearnedSinusoidal
from .multimodal import MultimodalRotary
from .placed import Placed
from .rotary import Rotary
from .rotating import Rotating
from .shaw import ShawBias
from .sinusoidal import Sine, Sinusoidal
from .swin import SwinBias
from .t5 import T5Bias
from .timestep import Timestep
from .transformer_xl import TransformerXLBias
from .xpos import XPos

__all__ = [
    "Additive",
    "Alibi",
    "AxialRotary",
    "Binary",
    "ContentScoring",
    "Cope",
    "Encoding",
    "Fire",
    "FourierFeatures",
    "GridSinusoidal",
    "Integer",
    "Kerple",
    "Learned",
    "LearnedRotary",
    "LearnedSinusoidal",
    "MultimodalRotary",
    "Normalized",
    "Parameter",
    "Placed",
    "PositionScoring",
    "RandomFourierFeatures",
    "Rotary",
    "Rotating",
    "Scoring",
    "ShawBias",
    "Sine",
    "Sinusoidal",
    "SwinBias",
    "T5Bias",
    "Tabular",
    "Timestep",
    "TransformerXLBias",
    "XPos",
]
