"""Resample tables: rows at new places, each a weighted sum of the old rows around it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from .._array_api.namespace import Array, Namespace, beside, dtype_name, namespace_of, shape_of

Float64s: TypeAlias = npt.NDArray[np.float64]
Method = Literal["antialiased_cubic", "cubic", "antialiased_linear", "linear", "aligned_linear"]
BiasMethod = Literal[Method, "geometric"]

_GROWTH = (1.01, 1.5)  # between which BEiT looks for the ratio of its distances


class _Kernel(NamedTuple):
    weight: Callable[[Float64s], Float64s]  # of a row at a distance, counted in rows
    radius: int  # the distance from which on weights are 0
    places: Callable[[int, int, float], Float64s]  # of the new rows among the old ones, with an offset
    widens: bool = False  # whether it becomes as wide as the distance between new rows, and ends at the border


class Blend(NamedTuple):
    """The old rows in each new row, and their weights: `(number of old rows, new rows)` both."""

    rows: npt.NDArray[np.int32]
    weights: Float64s


def resampled(
    x: Array, old: tuple[int, ...], new: tuple[int, ...], *, method: BiasMethod, offset: float = 0.0
) -> Array:
    """Carry a grid over to other sizes, axis by axis: `(outer, prod(old), dim)` to `(outer, prod(new), dim)`.

    Args:
        x: float32 or float64.
        old: the sizes of the grid; its cells stand row by row.
        new: as many sizes.
        method: as for `resizing.resize_table`, or `"geometric"` as for `resizing.resize_bias_table`.
        offset: as for `resizing.resize_table`.

    >>> resampled(np.array([[[0.0], [1.0]]]), (2,), (3,), method="aligned_linear")[0, :, 0]
    array([0. , 0.5, 1. ])
    """
    xp, (outer, _, dim) = namespace_of(x), shape_of(x)
    for axis, (before, after) in enumerate(zip(old, new, strict=True)):
        if before != after or (offset and method == "cubic"):  # as PyTorch, which skips such an axis where it widens
            x = xp.reshape(x, (outer * prod(new[:axis]), before, prod(old[axis + 1 :]) * dim))
            x = _blended(x, blend(before, after, method=method, offset=offset), xp)
    return xp.reshape(x, (outer, prod(new), dim))


def blend(old: int, new: int, *, method: BiasMethod, offset: float = 0.0) -> Blend:
    """Return the old rows and the weights of `new` rows along one axis, where there were `old`.

    >>> rows, weights = blend(2, 4, method="linear")
    >>> (rows * weights).sum(axis=0)
    array([0.  , 0.25, 0.75, 1.  ])
    """
    return _geometric(old, new) if method == "geometric" else _weighed(_KERNELS[method], old, new, offset)


def _blended(x: Array, blend: Blend, xp: Namespace) -> Array:
    """Return sums of rows times weights; a matrix product would have fewer digits on some devices."""
    wide, device = np.dtype(dtype_name(x)), beside(x)
    parts = (
        xp.take(x, xp.asarray(rows, **device), axis=1) * xp.asarray(weights, **device)
        for rows, weights in zip(blend.rows, blend.weights.astype(wide)[..., None], strict=True)
    )
    total = next(parts)
    for part in parts:
        total = total + part
    return total


def _weighed(kernel: _Kernel, old: int, new: int, offset: float) -> Blend:
    places, width = kernel.places(old, new, offset), max(old / (new + offset), 1) if kernel.widens else 1
    reach = kernel.radius * width
    rows = np.floor(places - reach).astype(np.int64) + 1 + np.arange(np.ceil(2 * reach), dtype=np.int64)[:, None]
    weights = kernel.weight(np.abs(rows - places) / width)
    if kernel.widens:
        weights = weights * ((rows >= 0) & (rows < old))
    return Blend(np.clip(rows, 0, old - 1).astype(np.int32), weights / weights.sum(axis=0))


def _geometric(old: int, new: int) -> Blend:
    """Interpolate between old distances in geometric progression."""
    ratio = _ratio(old // 2, new // 2)
    distances = np.cumsum(ratio ** np.arange(old // 2))
    places = np.concatenate([-distances[::-1], [0.0], distances])
    share = np.interp(np.arange(new) - new // 2, places, np.arange(old))
    lower = np.minimum(share.astype(np.int32), old - 1)
    upper = np.minimum(lower + 1, old - 1).astype(np.int32)
    return Blend(np.stack([lower, upper]), np.stack([1 - (share - lower), share - lower]))


def _ratio(count: int, border: int) -> float:
    """Return the q at which 1 + q + … + q ** (count - 1) is `border`, by bisection."""
    left, right = _GROWTH
    while left < (middle := (left + right) / 2) < right:
        left, right = (left, middle) if np.sum(middle ** np.arange(count)) > border else (middle, right)
    return left


def _cubic(distance: Float64s, a: float) -> Float64s:
    near = ((a + 2) * distance - (a + 3)) * distance**2 + 1
    far = a * (((distance - 5) * distance + 8) * distance - 4)
    return np.where(distance < 1, near, np.where(distance < 2, far, 0))


def _triangle(distance: Float64s) -> Float64s:
    return np.maximum(1 - distance, 0)


def _centers(old: int, new: int, offset: float) -> Float64s:
    return (2 * np.arange(new) + 1) * old / (2 * (new + offset)) - 0.5


def _from_end_to_end(old: int, new: int, _: float) -> Float64s:
    return np.arange(new) * (old - 1) / max(new - 1, 1)


_KERNELS: dict[str, _Kernel] = {
    "antialiased_cubic": _Kernel(partial(_cubic, a=-0.5), 2, _centers, widens=True),
    "cubic": _Kernel(partial(_cubic, a=-0.75), 2, _centers),
    "antialiased_linear": _Kernel(_triangle, 1, _centers, widens=True),
    "linear": _Kernel(_triangle, 1, _centers),
    "aligned_linear": _Kernel(_triangle, 1, _from_end_to_end),
}

METHODS = tuple(_KERNELS)
