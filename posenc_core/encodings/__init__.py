"""The catalogue: each encoding is a value, in a few lines that compose the stages."""

from .additive import Binary, Integer, Normalized, Sine, Sinusoidal
from .axial import AxialRotary
from .encoding import Additive, Encoding, Parameter, Scoring, Tabular
from .learned import Learned
from .learned_rotary import LearnedRotary
from .multimodal import MultimodalRotary
from .rotary import Rotary
from .rotating import Rotating
from .scoring import Alibi
from .xpos import XPos

__all__ = [
    "Additive",
    "Alibi",
    "AxialRotary",
    "Binary",
    "Encoding",
    "Integer",
    "Learned",
    "LearnedRotary",
    "MultimodalRotary",
    "Normalized",
    "Parameter",
    "Rotary",
    "Rotating",
    "Scoring",
    "Sine",
    "Sinusoidal",
    "Tabular",
    "XPos",
]
