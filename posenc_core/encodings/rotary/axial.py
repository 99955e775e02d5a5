"""The rotary encoding of grids: images, videos, volumes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

from ..._array_api.checks import check_even, check_integer, check_known, check_number, shown
from ...rotation import pairing_of
from ...scaling import Scaling
from ...tables._fixed_point import TWO_PI, Frequencies, high_precision
from ...tables.frequencies import geometric
from .base import RotaryEncoding

if TYPE_CHECKING:
    from typing import Self

Arrangement: TypeAlias = Literal["concat", "alternating", "blocks"]
Series: TypeAlias = Literal["own", "dealt"]
Unit: TypeAlias = Literal["radian", "turn"]
LAST_AXIS = 63


@dataclass(frozen=True, kw_only=True, repr=False)
class AxialRotary(RotaryEncoding):
    """Rotary encoding of images, videos and volumes: each pair is rotated by the position on one of the axes.

    Positions are `(axes, length)` or `(axes, batch, length)`, as returned by `grid`.

    Args:
        axes_dims: the number of channels that each axis rotates; the remaining channels of the head do not rotate.
        base: the geometric base of the frequencies, one for all axes or one per axis.
        arrangement: `"concat"`, the pairs of one axis after those of the other; `"alternating"`, one pair of each axis
            in turn; `"blocks"`, as concat, but the channels of an axis are a block with a layout of its own (Gemma 4
            vision); or the axis of each pair, from 0, such as `(0, 0, 1, 0)` for `axes_dims=(6, 2)`.
        series: `"own"`: each axis has the frequencies `base ** (-2i / axes_dims)`; `"dealt"`: the axes take the
            frequencies of all channels together in turn (Pixtral).
        unit: of positions: a `"radian"`, or a `"turn"` of 2π radians, for coordinates from -1 to 1 (DINOv3).
        scaling: a rule that changes the frequencies for larger images or longer videos, one for all axes or one per
            axis, None where an axis keeps its own: `(None, YaRN(…), YaRN(…))`. It takes the frequencies and the base of
            its axis alone; with `"dealt"`, those of all axes together.
    Raises:
        TypeError, ValueError: if a number of channels is odd, their sum exceeds `head_dim`, axes that alternate have
            different sizes, the arrangement has not one axis for each pair, in the numbers of `axes_dims`, or a scaling
            does not fit its axis or depends on the length of the sequence.
    Source: Heo et al. 2024 (arXiv:2403.13298); the arrangements as in the models named.

    >>> AxialRotary(head_dim=8, layout="half", axes_dims=(4, 4)).frequencies()
    array([1.  , 0.01, 1.  , 0.01])
    """

    axes_dims: tuple[int, ...]
    base: float | tuple[float, ...] = 10000
    arrangement: Arrangement | tuple[int, ...] = "concat"
    series: Series = "own"
    unit: Unit = "radian"
    scaling: Scaling | tuple[Scaling | None, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.arrangement, tuple):
            check_known("arrangement", self.arrangement, ("concat", "alternating", "blocks"))
        check_known("series", self.series, ("own", "dealt"))
        check_known("unit", self.unit, ("radian", "turn"))
        if not isinstance(self.axes_dims, tuple):
            raise TypeError(f"`axes_dims` must be a list of numbers of channels, got {shown(self.axes_dims)}.")
        for channels in self.axes_dims:
            check_even("axes_dims", channels)
        if not self.axes_dims or self.rotary_channels > self.head_dim:
            raise ValueError(
                f"`axes_dims` must add up to at most `head_dim` {self.head_dim}, got {shown(self.axes_dims)}."
            )
        if len(self._bases()) != self.num_axes:
            raise ValueError(
                f"`base` must be one number, or one for each of {self.num_axes} axes, got {shown(self.base)}."
            )
        for base in self._bases():
            check_number("base", base, above=1)
        self._check_arrangement()
        self._check_alternating()
        self._check_scalings()
        self._set_pairing(pairing_of(self.layout, self.placement, self.num_axes if self.arrangement == "blocks" else 1))

    def _check_arrangement(self) -> None:
        """Raise unless the axes of pairs, if they are given, are as many as the channels of each axis."""
        if not isinstance(self.arrangement, tuple):
            return
        count_pairs(self.arrangement, self.pairs, "axes_dims / 2", tuple(channels // 2 for channels in self.axes_dims))
        if self.series == "dealt":
            raise ValueError(
                "`series` must be 'own' where `arrangement` is the axis of each pair, got 'dealt': MultimodalRotary "
                "gives pair k of such an arrangement frequency k."
            )

    def _check_alternating(self) -> None:
        """Raise unless axes that alternate have one size and one base."""
        alternating = self.arrangement in ("alternating", "blocks") or self.series == "dealt"
        if alternating and len(set(self.axes_dims)) > 1:
            raise ValueError(f"`axes_dims` must all be equal where axes take turns, got {shown(self.axes_dims)}.")
        if self.series == "dealt" and len(set(self._bases())) > 1:
            raise ValueError(f"`base` must be one number where axes take turns, got {shown(self.base)}.")
        if self.arrangement == "blocks" and self.layout == "interleaved_to_half":
            raise ValueError("`layout` must be 'half' or 'interleaved' where channels are in blocks.")

    def _check_scalings(self) -> None:
        """Raise unless there is one scaling, or one for each axis, that fits the pairs of the axis at any length."""
        scalings, is_dealt = self._scalings(), self.series == "dealt"
        for scaling in scalings:
            if not isinstance(scaling, Scaling | None):
                raise TypeError(f"`scaling` must be scalings or None, got {shown(self.scaling)}.")
        if len(scalings) != self.num_axes or (is_dealt and isinstance(self.scaling, tuple)):
            number = "one" if is_dealt else f"one, or one for each of {self.num_axes} axes"
            raise ValueError(f"`scaling` must be {number}, got {shown(self.scaling)}.")
        if any(scalings) and self.uses_coordinates:
            raise ValueError("`scaling` must be None where `unit` is 'turn': coordinates do not grow with the image.")
        for scaling, channels in zip(scalings, self.axes_dims, strict=True):
            pairs = self.pairs if is_dealt else channels // 2
            if scaling is None:
                continue
            scaling.check(pairs)
            if scaling.max_seq_len is not None or scaling.num_rotating_pairs(pairs) < pairs:
                raise ValueError(
                    "`scaling` of an axis must turn all of its pairs, whatever the number of tokens, got "
                    f"{shown(scaling)}; for the size of one image, pass NTK with its factor."
                )

    needs_positions: ClassVar[bool] = True

    @property
    def uses_coordinates(self) -> bool:  # type: ignore[override]
        return self.unit == "turn"

    @property
    def rotary_channels(self) -> int:
        return sum(self.axes_dims)

    @property
    def num_axes(self) -> int:
        return len(self.axes_dims)

    @property
    def axes(self) -> tuple[int, ...]:
        if isinstance(self.arrangement, tuple):
            return self.arrangement
        if self.arrangement == "alternating":
            return tuple(range(self.num_axes)) * (self.axes_dims[0] // 2)
        return tuple(axis for axis, channels in enumerate(self.axes_dims) for _ in range(channels // 2))

    def _bases(self) -> tuple[float, ...]:
        return self.base if isinstance(self.base, tuple) else (self.base,) * self.num_axes

    def _scalings(self) -> tuple[Scaling | None, ...]:
        return self.scaling if isinstance(self.scaling, tuple) else (self.scaling,) * self.num_axes

    def unscaled(self) -> Self:
        return replace(self, scaling=None)

    def _factors(self) -> Frequencies:
        factors = [Decimal(1) if scaling is None else scaling.exact_attention_factor() for scaling in self._scalings()]
        return tuple(factors) if len(set(factors)) > 1 else (factors[0],)

    def exact_frequencies(self) -> Frequencies:
        series = [iter(one) for one in self._series()]
        frequencies = tuple(next(series[axis]) for axis in self.axes)
        if self.unit == "radian":
            return frequencies
        with high_precision():
            return tuple(frequency * TWO_PI for frequency in frequencies)

    def _series(self) -> list[Frequencies]:
        """Return the frequencies of each axis, highest first."""
        axes = zip(self.axes_dims, self._bases(), self._scalings(), strict=True)
        if self.series == "own":
            return [_scaled(*axis) for axis in axes]
        _, base, scaling = next(axes)
        together = _scaled(self.rotary_channels, base, scaling)
        return [together[axis :: self.num_axes] for axis in range(self.num_axes)]


def _scaled(channels: int, base: float, scaling: Scaling | None) -> Frequencies:
    plain = geometric(channels, base=base)
    return plain if scaling is None else scaling.scaled_frequencies(plain, base=base)


def count_pairs(axes: tuple[int, ...], pairs: int, name: str, given: tuple[int, ...]) -> tuple[int, ...]:
    """Return the number of pairs of each axis.

    Args:
        axes: the axis of each pair, the argument `arrangement`.
        pairs: the number of pairs that rotate.
        name: the name of the argument with the number of pairs for each axis.
        given: that argument, in pairs; empty if it is left out.
    Raises:
        TypeError, ValueError: if there is not one axis for each pair, or `given` is not the number of pairs.
    """
    if len(axes) != pairs:
        raise ValueError(f"`arrangement` must be one axis for each of {pairs} pairs, got {len(axes)} axes.")
    for axis in axes:
        check_integer("arrangement", axis, minimum=0, maximum=LAST_AXIS)
    num_axes = max(max(axes) + 1, len(given))
    counts = tuple(axes.count(axis) for axis in range(num_axes))
    if given and given != counts:
        raise ValueError(
            f"`{name}` must be left out or be {shown(counts)}, the pairs of each axis in `arrangement`, "
            f"got {shown(given)}."
        )
    return counts
