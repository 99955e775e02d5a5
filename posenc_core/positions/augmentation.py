"""Random shifts and scales of coordinates in training: the same numbers from a seed in every framework."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Context, Decimal, localcontext
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._array_api.checks import check_integer, check_number, shown
from .sequences import LIMIT, from_array

DIGITS = 50  # of the powers that are rounded to float64


class Augmentation(NamedTuple):
    """Random numbers that change coordinates to (position + shift) * jitter * rescale.

    Attributes:
        shift: what is added, one number for each axis, `(axes,)`.
        jitter: what is multiplied, one number for each axis, `(axes,)`.
        rescale: what is multiplied on all axes.
    """

    shift: npt.NDArray[np.float64]
    jitter: npt.NDArray[np.float64]
    rescale: float


def draw_augmentation(
    axes: int, *, seed: int | Sequence[int], shift: float = 0.0, jitter: float = 1.0, rescale: float = 1.0
) -> Augmentation:
    """Return random numbers for `augment`, which follow from the seed alone, on every machine, in every version.

    Each argument changes the numbers of its own kind alone: the same seed without `shift` has the same jitter.

    Args:
        axes: number of axes of the positions.
        seed: an integer from 0 to 2**32 - 1 or several, such as the seed of a training and its step.
        shift: the largest shift s, in the unit of the positions; shifts are uniform from -s to s.
        jitter: the largest factor J of an axis; logarithms of factors are uniform from -ln J to ln J.
        rescale: the largest factor R of all axes, likewise.
    Returns:
        An `Augmentation`, float64, correctly rounded.
    Raises:
        TypeError: if `axes` or a seed is not an integer, or another argument not a number.
        ValueError: if `axes` is not from 1 to 64, a seed is out of range, `shift` is negative, a factor is below 1, or
            one of these is above 2**31.
    Source: DINOv3 (Siméoni et al. 2025, arXiv:2508.10104) and its code; `RotaryEmbeddingDinoV3` of timm, whose
        distributions these are. Generator: MT19937 (Matsumoto and Nishimura 1998), 53 bits a number.

    >>> draw_augmentation(2, seed=0, shift=0.1).jitter
    array([1., 1.])
    >>> draw_augmentation(2, seed=(0, 7), rescale=2.0).rescale
    1.1633816441312177
    """
    axes = check_integer("axes", axes, maximum=64)
    for name, given, least in (("shift", shift, 0), ("jitter", jitter, 1), ("rescale", rescale, 1)):
        check_number(name, given, minimum=least)
        if given > LIMIT:
            raise ValueError(f"`{name}` must be at most 2**31, got {shown(given)}.")
    uniform = 2 * np.random.RandomState(_seeds(seed)).random_sample(2 * axes + 1) - 1  # exact, from -1 up to 1
    jitters = np.array([_power(jitter, exponent) for exponent in uniform[axes:-1]])
    return Augmentation(shift * uniform[:axes], jitters, _power(rescale, uniform[-1]))


def augment(
    positions: Any,
    *,
    seed: int | Sequence[int],
    shift: float = 0.0,
    jitter: float = 1.0,
    rescale: float = 1.0,
    prefix: int = 0,
) -> npt.NDArray[np.float64]:
    """Return coordinates with a random shift and scale, to train vision models for other sizes and aspect ratios.

    One draw changes all positions of the call. Call it in each step of the training, with another seed, and not in
    evaluation.

    Args:
        positions: coordinates on each axis, `(axes, ..., length)`, as `normalized_grid` or `grid` make them.
        seed, shift, jitter, rescale: as in `draw_augmentation`. DINOv3 trains with `rescale=2`.
        prefix: number of tokens before the image, such as `[CLS]` and registers, whose positions stay.
    Returns:
        float64, the shape of `positions`; give it to a rotary layer as `positions`.
    Raises:
        TypeError, ValueError: as in `draw_augmentation`; if positions are not real numbers, have no axis of axes, or
            leave the range below 2**31, or if `prefix` is not from 0 to the length.
    Source: as `draw_augmentation`.

    >>> from posenc_core import normalized_grid
    >>> augment(normalized_grid(1, 4), seed=(0, 7), rescale=2.0).round(4)
    array([[ 0.    ,  0.    ,  0.    ,  0.    ],
           [-0.8725, -0.2908,  0.2908,  0.8725]])
    """
    given = from_array(positions).astype(np.float64)
    if given.ndim < 2:
        raise ValueError(f"`positions` must have shape (axes, ..., length), got {given.shape}.")
    prefix = check_integer("prefix", prefix, minimum=0, maximum=given.shape[-1])
    drawn = draw_augmentation(len(given), seed=seed, shift=shift, jitter=jitter, rescale=rescale)
    by_axis = (-1, *(1,) * (given.ndim - 1))
    changed = (given[..., prefix:] + drawn.shift.reshape(by_axis)) * drawn.jitter.reshape(by_axis) * drawn.rescale
    return from_array(np.concatenate([given[..., :prefix], changed], axis=-1)).astype(np.float64)


def _seeds(seed: int | Sequence[int]) -> list[int]:
    several = seed if isinstance(seed, (list, tuple)) else (seed,)
    if not several:
        raise ValueError("`seed` must have an integer, got none.")
    return [check_integer("seed", one, minimum=0, maximum=2**32 - 1) for one in several]


def _power(base: float, exponent: np.float64) -> float:
    """Return `base ** exponent`, rounded once."""
    with localcontext(Context(prec=DIGITS)):
        return float(Decimal(base) ** Decimal(float(exponent)))
