"""Gates of tokens: numbers between 0 and 1, and their sums along the keys."""

from __future__ import annotations

from .._array_api.checks import check_floating, check_meet, check_rank
from .._array_api.namespace import Array, namespace_of, shape_of
from ..positions.sequences import arange_like

_LEAST = -80.0  # below it, exponentials of minus a number have gradients that are not numbers


def sigmoid(x: Array) -> Array:
    """Return the sigmoid of each number, `1 / (1 + exp(-x))`; numbers below -80 count as -80.

    >>> import numpy as np
    >>> sigmoid(np.array([0.0, -1000.0])).round(4)
    array([0.5, 0. ])
    """
    xp = namespace_of(x)
    return 1 / (xp.exp(-xp.maximum(x, xp.full_like(x, _LEAST))) + 1)


def log_sigmoid(x: Array) -> Array:
    """Return the logarithm of the sigmoid of each number, which does not overflow.

    Raises:
        TypeError: if `x` is not a floating-point array.

    >>> import numpy as np
    >>> log_sigmoid(np.array([0.0, -1000.0])).round(4)
    array([-6.931e-01, -1.000e+03])
    """
    check_floating("x", x)
    return log_sigmoid_checked(x)


def log_sigmoid_checked(x: Array) -> Array:
    """Return `log_sigmoid` of a floating-point array."""
    xp = namespace_of(x)
    return xp.minimum(x, xp.zeros_like(x)) - xp.log1p(xp.exp(-xp.abs(x)))


def sums_to_last(x: Array) -> Array:
    """Return for each key the sum of the numbers from it to the last key, added up from the last, which loses least.

    Args:
        x: a number for each key, shape `(..., keys)`.
    Raises:
        TypeError, ValueError: if `x` is not a floating-point array of at least one axis.

    >>> import numpy as np
    >>> sums_to_last(np.array([1.0, 2.0, 4.0]))
    array([7., 6., 4.])
    """
    check_floating("x", x)
    check_rank("x", x, minimum=1, axes="(..., keys)")
    return sums_to_last_checked(x)


def sums_to_last_checked(x: Array) -> Array:
    """Return `sums_to_last` of a floating-point array, `(..., keys)`."""
    xp, keys = namespace_of(x), shape_of(x)[-1]
    backwards = -arange_like(keys, like=x) + (keys - 1)
    return xp.take(xp.cumulative_sum(xp.take(x, backwards, axis=-1), axis=-1), backwards, axis=-1)


def decay_bias(log_gates: Array, scores: Array) -> Array:
    """Return for each query and key the sum of `log_gates` over the visible keys after the key.

    Args:
        log_gates: logarithms of forget gates, a number for each key, shape `(..., heads, keys)`.
        scores: `(..., heads, queries, keys)`, -inf where a mask hides a key.
    Returns:
        An array of the shape of `scores`.
    Raises:
        TypeError, ValueError: if one of them is not a floating-point array with these axes.
    Source: Lin et al. 2025, section 3 (arXiv:2503.02130).

    >>> import numpy as np
    >>> scores = np.array([[0.0, 0.0, -np.inf], [0.0, 0.0, 0.0]])
    >>> decay_bias(np.array([-1.0, -2.0, -4.0]), scores)
    array([[-2.,  0.,  0.],
           [-6., -4.,  0.]])
    """
    _check_gates(log_gates, scores)
    return decay_bias_checked(log_gates, scores)


def decay_bias_checked(log_gates: Array, scores: Array) -> Array:
    """Return `decay_bias` of checked arrays."""
    visible = _visible_gates(log_gates, scores)
    xp = namespace_of(visible)
    return xp.concat([sums_to_last_checked(visible)[..., 1:], xp.zeros_like(visible)[..., :1]], axis=-1)


def sum_of_visible(log_gates: Array, scores: Array) -> Array:
    """Return for each query the sum of `log_gates` over all visible keys, `(..., heads, queries, 1)`.

    Args:
        log_gates, scores: as in `decay_bias`.
    Raises:
        TypeError, ValueError: likewise.

    >>> import numpy as np
    >>> sum_of_visible(np.array([-1.0, -2.0, -4.0]), np.array([[0.0, 0.0, -np.inf], [0.0, 0.0, 0.0]]))
    array([[-3.],
           [-7.]])
    """
    _check_gates(log_gates, scores)
    return sum_of_visible_checked(log_gates, scores)


def sum_of_visible_checked(log_gates: Array, scores: Array) -> Array:
    """Return `sum_of_visible` of checked arrays."""
    return sums_to_last_checked(_visible_gates(log_gates, scores))[..., :1]


def _check_gates(log_gates: Array, scores: Array) -> None:
    """Raise unless `log_gates` are floating-point numbers for the keys of `scores`."""
    check_floating("log_gates", log_gates)
    check_floating("scores", scores)
    check_rank("log_gates", log_gates, minimum=1, axes="(..., heads, keys)")
    check_rank("scores", scores, minimum=2, axes="(..., heads, queries, keys)")
    check_meet("log_gates", namespace_of(log_gates).expand_dims(log_gates, axis=-2), "scores", scores)


def _visible_gates(log_gates: Array, scores: Array) -> Array:
    """Return the gates of each query's visible keys, and 0 for hidden ones, in the shape of `scores`."""
    xp = namespace_of(scores)
    zeros = xp.zeros_like(scores)
    return xp.where(scores > xp.full_like(scores, -float("inf")), xp.expand_dims(log_gates, axis=-2) + zeros, zeros)
