"""The additive encodings of sequences whose columns are sines and cosines, up to the one of the paper."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from ..._array_api.checks import check_integer, check_known, check_number, shown
from ..._array_api.namespace import Array, namespace_of
from ...tables import frequencies as f
from ...tables._fixed_point import Frequencies
from ...tables.sincos import DType
from ..base import Tables
from .base import Series, SinusoidalColumns

SPACINGS = ("powers_of_two", "endpoint")
MOST_HALVINGS = 150  # from 1 down to 2 ** -149, the smallest float32
SinusoidConvention: TypeAlias = Literal["interleaved", "concatenated", "tensor2tensor", "timestep", "column_index"]
CONVENTIONS = get_args(SinusoidConvention)


@dataclass(frozen=True, kw_only=True, repr=False)
class Sine(SinusoidalColumns):
    """The sine of position × frequency, in every column: bounded, smooth, but no linear map takes each row to the next.

    Args:
        dim: number of columns.
        frequencies: radians per position: `"powers_of_two"` (1, 1/2, 1/4, …), `"endpoint"` (from 1 to exactly
            1 / `base`, evenly in the exponent), or numbers, one per column.
        base: for `"endpoint"`.
    Raises:
        ValueError: if frequencies, `dim` and `base` do not match; powers of two allow at most 150 columns.

    >>> Sine(dim=2, frequencies="powers_of_two").table([0, 1])
    array([[0.        , 0.        ],
           [0.84147096, 0.47942555]], dtype=float32)
    """

    frequencies: Literal["powers_of_two", "endpoint"] | tuple[float, ...]
    base: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.frequencies, str):
            check_known("frequencies", self.frequencies, SPACINGS)
        elif not isinstance(self.frequencies, tuple):
            raise TypeError(f"`frequencies` must be a tuple of numbers or a word, got {shown(self.frequencies)}.")
        elif len(self.frequencies) != self.dim:
            raise ValueError(
                f"`frequencies` must be {self.dim} numbers, one for each column, got {shown(self.frequencies)}."
            )
        if self.frequencies == "endpoint":
            object.__setattr__(self, "base", 10000 if self.base is None else self.base)
            check_number("base", self.base, above=1)
        elif self.base is not None:
            raise ValueError(f"`base` is used with 'endpoint' frequencies only, got {shown(self.base)}; leave it out.")
        if self.frequencies == "powers_of_two" and self.dim > MOST_HALVINGS:
            raise ValueError(
                f"`dim` must be at most {MOST_HALVINGS} with 'powers_of_two' frequencies, got {self.dim}; "
                "float32 has none lower."
            )
        self._frequencies()

    def _series(self) -> tuple[Series, ...]:
        return (Series(self._frequencies(), sin=slice(None)),)

    def _frequencies(self) -> Frequencies:
        if self.frequencies == "powers_of_two":
            return f.powers_of_two(self.dim)
        if isinstance(self.frequencies, tuple):
            return f.chosen(self.frequencies)
        return f.endpoint(self.dim, base=self.base or 10000)


@dataclass(frozen=True, kw_only=True, repr=False)
class Sinusoidal(SinusoidalColumns):
    """Sine and cosine of position × frequency, from fast to slow columns; a rotation takes each row to the next.

    Args:
        dim: number of columns.
        base: the slowest wavelength is about 2π × `base` positions.
        convention: the order of the columns, and the last frequency; with h = dim // 2:

            * `"interleaved"`: sin, cos, sin, cos, …, frequencies `base ** (-2i / dim)`; an odd `dim` ends in a sine.
              Vaswani et al. 2017, section 3.5; d2l.
            * `"concatenated"`: the same numbers, all sines first. Marian, Pegasus, RoFormer.
            * `"tensor2tensor"`: all sines first, frequencies `base ** (-i / (h - 1))`; an odd `dim` ends in zeros.
              tensor2tensor, fairseq, DDPM.
            * `"timestep"`: all cosines first, frequencies `base ** (-i / h)`; an odd `dim` ends in zeros. Improved
              DDPM, DiT, diffusers with `flip_sin_to_cos=True, downscale_freq_shift=0`.
            * `"column_index"`: as `"interleaved"`, but column j, not pair i, sets the frequency `base ** (-2j / dim)`,
              and the row of position 0 is all zeros. A common mistake in tutorials, kept to reproduce their models.
    Raises:
        ValueError: if the convention is unknown, `base` not above 1, or `dim` too small for the convention.

    >>> Sinusoidal(dim=2).table([0, 2**20])
    array([[0.        , 1.        ],
           [0.33049315, 0.9438084 ]], dtype=float32)
    """

    base: float = 10000
    convention: SinusoidConvention = "interleaved"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("base", self.base, above=1)
        check_known("convention", self.convention, CONVENTIONS)
        check_integer("dim", self.dim, minimum=2 if self.convention in ("tensor2tensor", "timestep") else 1)

    def rows(self, positions: Any, dtype: DType = np.float32) -> Tables:
        return self._without_zero(positions, super().rows(positions, dtype))

    def derivatives(self, positions: Any) -> Tables:
        return self._without_zero(positions, super().derivatives(positions))

    def traced_rows(self, positions: Array) -> tuple[Array, ...]:
        (rows,) = super().traced_rows(positions)
        if self.convention != "column_index":
            return (rows,)
        xp = namespace_of(rows)
        elsewhere = xp.expand_dims(xp.abs(positions) > 0, axis=-1)
        return (xp.where(elsewhere, rows, xp.zeros_like(rows)),)

    def _without_zero(self, positions: Any, tables: Tables) -> Tables:
        if self.convention == "column_index":
            tables["table"][np.asarray(positions) == 0] = 0
        return tables

    def _series(self) -> tuple[Series, ...]:
        half, more = self.dim // 2, (self.dim + 1) // 2
        if self.convention == "interleaved":
            return (Series(f.geometric(self.dim, base=self.base), sin=slice(0, None, 2), cos=slice(1, None, 2)),)
        if self.convention == "concatenated":
            return (Series(f.geometric(self.dim, base=self.base), sin=slice(more), cos=slice(more, None)),)
        if self.convention == "column_index":
            columns = f.geometric(self.dim, base=self.base, count=self.dim)
            return Series(columns[0::2], sin=slice(0, None, 2)), Series(columns[1::2], cos=slice(1, None, 2))
        first, second = slice(half), slice(half, 2 * half)
        if self.convention == "tensor2tensor":
            return (Series(f.endpoint(half, base=self.base), sin=first, cos=second),)
        return (Series(f.geometric(2 * half, base=self.base), cos=first, sin=second),)
