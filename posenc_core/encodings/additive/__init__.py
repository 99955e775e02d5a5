"""Additive encodings: rows that are added to tokens."""

from .base import Series, SinusoidalColumns
from .fourier import FourierConvention, FourierFeatures, RandomFourierFeatures
from .grid_sinusoidal import GridConvention, GridSinusoidal
from .integer import Binary, Integer, Normalized
from .learned import Learned, LearnedSinusoidal
from .sinusoidal import Sine, Sinusoidal
from .timestep import Order, Timestep

__all__ = [
    "Binary",
    "FourierConvention",
    "FourierFeatures",
    "GridConvention",
    "GridSinusoidal",
    "Integer",
    "Learned",
    "LearnedSinusoidal",
    "Normalized",
    "Order",
    "RandomFourierFeatures",
    "Series",
    "Sine",
    "Sinusoidal",
    "SinusoidalColumns",
    "Timestep",
]
