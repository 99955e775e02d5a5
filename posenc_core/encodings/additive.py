"""The additive encodings, from the simplest to the one of the paper."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from .. import frequencies as f
from .._checks import check_integer, check_known, check_number
from .._exact import Frequencies
from ..positions import LIMIT
from ..tables import write_cos_sin
from .encoding import Additive, Tables

Table = npt.NDArray[np.float32]

BIT_ORDERS = ("most_significant_first", "least_significant_first")
SPACINGS = ("powers_of_two", "endpoint")
CONVENTIONS = ("interleaved", "concatenated", "tensor2tensor", "timestep", "column_index")


@dataclass(frozen=True, kw_only=True, repr=False)
class Integer(Additive):
    """Every column is the position itself. Grows without bound.

    >>> Integer(dim=2).table([0, 1, 2])
    array([[0., 0.],
           [1., 1.],
           [2., 2.]], dtype=float32)
    """

    def rows(self, positions: Any) -> Tables:
        return {"table": _repeated(self._known(positions), self.dim)}


@dataclass(frozen=True, kw_only=True, repr=False)
class Normalized(Additive):
    """Every column is position / `length`, from 0 up to but not including 1. Steps shrink as `length` grows.

    Raises:
        ValueError: if a position is negative or not below `length`.

    >>> Normalized(dim=1, length=4).table([0, 1, 3])
    array([[0.  ],
           [0.25],
           [0.75]], dtype=float32)
    """

    length: int

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("length", self.length)

    @property
    def limit(self) -> int:
        return self.length

    def rows(self, positions: Any) -> Tables:
        return {"table": _repeated(self._known(positions, minimum=0) / self.length, self.dim)}


@dataclass(frozen=True, kw_only=True, repr=False)
class Binary(Additive):
    """The binary digits of position + `start`. Neighbours can lie far apart, and `2**dim` codes are all there are.

    Args:
        dim: number of digits.
        start: the number that position 0 stands for.
        bit_order: `"most_significant_first"` or `"least_significant_first"`.
    Raises:
        ValueError: if a position is negative, or needs more than `dim` digits.

    >>> Binary(dim=3, start=1).table([0, 1, 2, 3])
    array([[0., 0., 1.],
           [0., 1., 0.],
           [0., 1., 1.],
           [1., 0., 0.]], dtype=float32)
    """

    start: int = 0
    bit_order: Literal["most_significant_first", "least_significant_first"] = "most_significant_first"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("start", self.start, minimum=0)
        if self.start >= min(2**self.dim, LIMIT):
            raise ValueError(f"`start` must be below 2**{min(self.dim, 31)} for {self.dim} digits, got {self.start}.")
        check_known("bit_order", self.bit_order, BIT_ORDERS)

    @property
    def limit(self) -> int:
        return min(2**self.dim - self.start, super().limit)

    def rows(self, positions: Any) -> Tables:
        numbers = self._known(positions, minimum=0) + self.start
        if numbers.dtype.kind == "f":
            raise TypeError("`positions` of Binary must be integers, got real numbers.")
        places = np.minimum(np.arange(self.dim), 62)  # where all these numbers have a zero
        if self.bit_order == "most_significant_first":
            places = places[::-1]
        return {"table": (numbers[..., None] >> places & 1).astype(np.float32)}


@dataclass(frozen=True, kw_only=True, repr=False)
class Sine(Additive):
    """The sine of position × frequency, in every column. Bounded and smooth; no linear map leads from row to row.

    Args:
        dim: number of columns.
        frequencies: radians per position: `"powers_of_two"` (1, 1/2, 1/4, …), `"endpoint"` (from 1 to exactly
            1 / `base`, evenly in the exponent), or numbers, one per column.
        base: for `"endpoint"`.

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
            raise TypeError(f"`frequencies` must be a tuple of numbers or a word, got {self.frequencies!r}.")
        elif len(self.frequencies) != self.dim:
            raise ValueError(
                f"`frequencies` must be a tuple of {self.dim} numbers, one for each column, got {self.frequencies!r}."
            )
        if self.frequencies == "endpoint":
            object.__setattr__(self, "base", 10000 if self.base is None else self.base)
            check_number("base", self.base, above=1)
        elif self.base is not None:
            raise ValueError(f"`base` is used with 'endpoint' frequencies only, got {self.base!r}; leave it out.")
        self._frequencies()

    def _frequencies(self) -> Frequencies:
        if self.frequencies == "powers_of_two":
            return f.powers_of_two(self.dim)
        if isinstance(self.frequencies, tuple):
            return f.chosen(self.frequencies)
        return f.endpoint(self.dim, base=self.base or 10000)

    def rows(self, positions: Any) -> Tables:
        known = self._known(positions)
        table = np.empty((known.size, self.dim), np.float32)
        write_cos_sin(known.ravel(), self._frequencies(), sin=table)
        return {"table": table.reshape(*known.shape, self.dim)}


@dataclass(frozen=True, kw_only=True, repr=False)
class Sinusoidal(Additive):
    """Sine and cosine of position × frequency, from fast columns to slow ones. A rotation leads from row to row.

    Args:
        dim: number of columns.
        base: the slowest wavelength is about 2π × `base` positions.
        convention: how the columns stand, and where the frequencies end; with h = dim // 2:

            * `"interleaved"`: sin, cos, sin, cos, …, frequencies `base ** (-2i / dim)`; an odd `dim` ends in a sine.
              Vaswani et al. 2017, section 3.5; d2l.
            * `"concatenated"`: the same numbers, all sines first. Marian, Pegasus, RoFormer.
            * `"tensor2tensor"`: all sines first, frequencies `base ** (-i / (h - 1))`; an odd `dim` ends in zeros.
              tensor2tensor, fairseq, DDPM.
            * `"timestep"`: all cosines first, frequencies `base ** (-i / h)`; an odd `dim` ends in zeros. Improved
              DDPM, DiT, diffusers with `flip_sin_to_cos=True, downscale_freq_shift=0`.
            * `"column_index"`: as `"interleaved"`, but column j, not pair i, sets the frequency `base ** (-2j / dim)`, and
              the row of position 0 is all zeros. A widespread slip in tutorials, kept for those who must read it.
    Raises:
        ValueError: if the convention is unknown, `base` not above 1, or `dim` too small for the convention.

    >>> Sinusoidal(dim=2).table([0, 2**20])
    array([[0.        , 1.        ],
           [0.33049315, 0.9438084 ]], dtype=float32)
    """

    base: float = 10000
    convention: Literal["interleaved", "concatenated", "tensor2tensor", "timestep", "column_index"] = "interleaved"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("base", self.base, above=1)
        check_known("convention", self.convention, CONVENTIONS)
        check_integer("dim", self.dim, minimum=2 if self.convention in ("tensor2tensor", "timestep") else 1)

    def rows(self, positions: Any) -> Tables:
        known = self._known(positions)
        table = np.zeros((known.size, self.dim), np.float32)
        self._write(known.ravel(), table)
        return {"table": table.reshape(*known.shape, self.dim)}

    def _write(self, positions: npt.NDArray[Any], table: Table) -> None:
        half, more = self.dim // 2, (self.dim + 1) // 2
        if self.convention == "interleaved":
            pairs = f.geometric(self.dim, base=self.base)
            write_cos_sin(positions, pairs, sin=table[:, 0::2], cos=table[:, 1::2])
        elif self.convention == "concatenated":
            pairs = f.geometric(self.dim, base=self.base)
            write_cos_sin(positions, pairs, sin=table[:, :more], cos=table[:, more:])
        elif self.convention == "tensor2tensor":
            pairs = f.endpoint(half, base=self.base)
            write_cos_sin(positions, pairs, sin=table[:, :half], cos=table[:, half : 2 * half])
        elif self.convention == "timestep":
            pairs = f.geometric(2 * half, base=self.base)
            write_cos_sin(positions, pairs, cos=table[:, :half], sin=table[:, half : 2 * half])
        else:
            columns = f.geometric(self.dim, base=self.base, count=self.dim)
            write_cos_sin(positions, columns[0::2], sin=table[:, 0::2])
            write_cos_sin(positions, columns[1::2], cos=table[:, 1::2])
            table[positions == 0] = 0


def _repeated(column: npt.NDArray[Any], dim: int) -> Table:
    return np.repeat(column[..., None].astype(np.float32), dim, axis=-1)
