"""Positional encodings, computed once: exact tables, rotations and biases for arrays of any framework."""

from ._arrays import namespace_of, register_namespace
from .addition import combine
from .attention import attend
from .encodings import Alibi, Binary, Integer, Learned, Normalized, Rotary, Sine, Sinusoidal
from .masks import causal, padding, valid_lengths
from .positions import sequence
from .rotation import rotate, unrotate
from .scaling import Scaling

__version__ = "0.1.0"

__all__ = [
    "Alibi",
    "Binary",
    "Integer",
    "Learned",
    "Normalized",
    "Rotary",
    "Scaling",
    "Sine",
    "Sinusoidal",
    "attend",
    "causal",
    "combine",
    "namespace_of",
    "padding",
    "register_namespace",
    "rotate",
    "sequence",
    "unrotate",
    "valid_lengths",
]
