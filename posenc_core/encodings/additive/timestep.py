"""The additive encoding of diffusion steps."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Literal, TypeAlias

from ..._array_api.checks import check_integer, check_known, check_number, shown
from ...tables import frequencies as f
from ...tables._fixed_point import high_precision
from .base import Series, SinusoidalColumns

Order: TypeAlias = Literal["sin_first", "cos_first"]
ORDERS = ("sin_first", "cos_first")


@dataclass(frozen=True, kw_only=True, repr=False)
class Timestep(SinusoidalColumns):
    """Sine and cosine of time × frequency, all sines before all cosines or the reverse; an odd `dim` ends in zeros.

    With h = dim // 2, the frequencies are `scale * base ** (-i / (h - shift))`, radians per unit of time; one alone is
    `scale`. Times are integers or real numbers. `Sinusoidal` has two of the settings: its convention `"tensor2tensor"`
    is `shift=1`, and `"timestep"` is `order="cos_first"`.

    Args:
        dim: number of columns.
        base: the base of the frequencies; `max_period` in other libraries.
        order: `"sin_first"`, or `"cos_first"`, which is `flip_sin_to_cos=True` in diffusers.
        shift: `downscale_freq_shift` in diffusers, whose default is 1.
        scale: multiplies the times.
    Raises:
        ValueError: if `dim` is below 2, `base` not above 1, `scale` not between 0 and 2**31, or `shift` not below h;
            with h = 1, a shift of 1 is allowed and has no effect.
    Source: Ho et al. 2020 (arXiv:2006.11239), appendix B; `get_timestep_embedding` of diffusers has all the options.

    >>> Timestep(dim=4, order="cos_first").table([0, 1])
    array([[1.        , 1.        , 0.        , 0.        ],
           [0.5403023 , 0.99995   , 0.84147096, 0.00999983]], dtype=float32)
    """

    base: float = 10000
    order: Order = "sin_first"
    shift: float = 0
    scale: float = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("dim", self.dim, minimum=2)
        check_number("base", self.base, above=1)
        check_known("order", self.order, ORDERS)
        check_number("shift", self.shift)
        check_scale(self.scale)
        half = self.dim // 2
        if self.shift >= half and not self.shift == half == 1:
            raise ValueError(f"`shift` must be below `dim // 2`, which is {half}, got {shown(self.shift)}.")

    def _series(self) -> tuple[Series, ...]:
        half = self.dim // 2
        first, second = slice(half), slice(half, 2 * half)
        sin, cos = (first, second) if self.order == "sin_first" else (second, first)
        spans = half - Fraction(self.shift) if half > 1 else Fraction(1)
        plain = f.spaced(half, spans=spans, base=self.base)
        with high_precision():
            return (Series(tuple(frequency * Decimal(self.scale) for frequency in plain), sin=sin, cos=cos),)


def check_scale(scale: object) -> None:
    """Raise unless `scale` is a positive number whose angles float64 can hold."""
    check_number("scale", scale, above=0)
    if scale >= 2**31:  # type: ignore[operator]
        raise ValueError(f"`scale` must be below 2**31, got {shown(scale)}.")
