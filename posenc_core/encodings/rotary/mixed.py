"""Rotary encoding of grids by learned directions (RoPE-Mixed)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..._array_api.checks import WIDEST, check_integer, check_number
from ..._array_api.namespace import A, Array, Weights, beside, dtype_name, in_float32, namespace_of
from ...tables._fixed_point import Frequencies
from ...tables.frequencies import as_float64, geometric
from ..base import Parameter, Tables
from .base import RotaryEncoding


@dataclass(frozen=True, kw_only=True, repr=False)
class MixedRotary(RotaryEncoding):
    """Rotary encoding of images, videos and volumes whose frequencies on every axis are learned (RoPE-Mixed).

    A pair is rotated by x·w_x + y·w_y, so that it measures distances along one direction of the image, which each head
    learns for each of its pairs. Positions are `(axes, length)` or `(axes, batch, length)`, as returned by `grid`.

    The learned array `frequencies` has shape `(num_axes, num_heads, pairs)`, in radians per position. A layer starts
    from the frequencies of `AxialRotary`, rotated by one random rotation of the axes for each head, and computes cosine
    and sine in its framework, in float32: angles are off by up to 2**-22 of the sum of the sizes of their terms.
    `cos_sin` and `frequencies()` are of the frequencies without that rotation: those of
    `AxialRotary(axes_dims=(head_dim / num_axes,) * num_axes)`.

    Args:
        head_dim: width of one head of the queries and keys.
        layout: which channels form a pair, as in `Rotary`; timm and rope-vit have `"interleaved"`.
        num_heads: the number of heads, each with frequencies of its own, those of keys; each serves several
            neighbouring heads of queries where these are more.
        num_axes: the number of axes, 2 or 3.
        base: the geometric base of the initial frequencies, 10 in the paper.
        rotary_dim: the number of channels of each head that rotate, a multiple of `2 * num_axes`; all of them by
            default.
    Raises:
        TypeError: if a size is not an integer.
        ValueError: if a size is out of range, the channels that rotate are not a multiple of `2 * num_axes` or more
            than `head_dim`, `base` is not above 1, or `precision` is not `"exact"`.
    Source: Heo et al. 2024, section 3.2 (arXiv:2403.13298); the initial frequencies as in rope-vit and timm, for three
        axes with a rotation of space in place of that of the plane.

    >>> MixedRotary(head_dim=8, layout="interleaved", num_heads=3).parameters()["frequencies"].shape
    (2, 3, 4)
    """

    num_heads: int
    num_axes: int = 2
    base: float = 10
    rotary_dim: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("num_heads", self.num_heads, maximum=WIDEST)
        check_integer("num_axes", self.num_axes, minimum=2, maximum=3)
        check_number("base", self.base, above=1)
        if self.rotary_dim is not None:
            check_integer("rotary_dim", self.rotary_dim, maximum=self.head_dim)
        if self.rotary_dim == self.head_dim:
            object.__setattr__(self, "rotary_dim", None)
        if self.rotary_channels % (2 * self.num_axes):
            name = "head_dim" if self.rotary_dim is None else "rotary_dim"
            raise ValueError(
                f"`{name}` must be a multiple of {2 * self.num_axes}, two channels for each axis, got "
                f"{self.rotary_channels}; `rotary_dim` may leave channels out."
            )

    table_names: ClassVar[tuple[str, ...]] = ()
    computes_rows: ClassVar[bool] = True
    needs_positions: ClassVar[bool] = True
    has_frequencies: ClassVar[bool] = False

    @property
    def rotary_channels(self) -> int:
        return self.head_dim if self.rotary_dim is None else self.rotary_dim

    @property
    def axes(self) -> tuple[int, ...]:
        return tuple(axis for axis in range(self.num_axes) for _ in range(self.pairs // self.num_axes))

    @property
    def table_heads(self) -> int | None:
        return self.num_heads

    head_axes: ClassVar[Mapping[str, int]] = {"frequencies": 1}

    def constants(self, max_len: int) -> Tables:
        return {}

    def parameters(self) -> dict[str, Parameter]:
        return {"frequencies": Parameter(shape=(self.num_axes, self.num_heads, self.pairs), start=self._initial)}

    def rows_of(self, weights: Weights, positions: Array) -> tuple[Array, Array]:
        """Return cosine and sine from the frequencies of a layer: float32, or float64 if the frequencies are.

        The shape is `(heads, length, pairs)` for positions `(length,)` or `(axes, length)`, and
        `(batch, heads, length, pairs)` for `(axes, batch, length)`.
        """
        xp, frequencies = namespace_of(positions), weights["frequencies"]
        dtype = frequencies.dtype if dtype_name(frequencies) == "float64" else xp.float32
        frequencies, at = xp.astype(frequencies, dtype), xp.astype(positions, dtype)
        angles: Any = 0
        for axis in range(self.num_axes):
            along = at if len(at.shape) == 1 else at[axis, ...]
            column = xp.expand_dims(xp.expand_dims(along, axis=-1), axis=-3)
            # Not a product of matrices, which frameworks may compute in half precision.
            angles = angles + column * xp.expand_dims(frequencies[axis, ...], axis=-2)
        sin = xp.sin(angles)
        return xp.cos(angles), -sin if self.direction == "inverse" else sin

    def exact_frequencies(self) -> Frequencies:
        return geometric(self.rotary_channels // self.num_axes, base=self.base) * self.num_axes

    def _initial(self, drawn: A) -> A:
        """Return the initial frequencies from standard normal numbers, `(axes, heads, pairs)`."""
        initial: A = in_float32(self._rotated, drawn)
        return initial

    def _rotated(self, drawn: Array) -> Array:
        """Return the frequencies of the axes, rotated by a random rotation for each head."""
        xp, each = namespace_of(drawn), self.pairs // self.num_axes
        sizes = as_float64(self.exact_frequencies()[:each]).astype(np.float32)
        sizes = xp.asarray(sizes, **beside(drawn))
        directions = _rotation([[drawn[axis, :, i] for axis in range(self.num_axes)] for i in range(self.num_axes - 1)])
        along = [
            xp.concat([xp.expand_dims(direction[axis], axis=-1) * sizes for direction in directions], axis=-1)
            for axis in range(self.num_axes)
        ]
        rotated: Array = xp.stack(along, axis=0)
        return rotated


def _rotation(normals: list[list[Array]]) -> list[list[Any]]:
    """Return perpendicular unit vectors, one for each axis and without a reflection, from all but the last of them.

    Normally distributed vectors give all rotations the same probability. In the plane, (cos a, sin a) is followed by
    (cos(a + π/2), sin(a + π/2)).
    """
    first = _unit(normals[0])
    if len(first) == 2:
        return [first, [-first[1], first[0]]]
    second = normals[1]
    for _ in range(2):  # the first step leaves a rounding along `first`, large where the two are nearly parallel
        along = sum(a * b for a, b in zip(first, second, strict=True))
        second = _unit([b - along * a for a, b in zip(first, second, strict=True)])
    third = [first[i - 2] * second[i - 1] - first[i - 1] * second[i - 2] for i in range(3)]
    return [first, second, third]


def _unit(vector: list[Any]) -> list[Any]:
    length = sum(entry * entry for entry in vector) ** 0.5
    return [entry / length for entry in vector]
