"""Biases of attention scores that depend on the distance between two positions."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from .._array_api.checks import (
    WIDEST,
    check_even,
    check_integer,
    check_known,
    check_libraries,
    check_meet,
    check_number,
    check_numbers,
    check_rank,
    check_rows,
)
from .._array_api.namespace import Array, distance, namespace_of, paired
from ..tables._fixed_point import high_precision, nearest_float32
from ..tables.cosine_sums import cosine_sums
from ..tables.frequencies import geometric

SlopeOrder: TypeAlias = Literal["press", "geometric"]
Sides: TypeAlias = Literal["both", "past"]
SLOPE_ORDERS = ("press", "geometric")
SIDES = ("both", "past")
FARTHEST_SANDWICH = 2**16  # distance: with the widest rows, the sums take some seconds
WIDEST_SANDWICH = 2**12  # rows
_LOG_OF_ZERO = -1e5  # of distance 0, finite, so that it has a gradient; times 0.01 its exponential is still 0


def alibi_slopes(num_heads: int, *, order: SlopeOrder = "press", max_bias: float = 8) -> npt.NDArray[np.float32]:
    """Return one slope per head, correctly rounded; for a power of two of heads, `2 ** (-max_bias * i / heads)`.

    Args:
        num_heads: number of heads.
        order: for other numbers of heads. `"press"` has the slopes of the largest power of two below, then every other
            one of the next; `"geometric"` has the same formula as for a power of two.
        max_bias: minus the logarithm, to base 2, of the last slope.
    Raises:
        TypeError, ValueError: unless `num_heads` is an integer up to 65,536, `order` is known and `max_bias` positive.
    Source: Press et al. 2022, section 3 (arXiv:2108.12409), and `get_slopes` of their repository. MPT's
        `gen_slopes` and FasterTransformer write that order as `slopes[1::2] ‖ slopes[::2]` of the next power of two.

    >>> alibi_slopes(4)
    array([0.25      , 0.0625    , 0.015625  , 0.00390625], dtype=float32)
    >>> alibi_slopes(3), alibi_slopes(3, order="geometric", max_bias=3)
    (array([0.0625    , 0.00390625, 0.25      ], dtype=float32), array([0.5  , 0.25 , 0.125], dtype=float32))
    """
    num_heads = check_integer("num_heads", num_heads, maximum=WIDEST)
    check_known("order", order, SLOPE_ORDERS)
    check_number("max_bias", max_bias, above=0)
    return alibi_slopes_checked(num_heads, order, max_bias)


def alibi_slopes_checked(num_heads: int, order: SlopeOrder, max_bias: float) -> npt.NDArray[np.float32]:
    """Return `alibi_slopes` of checked arguments."""
    whole = num_heads if order == "geometric" else 2 ** (num_heads.bit_length() - 1)
    steps = [Fraction(i, whole) for i in range(1, whole + 1)]
    steps += [Fraction(i, 2 * whole) for i in range(1, 2 * whole, 2)][: num_heads - whole]
    return np.array([_power_of_two(-Fraction(max_bias) * step) for step in steps], np.float32)


def _power_of_two(exponent: Fraction) -> np.float32:
    with high_precision():  # enough for all that float32 tells from 0, which has powers of two down to 2**-150
        return nearest_float32(Fraction(Decimal(2) ** (Decimal(exponent.numerator) / exponent.denominator)))


def sandwich_sums(max_distance: int, *, dim: int = 128, base: float = 10000) -> npt.NDArray[np.float32]:
    """Return the products of two sinusoidal rows by their offset: sums of cosines of the distance.

    The sum is `cos(distance * base ** (-2 * i / dim))` over `i = 1 … dim / 2`.

    Args:
        max_distance: the last distance.
        dim: the width of the sinusoidal rows, even.
        base: their base.
    Returns:
        Correctly rounded, for the offsets (key less query) from `-max_distance` on, `(2 * max_distance + 1,)`.
    Raises:
        TypeError, ValueError: as in `Sandwich`.
    Source: Chi et al. 2022, "Dissecting Transformer Length Extrapolation via the Lens of Receptive Field Analysis"
        (arXiv:2212.10356). NeMo subtracts `dim / 2`, which softmax cancels.

    >>> sandwich_sums(1, dim=4)
    array([1.99995, 2.     , 1.99995], dtype=float32)
    """
    max_distance = check_integer("max_distance", max_distance, maximum=FARTHEST_SANDWICH)
    dim = check_integer("dim", check_even("dim", dim), maximum=WIDEST_SANDWICH)
    check_number("base", base, above=1)
    return sandwich_sums_checked(max_distance, dim, base)


def sandwich_sums_checked(max_distance: int, dim: int, base: float) -> npt.NDArray[np.float32]:
    """Return `sandwich_sums` of checked arguments."""
    sums = cosine_sums(np.arange(max_distance + 1), geometric(dim, base=base, count=dim // 2 + 1)[1:])
    return np.concatenate([sums[:0:-1], sums])


def distances(query_positions: Array, key_positions: Array, *, sides: Sides = "both") -> Array:
    """Return the distances between keys and queries, float32: `(queries,) x (keys,) -> (1 or batch, queries, keys)`.

    Args:
        query_positions: shape `(queries,)` or `(batch, queries)`.
        key_positions: shape `(keys,)` or `(batch, keys)`.
        sides: `"both"` treats keys after a query like those before it; `"past"` puts them at distance 0.
    Raises:
        TypeError: if positions are not arrays of numbers of one library.
        ValueError: if `sides` is unknown, or positions have other shapes.

    >>> distances(np.array([1]), np.array([0, 1, 3]), sides="past")
    array([[[1., 0., 0.]]], dtype=float32)
    """
    for name, positions in (("query_positions", query_positions), ("key_positions", key_positions)):
        check_numbers(name, positions)
        check_rank(name, positions, minimum=1, maximum=2, axes="(length,) or (batch, length)")
    check_libraries(query_positions, key_positions=key_positions)
    check_rows("key_positions", key_positions, "query_positions", query_positions)
    check_known("sides", sides, SIDES)
    return distances_checked(query_positions, key_positions, sides)


def distances_checked(query_positions: Array, key_positions: Array, sides: Sides) -> Array:
    """Return `distances` between checked positions."""
    far = distance_of(*paired(query_positions, key_positions), sides=sides)
    return namespace_of(far).expand_dims(far, axis=-3)


def _check_terms(distance: Array, **terms: Array) -> None:
    """Raise unless the terms of a formula, by their names, are arrays of numbers that broadcast with `distance`."""
    check_numbers("distance", distance)
    for name, x in terms.items():
        check_numbers(name, x)
        check_meet(name, x, "distance", distance)
    if not hasattr(namespace_of(distance), "apply_gufunc"):  # dask, which takes arrays of NumPy
        check_libraries(distance, **terms)


def per_head(x: Array) -> Array:
    """Return one number for each head with the axes of scores: `(heads,) -> (heads, 1, 1)`.

    Raises:
        TypeError: if `x` is not an array of numbers.
    """
    check_numbers("x", x)
    return per_head_checked(x)


def per_head_checked(x: Array) -> Array:
    """Return `per_head` of an array of numbers."""
    xp = namespace_of(x)
    return xp.expand_dims(xp.expand_dims(x, axis=-1), axis=-1)


# The formulas below are elementwise: their arrays of numbers may have any shapes that broadcast against each other.


def distance_of(query: Array, key: Array, *, sides: Sides) -> Array:
    """Return the distances between positions of keys and queries, float32; `sides` as in `distances`."""
    xp = namespace_of(query)
    far = distance(query, key)
    return xp.astype(far if sides == "both" else xp.where(query > key, far, xp.zeros_like(far)), xp.float32)


def linear_bias(slope: Array, distance: Array) -> Array:
    """Return minus slope × distance.

    Source: Press et al. 2022, section 3 (arXiv:2108.12409).

    >>> linear_bias(np.array([0.5]), np.array([0.0, 3.0]))
    array([-0. , -1.5])
    """
    _check_terms(distance, slope=slope)
    return linear_bias_checked(slope, distance)


def linear_bias_checked(slope: Array, distance: Array) -> Array:
    """Return `linear_bias` of checked terms."""
    return -slope * distance


def logarithmic_bias(size: Array, rate: Array, distance: Array) -> Array:
    """Return minus size × log(1 + rate × distance).

    Source: Chi et al. 2022, the logarithmic variant (arXiv:2205.09921).

    >>> logarithmic_bias(np.array([2.0]), np.array([1.0]), np.array([0.0, 1.0])).round(4)
    array([-0.    , -1.3863])
    """
    _check_terms(distance, size=size, rate=rate)
    return logarithmic_bias_checked(size, rate, distance)


def logarithmic_bias_checked(size: Array, rate: Array, distance: Array) -> Array:
    """Return `logarithmic_bias` of checked terms."""
    return -size * namespace_of(distance).log(rate * distance + 1)


def power_bias(size: Array, exponent: Array, distance: Array) -> Array:
    """Return minus size × distance ** exponent.

    It is computed as an exponential, which is off by up to 2**-19 of its size at distances to 2**20.

    Source: Chi et al. 2022, the power variant (arXiv:2205.09921).

    >>> power_bias(np.array([2.0]), np.array([0.5]), np.array([0.0, 1.0, 4.0])).round(4)
    array([-0., -2., -4.])
    """
    _check_terms(distance, size=size, exponent=exponent)
    return power_bias_checked(size, exponent, distance)


def power_bias_checked(size: Array, exponent: Array, distance: Array) -> Array:
    """Return `power_bias` of checked terms."""
    xp = namespace_of(distance)
    away = distance > 0
    logarithms = xp.log(xp.where(away, distance, xp.ones_like(distance)))
    logarithms = xp.where(away, logarithms, xp.full_like(logarithms, _LOG_OF_ZERO))
    return -size * xp.exp(exponent * logarithms)


def normalized_distance(rate: Array, threshold: Array, query: Array, key: Array) -> Array:
    """Return distances on a logarithmic scale, relative to the largest distance of the query: mostly 0 to 1.

    `log(1 + |rate * distance|) / (log(1 + |rate * max(query, threshold)|) + 1e-6)`.

    Args:
        rate: the curvature of the scale.
        threshold: queries before it are treated as if at this position.
        query, key: positions.
    Source: Li et al. 2024 (arXiv:2310.04418); the 1e-6 is that of their program.

    >>> one = np.ones(1, np.float32)
    >>> normalized_distance(one, 4 * one, np.array([3, 9]), np.array([0])).round(4)
    array([0.8614, 1.    ], dtype=float32)
    """
    xp = namespace_of(query)
    farthest = xp.maximum(xp.astype(query, xp.float32), threshold)
    return _log_scale(rate * distance_of(query, key, sides="both")) / (_log_scale(rate * farthest) + 1e-6)


def _log_scale(x: Array) -> Array:
    xp = namespace_of(x)
    return xp.log(xp.abs(x) + 1)


def hidden_unit(x: Array, weight: Array, bias: Array) -> Array:
    """Return the output of a hidden unit of a perceptron: weight × x + bias, or 0 where that is negative."""
    unit = weight * x + bias
    return namespace_of(x).maximum(unit, namespace_of(x).zeros_like(unit))


def clamped(x: Array, *, minimum: float, maximum: float | None = None) -> Array:
    """Return `x` in float32, from `minimum` up to `maximum`; numbers outside have no gradient.

    >>> clamped(np.array([-1.0, 0.5, 3.0]), minimum=0.25, maximum=2.0)
    array([0.25, 0.5 , 2.  ], dtype=float32)
    """
    xp = namespace_of(x)
    wide = xp.astype(x, xp.float32)
    raised = xp.maximum(wide, xp.full_like(wide, minimum))
    return raised if maximum is None else xp.minimum(raised, xp.full_like(raised, maximum))


def perceptron(x: Array, hidden: tuple[Array, Array], heads: tuple[Array, Array]) -> Array:
    """Apply a perceptron with one hidden layer to each number: `(..., queries, keys) -> (..., heads, queries, keys)`.

    Args:
        x: the numbers.
        hidden: weights and biases of the hidden units, shape `(units,)` each; their outputs below 0 become 0.
        heads: weights, shape `(heads, units)`, and biases, shape `(heads,)`, of the result.

    >>> perceptron(np.array([[-1.0, 3.0]]), (np.ones(1), np.ones(1)), (np.full((1, 1), 2.0), np.zeros(1)))
    array([[[0., 8.]]])
    """
    xp = namespace_of(x)
    weight, bias, of_heads = (xp.expand_dims(given, axis=-1) for given in (*hidden, heads[1]))
    units = hidden_unit(xp.expand_dims(x, axis=-2), weight, bias)
    result = xp.matmul(heads[0], units) + of_heads  # (..., queries, heads, keys)
    return xp.permute_dims(result, (0, 2, 1, 3) if len(getattr(x, "shape", ())) == 3 else (1, 0, 2))
