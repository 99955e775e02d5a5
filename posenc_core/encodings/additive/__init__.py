"""Additive encodings: rows that are added to tokens."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .fourier import FourierFeatures as FourierFeatures
    from .fourier import RandomFourierFeatures as RandomFourierFeatures
    from .grid_sinusoidal import GridSinusoidal as GridSinusoidal
    from .integer import Binary as Binary
    from .integer import Integer as Integer
    from .integer import Normalized as Normalized
    from .learned import Learned as Learned
    from .learned import LearnedSinusoidal as LearnedSinusoidal
    from .sinusoidal import Sine as Sine
    from .sinusoidal import Sinusoidal as Sinusoidal
    from .timestep import Timestep as Timestep
else:
    from ..._lazy import attach

    __getattr__, __dir__, __all__ = attach(
        __name__,
        {
            "fourier": "FourierFeatures RandomFourierFeatures",
            "grid_sinusoidal": "GridSinusoidal",
            "integer": "Binary Integer Normalized",
            "learned": "Learned LearnedSinusoidal",
            "sinusoidal": "Sine Sinusoidal",
            "timestep": "Timestep",
        },
    )
