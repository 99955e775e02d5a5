"""Perceptrons of coordinates: the biases of Swin v2's windows, and dynamic position biases."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from .._array_api.checks import check_integer
from .._array_api.namespace import Array, namespace_of
from ..tables._fixed_point import high_precision, nearest_float32
from .buckets import check_window
from .forgetting_gates import sigmoid


def log_coordinates(size: int, *, trained_size: int | None = None) -> npt.NDArray[np.float32]:
    """Return the coordinates of the offsets from `1 - size` to `size - 1` along an axis, on a logarithmic scale.

    With x = 8 offset / (trained_size - 1), the coordinate is `log2(1 + |x|) / 3`, with the sign of the offset.

    Args:
        size: the number of cells.
        trained_size: that of the window in training, whose last offset has about the coordinate 1; `size` by default.
    Returns:
        Correctly rounded, shape `(2 * size - 1,)`; 0 where `trained_size` is 1.
    Raises:
        TypeError, ValueError: unless both are positive integers, and `size` at most 8,192.
    Source: Liu et al. 2022, "Swin Transformer V2", section 3.3 (arXiv:2111.09883), and their program.

    >>> log_coordinates(3)
    array([-1.0566417, -0.773976 ,  0.       ,  0.773976 ,  1.0566417],
          dtype=float32)
    """
    size = check_integer("size", size)
    check_window("`size`", 1, size)
    return log_coordinates_checked(size, size if trained_size is None else check_integer("trained_size", trained_size))


def log_coordinates_checked(size: int, trained_size: int) -> npt.NDArray[np.float32]:
    """Return `log_coordinates` of checked sizes."""
    last = trained_size - 1
    with high_precision(50):
        third = 1 / (3 * Decimal(2).ln())
        logarithms = [(1 + Decimal(8 * offset) / last).ln() * third if last else Decimal(0) for offset in range(size)]
        away = [nearest_float32(Fraction(x)) for x in logarithms]
    return np.array([*(-x for x in away[:0:-1]), *away], np.float32)


def layers_of(x: Array, layers: Sequence[tuple[Array, Array]]) -> Array:
    """Apply affine layers, each followed by SiLU but for the last: `(..., inputs) -> (..., outputs)`.

    Args:
        x: the inputs.
        layers: the weights, shape `(outputs, inputs)`, and biases, shape `(outputs,)`, of each layer.

    >>> layers_of(np.array([[1.0]]), [(np.ones((1, 1)), np.ones(1)), (np.ones((2, 1)), np.zeros(2))]).round(4)
    array([[1.7616, 1.7616]])
    """
    xp = namespace_of(x)
    for number, (weight, bias) in enumerate(layers):
        x = silu(x) if number else x
        x = xp.matmul(x, xp.matrix_transpose(weight)) + bias
    return x


def silu(x: Array) -> Array:
    """Return each number times its sigmoid.

    >>> silu(np.array([0.0, 2.0])).round(4)
    array([0.    , 1.7616])
    """
    return x * sigmoid(x)
