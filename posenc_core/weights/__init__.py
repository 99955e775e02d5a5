"""Convert weights: other layouts, cached keys at other positions, tables of other sizes."""

from .rotary import Positions, relayout, rerotate

__all__ = ["Positions", "relayout", "rerotate"]
