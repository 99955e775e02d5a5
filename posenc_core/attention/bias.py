"""Bias: what a distance of two positions adds to an attention score."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from .._array_api.namespace import Array, distance, namespace_of, paired
from ..tables._fixed_point import VALUE_BITS, VALUE_ERROR, high_precision, nearest_float32

SlopeOrder: TypeAlias = Literal["press", "geometric"]
Sides: TypeAlias = Literal["both", "past"]
SLOPE_ORDERS = ("press", "geometric")
SIDES = ("both", "past")
_NOWHERE = -1e5  # in place of the logarithm of distance 0: a hundredth of it has an exponential of 0, and a gradient


def alibi_slopes(num_heads: int, *, order: SlopeOrder = "press", max_bias: float = 8) -> npt.NDArray[np.float32]:
    """One slope per head, correctly rounded; of a power of two of heads, `2 ** (-max_bias * i / heads)`.

    Args:
        num_heads: number of heads.
        order: for other numbers of heads. `"press"` has the slopes of the largest power of two below, then every other
            one of the next; `"geometric"` has the same formula as for a power of two.
        max_bias: minus the logarithm, to base 2, of the last slope.
    Source: Press et al. 2022, section 3 (arXiv:2108.12409), and `get_slopes` of their repository. MPT's
        `gen_slopes` and FasterTransformer write that order as `slopes[1::2] ‖ slopes[::2]` of the next power of two.

    >>> alibi_slopes(4)
    array([0.25      , 0.0625    , 0.015625  , 0.00390625], dtype=float32)
    >>> alibi_slopes(3), alibi_slopes(3, order="geometric", max_bias=3)
    (array([0.0625    , 0.00390625, 0.25      ], dtype=float32), array([0.5  , 0.25 , 0.125], dtype=float32))
    """
    whole = num_heads if order == "geometric" else 2 ** (num_heads.bit_length() - 1)
    steps = [Fraction(i, whole) for i in range(1, whole + 1)]
    steps += [Fraction(i, 2 * whole) for i in range(1, 2 * whole, 2)][: num_heads - whole]
    return np.array([_power_of_two(-Fraction(max_bias) * step) for step in steps], np.float32)


def _power_of_two(exponent: Fraction) -> np.float32:
    with high_precision():
        power = Decimal(2) ** (Decimal(exponent.numerator) / exponent.denominator)
        error = 0 if exponent.denominator == 1 else VALUE_ERROR  # of what is whole and lies between two numbers, none
        return nearest_float32(round(power * 2**VALUE_BITS), error=error)


def distances(query_positions: Array, key_positions: Array, *, sides: Sides = "both") -> Array:
    """How far keys are from queries, float32: `(queries,) x (keys,) -> (1, queries, keys)`, or with a batch first.

    Args:
        query_positions: shape `(queries,)` or `(batch, queries)`.
        key_positions: shape `(keys,)` or `(batch, keys)`.
        sides: `"both"` counts keys after a query as those before it; `"past"` has them at distance 0.

    >>> distances(np.array([1]), np.array([0, 1, 3]), sides="past")
    array([[[1., 0., 0.]]], dtype=float32)
    """
    xp = namespace_of(query_positions)
    queries, keys = paired(query_positions, key_positions)
    far = distance(queries, keys)
    far = far if sides == "both" else xp.where(queries > keys, far, xp.zeros_like(far))
    return xp.astype(xp.expand_dims(far, axis=-3), xp.float32)


def linear(slopes: Array, distances: Array) -> Array:
    """Minus slope × distance: `(heads,) x (..., 1, queries, keys) -> (..., heads, queries, keys)`.

    Source: Press et al. 2022, section 3 (arXiv:2108.12409).

    >>> linear(np.array([0.5]), np.array([[[0.0, 3.0]]]))
    array([[[-0. , -1.5]]])
    """
    return -_per_head(slopes) * distances


def logarithmic(size: Array, rate: Array, distances: Array) -> Array:
    """Minus size × log(1 + rate × distance): `(heads,) x (..., 1, queries, keys) -> (..., heads, queries, keys)`.

    Source: Chi et al. 2022, the logarithmic variant (arXiv:2205.09921).

    >>> logarithmic(np.array([2.0]), np.array([1.0]), np.array([[[0.0, 1.0]]])).round(4)
    array([[[-0.    , -1.3863]]])
    """
    xp = namespace_of(distances)
    return -_per_head(size) * xp.log(_per_head(rate) * distances + 1)


def power(size: Array, exponent: Array, distances: Array) -> Array:
    """Minus size × distance ** exponent: `(heads,) x (..., 1, queries, keys) -> (..., heads, queries, keys)`.

    It is computed as an exponential, which is off by up to 2**-19 of its size at distances to 2**20.

    Source: Chi et al. 2022, the power variant (arXiv:2205.09921).

    >>> power(np.array([2.0]), np.array([0.5]), np.array([[[0.0, 1.0, 4.0]]])).round(4)
    array([[[-0., -2., -4.]]])
    """
    xp = namespace_of(distances)
    away = distances > 0
    logarithms = xp.log(xp.where(away, distances, xp.ones_like(distances)))
    logarithms = xp.where(away, logarithms, xp.full_like(logarithms, _NOWHERE))
    return -_per_head(size) * xp.exp(_per_head(exponent) * logarithms)


def progressive(rate: Array, threshold: Array, query_positions: Array, key_positions: Array) -> Array:
    """Distances on a logarithmic scale, as shares of the farthest that a query could look back: mostly from 0 to 1.

    `log(1 + |rate * distance|) / (log(1 + |rate * max(query, threshold)|) + 1e-6)`.

    Args:
        rate: how fast the scale bends, shape `(1,)`.
        threshold: queries before it count as there, shape `(1,)`.
        query_positions: shape `(queries,)` or `(batch, queries)`.
        key_positions: shape `(keys,)` or `(batch, keys)`.
    Returns:
        Array of shape `(queries, keys)`, or `(batch, queries, keys)`.
    Source: Li et al. 2024 (arXiv:2310.04418); the 1e-6 is that of their program.

    >>> one = np.ones(1, np.float32)
    >>> progressive(one, 4 * one, np.array([3, 9]), np.array([0])).round(4)
    array([[0.8614],
           [1.    ]], dtype=float32)
    """
    xp = namespace_of(query_positions)
    queries, keys = paired(query_positions, key_positions)
    far = xp.astype(distance(queries, keys), xp.float32)
    farthest = xp.maximum(xp.astype(queries, xp.float32), threshold)
    return _bent(rate * far) / (_bent(rate * farthest) + 1e-6)


def _bent(x: Array) -> Array:
    xp = namespace_of(x)
    return xp.log(xp.abs(x) + 1)


def perceived(x: Array, hidden: tuple[Array, Array], heads: tuple[Array, Array]) -> Array:
    """Each number by a perceptron with one hidden layer: `(..., queries, keys) -> (..., heads, queries, keys)`.

    Args:
        x: the numbers.
        hidden: weights and biases of the hidden units, shape `(units,)` each; what is negative there counts as 0.
        heads: weights, shape `(heads, units)`, and biases, shape `(heads,)`, of the result.

    >>> perceived(np.array([[-1.0, 3.0]]), (np.ones(1), np.ones(1)), (np.full((1, 1), 2.0), np.zeros(1)))
    array([[[0., 8.]]])
    """
    xp = namespace_of(x)
    columns = [xp.expand_dims(given, axis=-1) for given in (*hidden, heads[1])]
    units = columns[0] * xp.expand_dims(x, axis=-2) + columns[1]
    units = xp.maximum(units, xp.zeros_like(units))
    result = xp.matmul(heads[0], units) + columns[2]  # (..., queries, heads, keys)
    return xp.permute_dims(result, (0, 2, 1, 3) if len(getattr(x, "shape", ())) == 3 else (1, 0, 2))


def clamped(x: Array, *, minimum: float, maximum: float | None = None) -> Array:
    """`x` in float32, from `minimum` up to `maximum`; what lies outside has no gradient.

    >>> clamped(np.array([-1.0, 0.5, 3.0]), minimum=0.25, maximum=2.0)
    array([0.25, 0.5 , 2.  ], dtype=float32)
    """
    xp = namespace_of(x)
    wide = xp.astype(x, xp.float32)
    raised = xp.maximum(wide, xp.full_like(wide, minimum))
    return raised if maximum is None else xp.minimum(raised, xp.full_like(raised, maximum))


def _per_head(x: Array) -> Array:
    xp = namespace_of(x)
    return xp.expand_dims(xp.expand_dims(x, axis=-1), axis=-1)
