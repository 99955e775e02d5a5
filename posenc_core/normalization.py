"""RMS norm of queries and keys (QK-norm), before or after their rotation."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, TypeAlias

from ._array_api.checks import (
    check_alike,
    check_floating,
    check_integer,
    check_known,
    check_library,
    check_number,
    check_rank,
    is_static,
    shown,
    write,
)
from ._array_api.kernels import kernel_for
from ._array_api.namespace import A, Array, dtype_name, namespace_of, shape_of
from .rotation import Layout, Pairing, Placement, pairing_of, rotate_pairs

Order: TypeAlias = Literal["norm_first", "rope_first"]
ORDERS = ("norm_first", "rope_first")


class Norm(NamedTuple):
    """How queries or keys are normalized; the fields are arguments of `normalize_and_rotate`."""

    epsilon: float = 1e-6
    offset: float = 0.0
    order: str = "norm_first"
    head_axis: int | None = None


def normalize_and_rotate(  # noqa: PLR0913 - all that can be said of a call
    x: A,
    cos: Array,
    sin: Array,
    *,
    layout: Layout,
    weight: Array | None = None,
    offset: float = 0.0,
    epsilon: float = 1e-6,
    order: Order = "norm_first",
    head_axis: int | None = None,
    placement: Placement = "lead",
    blocks: int = 1,
    out: A | None = None,
) -> A:
    """Divide queries or keys by their root mean square (RMS norm, QK-norm) and rotate each channel pair.

    With r = 1 / sqrt(mean(x²) + `epsilon`), a head is normalized to x · r · (`offset` + `weight`). All is computed in
    float32, or in float64 where `x` is, and rounded once. Models round half precision after the norm as well, and Qwen3
    before the weight: from these, results may differ by one or two roundings.

    Args:
        x: queries or keys, shape `(..., length, width)`.
        cos, sin, layout, placement, blocks, out: as in `rotate`.
        weight: of each channel, `(width,)`; with a `head_axis` of each channel of all heads, `(heads * width,)`. With
            the order `"rope_first"`, channels are those of the rotated head. None as in Llama 4 and nanochat.
        offset: is added to the weight, 1 in Gemma.
        epsilon: is added to the mean of the squares.
        order: `"norm_first"` normalizes, then rotates (Qwen3, Gemma 3, OLMo 2); `"rope_first"` rotates, then
            normalizes (HunYuan, Llama 4, nanochat).
        head_axis: where one mean is of all heads of a token (OLMo 2), the axis of the heads: -3 or -2, for
            `(..., heads, length, width)` or `(..., length, heads, width)`; None for one mean of each head.
    Returns:
        Array of the shape and dtype of `x`, or `out`.
    Raises:
        TypeError: as in `rotate`, or if `weight` is not floating-point or of another library than `x`.
        ValueError: as in `rotate`, or if `weight` does not fit the channels, `order` is unknown, `epsilon` is negative,
            `offset` is given without `weight`, or `head_axis` is neither -3 nor -2.
    Source: Zhang and Sennrich 2019 (arXiv:1910.07467); queries and keys: Dehghani et al. 2023 (arXiv:2302.05442).

    >>> import numpy as np
    >>> quarter = np.zeros((1, 1)), np.ones((1, 1))
    >>> normalize_and_rotate(np.array([[1.0, 7.0]]), *quarter, layout="half", epsilon=0.0)
    array([[-1.4,  0.2]])
    """
    pairing = pairing_of(layout, placement, blocks)
    norm = norm_of(epsilon, offset, order, head_axis, has_weight=weight is not None)
    check_floating("x", x)
    check_rank("x", x, minimum=-(norm.head_axis or -1), axes="(..., length, width)")
    if weight is not None:
        check_weight(weight, x, norm)
    if out is not None:
        check_alike("out", out, x)
    results = normalize_by_kernel((x,), cos, sin, (weight, weight), pairing, norm)
    result = normalize_and_rotate_reference(x, cos, sin, weight, pairing, norm) if results is None else results[0]
    return result if out is None else write("out", out, result)


def normalize_by_kernel(
    tokens: tuple[A, ...], cos: Array, sin: Array, weights: tuple[Any, Any], pairing: Pairing, norm: Norm
) -> tuple[A, ...] | None:
    """Return one or two arrays normalized and rotated in one pass, where there is a kernel for it; else None."""
    kernel = kernel_for(tokens[0])
    if kernel is None or kernel.normalize is None:
        return None
    found: tuple[A, ...] | None = kernel.normalize(tokens, cos, sin, weights, pairing, norm)
    return found


def normalize_and_rotate_reference(
    x: A, cos: Array, sin: Array, weight: Array | None, pairing: Pairing, norm: Norm
) -> Any:
    """Return what `normalize_and_rotate` returns, by operators; nothing is checked."""
    wide, dtype = in_wide(x), x.dtype
    if norm.order == "norm_first":
        result = rotate_pairs(normalize(wide, weight, norm), cos, sin, pairing=pairing)
    else:
        result = normalize(rotate_pairs(wide, cos, sin, pairing=pairing), weight, norm)
    return result if result.dtype == dtype else namespace_of(x).astype(result, dtype)


def norm_of(epsilon: Any, offset: Any, order: Any, head_axis: Any, *, has_weight: bool) -> Norm:
    """Return the norm of these arguments of `normalize_and_rotate`, which raises the same errors."""
    check_number("epsilon", epsilon, minimum=0)
    check_number("offset", offset)
    check_known("order", order, ORDERS)
    if offset and not has_weight:
        raise ValueError(f"`offset` must be left out without a weight, to which it is added, got {shown(offset)}.")
    if head_axis is not None:
        head_axis = check_integer("head_axis", head_axis, minimum=-3, maximum=-2)
    return Norm(epsilon, offset, order, head_axis)


def check_weight(weight: Array, x: Array, norm: Norm) -> None:
    """Raise unless the weight has a number for each channel that is normalized."""
    check_floating("weight", weight)
    check_library("weight", weight, x)
    check_rank("weight", weight, minimum=1, maximum=1, axes="(channels,)")
    axes = (-1,) if norm.head_axis is None else (norm.head_axis, -1)
    channels = 1
    for axis in axes:
        channels *= x.shape[axis] if is_static(x.shape[axis]) else 0
    if channels and weight.shape[0] != channels:
        raise ValueError(f"`weight` must have a number for each of the {channels} channels, got {weight.shape[0]}.")


def in_wide(x: A) -> Any:
    """Return `x` in the dtype in which it is normalized and rotated: float32, or float64 as it is."""
    xp = namespace_of(x)
    return x if x.dtype == xp.float32 or dtype_name(x) == "float64" else xp.astype(x, xp.float32)


def normalize(x: A, weight: Array | None, norm: Norm) -> Any:
    """Return `x`, which is float32 or float64, divided by its root mean square, times the weight; nothing is checked.

    Kernels and libraries may add the squares in any order; all else is rounded as here.
    """
    xp, heads = namespace_of(x), norm.head_axis
    sizes = shape_of(x)
    squares, count = xp.sum(x * x, axis=-1, keepdims=True), sizes[-1]
    if heads is not None:
        squares, count = xp.sum(squares, axis=heads, keepdims=True), count * sizes[heads]
    normalized = x * (1 / (squares / count + norm.epsilon) ** 0.5)
    if weight is None:
        return normalized
    weight = weight if weight.dtype == x.dtype else xp.astype(weight, x.dtype)
    if norm.offset:
        weight = weight + norm.offset
    if heads is not None:
        weight = xp.reshape(weight, (sizes[-3], 1, sizes[-1]) if heads == -3 else (sizes[-2], sizes[-1]))
    return normalized * weight
