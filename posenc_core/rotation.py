"""Rotation: turning each channel pair of queries and keys by the angle of its position."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from ._arrays import A, Array, in_float32, namespace_of, shape_of
from ._checks import check_broadcasts, check_floating, check_known

Layout: TypeAlias = Literal["interleaved", "half"]
LAYOUTS = ("interleaved", "half")


def rotate(x: A, cos: Array, sin: Array, *, layout: Layout) -> A:
    """Rotate each channel pair of `x`; channels past the table pass through.

    Args:
        x: queries or keys, shape `(..., length, width)`.
        cos, sin: one column per pair, shape `(..., length, pairs)`, `2 * pairs <= width`.
        layout: which channels form a pair: `"interleaved"` (0, 1), (2, 3), … or `"half"` (i, i + pairs).
    Returns:
        Array of the shape and dtype of `x`; half precision is rotated in float32 and rounded once.
    Raises:
        TypeError: if `x` is not floating-point.
        ValueError: if the table is wider than `x` or does not broadcast to it, or the layout is unknown.
    Source: Su et al. 2021, equation 34 (arXiv:2104.09864). Angles in radians.

    >>> quarter = np.zeros((1, 1)), np.ones((1, 1))
    >>> rotate(np.array([[1.0, 2.0]]), *quarter, layout="interleaved")
    array([[-2.,  1.]])
    """
    check_known("layout", layout, LAYOUTS)
    check_floating("x", x)
    if 2 * cos.shape[-1] > x.shape[-1]:
        raise ValueError(
            f"`x` is {x.shape[-1]} wide, but its table turns {2 * cos.shape[-1]} channels; "
            "the encoding's `rotary_dim` must not exceed the width."
        )
    shape = (*x.shape[:-1], cos.shape[-1])
    check_broadcasts("cos", cos, shape)
    check_broadcasts("sin", sin, cos.shape)
    return in_float32(partial(_turned, layout=layout), x, cos, sin)


def unrotate(x: A, cos: Array, sin: Array, *, layout: Layout) -> A:
    """Undo `rotate`, by the opposite angle; arguments, result and errors as there.

    Where an attention factor multiplies the table, lengths come back multiplied by its square.

    >>> quarter = np.zeros((1, 1)), np.ones((1, 1))
    >>> unrotate(np.array([[-2.0, 1.0]]), *quarter, layout="interleaved")
    array([[1., 2.]])
    """
    return rotate(x, cos, -sin, layout=layout)


def _turned(x: Array, cos: Array, sin: Array, *, layout: Layout) -> Array:
    xp = namespace_of(x)
    pairs = cos.shape[-1]
    first, second = _split(x, pairs, layout)
    turned = _join(first * cos - second * sin, second * cos + first * sin, layout)
    if 2 * pairs == x.shape[-1]:
        return turned
    return xp.concat([turned, x[..., 2 * pairs :]], axis=-1)


def _split(x: Array, pairs: int, layout: Layout) -> tuple[Array, Array]:
    if layout == "interleaved":
        return x[..., 0 : 2 * pairs : 2], x[..., 1 : 2 * pairs : 2]
    return x[..., :pairs], x[..., pairs : 2 * pairs]


def _join(first: Array, second: Array, layout: Layout) -> Array:
    xp = namespace_of(first)
    if layout == "half":
        return xp.concat([first, second], axis=-1)
    *outer, pairs = shape_of(first)
    return xp.reshape(xp.stack([first, second], axis=-1), (*outer, 2 * pairs))


def partners(width: int, pairs: int, *, layout: Layout) -> npt.NDArray[np.int64]:
    """For each channel the one it is paired with; channels that do not turn are their own, shape `(width,)`.

    >>> partners(6, 2, layout="half")
    array([2, 3, 0, 1, 4, 5])
    """
    channels = np.arange(width)
    turning = channels[: 2 * pairs]
    channels[: 2 * pairs] = turning ^ 1 if layout == "interleaved" else np.roll(turning, pairs)
    return channels


def full_width(
    cos: npt.NDArray[Any], sin: npt.NDArray[Any], width: int, *, layout: Layout
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """One column per *channel*: `(..., pairs) -> (..., width)`, the sign of each product in the sine.

    >>> full_width(np.array([[0.5]]), np.array([[0.25]]), 3, layout="half")
    (array([[0.5, 0.5, 1. ]]), array([[-0.25,  0.25,  0.  ]]))
    """
    channels = 2 * cos.shape[-1]
    wide_cos = np.ones((*cos.shape[:-1], width), cos.dtype)
    wide_sin = np.zeros((*sin.shape[:-1], width), sin.dtype)
    wide_cos[..., :channels] = _join(cos, cos, layout)
    wide_sin[..., :channels] = _join(-sin, sin, layout)
    return wide_cos, wide_sin


def rotate_full_width(x: A, cos: Array, sin: Array, partner: Array) -> A:
    """`rotate` without slices or shapes, for tracers that know neither: tables from `full_width`.

    >>> rotate_full_width(np.array([[1.0, 2.0]]), np.zeros((1, 2)), np.array([[-1.0, 1.0]]), np.array([1, 0]))
    array([[-2.,  1.]])
    """
    xp = namespace_of(x)
    return x * cos + xp.take(x, partner, axis=-1) * sin
