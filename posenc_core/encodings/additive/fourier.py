"""Fourier features: sines and cosines of coordinates, with doubling or random frequencies."""

from __future__ import annotations

from dataclasses import InitVar, dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from ..._array_api.checks import WIDEST, check_even, check_integer, check_known, check_numbers, host_array, shown
from ..._array_api.namespace import Array, namespace_of
from ...tables._fixed_point import TWO_PI, VALUE_BITS, Float64s, Frequencies, exact_cos_sin, high_precision
from ...tables.angles import angles_of
from ...tables.multi_axis import cos_sin_of_sums
from ...tables.sincos import DType
from ..base import Tables
from .base import Additive, Series, SinusoidalColumns
from .timestep import ORDERS, Order, check_scale

FourierConvention: TypeAlias = Literal["paper", "code"]


@dataclass(frozen=True, kw_only=True, repr=False)
class FourierFeatures(SinusoidalColumns):
    """Sines and cosines of real coordinates, each frequency twice the previous one (NeRF).

    There are L = dim / (2 × `num_axes`) frequencies for each coordinate. Entries are correctly rounded. For traced
    positions, the framework computes them instead, with errors of up to position × frequency × 2**-23.

    Args:
        dim: number of columns, 2 × L × `num_axes`.
        num_axes: number of coordinates; positions are `(axes, length)` or `(axes, batch, length)`, `(length,)` for one.
        convention: the order of the columns, and the unit:

            * `"paper"`: sin, cos, sin, cos, … of the first coordinate, then of the next; frequencies `2**k * π`.
            * `"code"`: the sines of all coordinates, then their cosines, then those of the next frequency; frequencies
              `2**k`. As in the authors' code, which also prepends the coordinates; use `combine="concat"` for that.
    Raises:
        ValueError: if `dim` is not a multiple of 2 × `num_axes`, or L is more than 64.
    Source: Mildenhall et al. 2020, equation 4 (arXiv:2003.08934).

    >>> FourierFeatures(dim=4).table([0.0, 0.25])
    array([[0.        , 1.        , 0.        , 1.        ],
           [0.70710677, 0.70710677, 1.        , 0.        ]], dtype=float32)
    """

    num_axes: int = 1
    convention: FourierConvention = "paper"

    uses_coordinates: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("num_axes", self.num_axes, maximum=WIDEST)
        check_known("convention", self.convention, ("paper", "code"))
        if self.dim % (2 * self.num_axes):
            raise ValueError(
                f"`dim` must be a multiple of {2 * self.num_axes}, a sine and a cosine for each of {self.num_axes} "
                f"axes, got {self.dim}."
            )
        if self.dim > 128 * self.num_axes:
            raise ValueError(
                f"`dim` must be at most {128 * self.num_axes}, 64 frequencies that double for each axis, "
                f"got {self.dim}."
            )

    def _series(self) -> tuple[Series, ...]:
        count, step = self.dim // (2 * self.num_axes), 2 * self.num_axes
        with high_precision():
            unit = TWO_PI / 2 if self.convention == "paper" else Decimal(1)
            doubled = tuple(unit * 2**k for k in range(count))
        if self.convention == "code":
            return tuple(
                Series(doubled, sin=slice(axis, None, step), cos=slice(self.num_axes + axis, None, step), axis=axis)
                for axis in range(self.num_axes)
            )
        blocks = [(2 * count * axis, 2 * count * (axis + 1)) for axis in range(self.num_axes)]
        return tuple(
            Series(doubled, sin=slice(begin, end, 2), cos=slice(begin + 1, end, 2), axis=axis)
            for axis, (begin, end) in enumerate(blocks)
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class _Arguments(Additive):
    """The arguments of `RandomFourierFeatures`, one of which has the name of a method."""

    scale: float | None = None
    seed: int | None = None
    num_axes: int = 1
    order: Order = "cos_first"
    mixture: InitVar[npt.ArrayLike | None] = None


@dataclass(frozen=True, kw_only=True, repr=False)
class RandomFourierFeatures(_Arguments):
    """Cosines and sines of random mixtures of real coordinates: `cos(2π B p)` and `sin(2π B p)`.

    The numbers of B are normally distributed and follow from `seed` alone, the same on every machine, in every version:
    they are computed from uniform numbers of NumPy's `RandomState`, whose stream is frozen, with 110 digits and rounded
    once to float64. Entries are correctly rounded, however many axes they mix.

    Args:
        dim: number of columns, even.
        scale: standard deviation of the numbers of B, turns per unit of position.
        seed: the seed of B, from 0 to 2**32 - 1.
        mixture: B itself, `(dim / 2, num_axes)`, in place of `scale` and `seed`: that of a checkpoint, in SAM the
            transposed `positional_encoding_gaussian_matrix`, with `order="sin_first"` and coordinates from -1 to 1.
        num_axes: number of coordinates; positions are `(axes, length)` or `(axes, batch, length)`, `(length,)` for one.
        order: `"cos_first"` as in the paper, or `"sin_first"`.
    Raises:
        TypeError: if `scale` or `seed` is missing, or `mixture` is not an array of numbers.
        ValueError: if `dim` is odd, `scale` or `seed` out of range or given beside `mixture`, or `mixture` has another
            shape or numbers that are not finite or 2**31 or more in size.
    Source: Tancik et al. 2020, section 5 (arXiv:2006.10739); Box and Muller 1958 for the normal numbers.

    >>> RandomFourierFeatures(dim=4, scale=1.0, seed=0, num_axes=2).table([[0.0, 0.5], [0.0, 0.25]])
    array([[ 1.       ,  1.       ,  0.       ,  0.       ],
           [-0.9733411,  0.7671929, -0.2293623, -0.6414165]], dtype=float32)
    """

    own: tuple[tuple[float, ...], ...] | None = field(default=None, init=False)

    uses_coordinates: ClassVar[bool] = True

    def __post_init__(self, mixture: Any) -> None:
        super().__post_init__()
        check_even("dim", self.dim)
        check_integer("num_axes", self.num_axes, maximum=WIDEST)
        check_known("order", self.order, ORDERS)
        if callable(mixture):  # the method of an instance, which `replace` passes
            mixture = getattr(getattr(mixture, "__self__", None), "own", None)
        if mixture is not None:
            object.__setattr__(self, "own", self._checked(mixture))
            return
        check_scale(self.scale)
        if check_integer("seed", self.seed, minimum=0) >= 2**32:
            raise ValueError(f"`seed` must be below 2**32, got {shown(self.seed)}.")

    def _checked(self, mixture: Any) -> tuple[tuple[float, ...], ...]:
        """Return the numbers of a given B."""
        for name, value in (("scale", self.scale), ("seed", self.seed)):
            if value is not None:
                raise ValueError(f"`{name}` must be left out where `mixture` is given, got {shown(value)}.")
        matrix, wanted = host_array("mixture", mixture), (self.dim // 2, self.num_axes)
        check_numbers("mixture", matrix)
        if matrix.shape != wanted:
            raise ValueError(f"`mixture` must have shape (dim / 2, num_axes), {wanted}, got {matrix.shape}.")
        numbers = matrix.astype(np.float64)
        if not (np.abs(numbers) < 2**31).all():
            raise ValueError(f"`mixture` must be finite and below 2**31 in size, got {shown(mixture)}.")
        return tuple(map(tuple, numbers.tolist()))

    def _arguments(self) -> dict[str, Any]:
        arguments = super()._arguments()
        return arguments if self.own is None else arguments | {"mixture": self.own}

    def mixture(self) -> Float64s:  # type: ignore[misc]
        """B, turns per unit of position, float64, shape `(dim / 2, num_axes)`."""
        return self._matrix()

    def _matrix(self) -> Float64s:
        return np.array(self._drawn if self.own is None else self.own).reshape(-1, self.num_axes)

    @cached_property
    def _drawn(self) -> tuple[float, ...]:
        uniform = np.random.RandomState(self.seed).random_sample((self.dim // 2, self.num_axes, 2))
        drawn = [_normal(radius, turn) for radius, turn in uniform.reshape(-1, 2).tolist()]
        with high_precision():
            return tuple(float(each * Decimal(self.scale or 0)) for each in drawn)

    @property
    def table_names(self) -> tuple[str, ...]:  # type: ignore[override]
        return () if self.mixes_axes else ("table",)

    @property
    def mixes_axes(self) -> bool:
        return self.num_axes > 1

    def constants(self, max_len: int) -> Tables:
        return {"mixture": self._matrix().astype(np.float32)} if self.mixes_axes else super().constants(max_len)

    def rows(self, positions: Any, dtype: DType = np.float32) -> Tables:
        return {"table": self._ordered(*cos_sin_of_sums(self._by_axis(positions), self._matrix().T, dtype=dtype))}

    def derivatives(self, positions: Any) -> Tables:
        known, mixture = self._by_axis(positions), self._matrix()
        tables = []
        for axis in range(self.num_axes):
            factors = _radians(mixture[:, axis])
            cos, sin = cos_sin_of_sums(known, mixture.T, factors=factors)
            tables.append(self._ordered(-sin, cos))
        return {"table": np.stack(tables) if self.mixes_axes else tables[0]}

    def angular_frequencies(self) -> npt.NDArray[np.float64]:
        radians = np.tile(self._matrix().T * (2 * np.pi), 2)
        return radians if self.mixes_axes else radians[0]

    def traced_rows(self, *positions: Array) -> tuple[Array, ...]:
        radians = self._matrix() * (2 * np.pi)
        angles = angles_of(positions[0], radians[:, 0])
        for axis, others in enumerate(positions[1:], start=1):
            angles = angles + angles_of(others, radians[:, axis])
        xp = namespace_of(angles)
        cos, sin = xp.cos(angles), xp.sin(angles)
        return (xp.concat([cos, sin] if self.order == "cos_first" else [sin, cos], axis=-1),)

    def _by_axis(self, positions: Any) -> npt.NDArray[Any]:
        known = self._known(positions)
        if self.num_axes > 1 and (known.ndim == 1 or len(known) != self.num_axes):
            raise ValueError(f"`positions` must have shape ({self.num_axes}, ..., length), got {known.shape}.")
        return known if self.num_axes > 1 else known[None]

    def _ordered(self, cos: npt.NDArray[np.float32], sin: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        return np.concatenate([cos, sin] if self.order == "cos_first" else [sin, cos], axis=-1)


def _radians(turns: Float64s) -> Frequencies:
    with high_precision():
        return tuple(Decimal(turn) * TWO_PI for turn in turns.tolist())


def _normal(radius: float, turn: float) -> Decimal:
    """Return a normally distributed number, made from two that are uniform from 0 up to but not including 1."""
    cos, _ = exact_cos_sin(turn, 2**256)
    with high_precision():
        return (-2 * (1 - Decimal(radius)).ln()).sqrt() * cos / 2**VALUE_BITS
