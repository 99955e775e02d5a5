"""The catalogue: each encoding is a value, in a few lines that compose the stages."""

from .additive import Binary, Integer, Normalized, Sine, Sinusoidal
from .encoding import Additive, Encoding, Parameter, Scoring, Tabular
from .learned import Learned
from .rotary import Rotary
from .scoring import Alibi

__all__ = [
    "Additive",
    "Alibi",
    "Binary",
    "Encoding",
    "Integer",
    "Learned",
    "Normalized",
    "Parameter",
    "Rotary",
    "Scoring",
    "Sine",
    "Sinusoidal",
    "Tabular",
]
