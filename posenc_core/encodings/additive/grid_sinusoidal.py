"""Sinusoids of images and videos: some of the columns encode the position on each axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from ..._array_api.checks import WIDEST, check_integer, check_known, check_number, shown
from ...tables import frequencies as f
from .base import Series, SinusoidalColumns

GridConvention: TypeAlias = Literal["timm", "timm_interleaved", "mae", "diffusers", "tatp22"]

_DIVISORS = {"timm": 4, "timm_interleaved": 4, "mae": 4, "diffusers": 16, "tatp22": 1}
_AXES = {"timm": (2,), "timm_interleaved": (2,), "mae": (2,), "diffusers": (3,), "tatp22": (1, 2, 3)}


@dataclass(frozen=True, kw_only=True, repr=False)
class GridSinusoidal(SinusoidalColumns):
    """`Sinusoidal` for grids of two or three axes: each column is a sine or cosine of the position on one of them.

    Positions are `(axes, length)` or `(axes, batch, length)`, as returned by `grid`: height and width, or time, height
    and width. They may be real: where diffusers has a `base_size` and an `interpolation_scale`, they are
    `grid(h, w) * base_size / np.array([[h], [w]]) / interpolation_scale`, and for videos `grid(t, h, w)` divided by the
    scales of its axes. Do not pass prefix tokens, which have a row of zeros in the models.

    Args:
        dim: number of columns.
        convention: the order of the columns; each axis has the frequencies `base ** (-2i / d)` of its own d columns:

            * `"timm"`: the sines of height and width, then the cosines. `build_sincos2d_pos_embed` of timm; its
              `reverse_coord=True` corresponds to a grid with exchanged axes.
            * `"timm_interleaved"`: sines and cosines of the height, then those of the width; timm's
              `interleave_sin_cos=True`.
            * `"mae"`: sines and cosines of the width, then those of the height. MAE, DiT, diffusers.
            * `"diffusers"`: sines and cosines of the time (a quarter of all columns), of the width, and of the height.
              `get_3d_sincos_pos_embed` of diffusers, CogVideoX.
            * `"tatp22"`: sin, cos, sin, cos, … of the first axis, then of the next; the axes have equal shares,
              rounded up to even numbers, and columns past `dim` are left out. The package positional-encodings.
        num_axes: number of axes, 2; for `"diffusers"` 3; for `"tatp22"` 1, 2 or 3.
        base: the geometric base of the frequencies.
    Raises:
        ValueError: if the convention does not allow this `dim` or number of axes.
    Source: He et al. 2021 (arXiv:2111.06377) and Yang et al. 2024 (arXiv:2408.06072), with their code.

    >>> from posenc_core import grid
    >>> GridSinusoidal(dim=4, convention="mae").table(grid(1, 2))
    array([[0.        , 1.        , 0.        , 1.        ],
           [0.84147096, 0.5403023 , 0.        , 1.        ]], dtype=float32)
    """

    convention: GridConvention
    num_axes: int = 2
    base: float = 10000

    def __post_init__(self) -> None:
        super().__post_init__()
        check_known("convention", self.convention, tuple(_AXES))
        check_integer("num_axes", self.num_axes, maximum=WIDEST)
        check_number("base", self.base, above=1)
        divisor, axes = _DIVISORS[self.convention], _AXES[self.convention]
        if self.num_axes not in axes:
            wanted = " or ".join(map(str, axes))
            raise ValueError(f"`num_axes` must be {wanted} for {shown(self.convention)}, got {shown(self.num_axes)}.")
        if self.dim % divisor:
            nearest = -(-self.dim // divisor) * divisor
            raise ValueError(
                f"`dim` must be divisible by {divisor} for {shown(self.convention)}, got {self.dim}; take {nearest}."
            )

    def _series(self) -> tuple[Series, ...]:
        if self.convention == "tatp22":
            width = 2 * -(-self.dim // (2 * self.num_axes))
            return tuple(self._interleaved(axis, width) for axis in range(self.num_axes))
        if self.convention == "timm":
            return self._blocks(0, 0, 2), self._blocks(1, 1, 3)
        if self.convention == "timm_interleaved":
            return self._blocks(0, 0, 1), self._blocks(1, 2, 3)
        if self.convention == "mae":
            return self._blocks(0, 2, 3), self._blocks(1, 0, 1)
        eighth, rest = self.dim // 8, self.dim // 4
        time = Series(f.geometric(rest, base=self.base), sin=slice(eighth), cos=slice(eighth, rest))
        return time, self._blocks(1, 2, 3, first=rest), self._blocks(2, 0, 1, first=rest)

    def _interleaved(self, axis: int, width: int) -> Series:
        begin, end = axis * width, min((axis + 1) * width, self.dim)
        return Series(
            f.geometric(width, base=self.base), sin=slice(begin, end, 2), cos=slice(begin + 1, end, 2), axis=axis
        )

    def _blocks(self, axis: int, sin: int, cos: int, first: int = 0) -> Series:
        """Return sines and cosines in blocks of a quarter of the columns past the `first`."""
        size = (self.dim - first) // 4
        sin, cos = first + sin * size, first + cos * size
        series = f.geometric(2 * size, base=self.base)
        return Series(series, sin=slice(sin, sin + size), cos=slice(cos, cos + size), axis=axis)
