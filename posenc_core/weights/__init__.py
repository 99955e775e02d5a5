"""Convert weights: other layouts, cached keys at other positions, tables of other sizes."""

from .rotary import Positions, fope_mixing, relayout, rerotate

__all__ = ["Positions", "fope_mixing", "relayout", "rerotate"]
