"""Bias: what a position pair adds to an attention score."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt

from ._arrays import Array, dtype_of, namespace_of, paired


def alibi_slopes(num_heads: int) -> npt.NDArray[np.float32]:
    """One slope per head: `2 ** (-8i / n)` for the largest power of two n, then every other one of `2n`.

    Source: Press et al. 2022, section 3 (arXiv:2108.12409).

    >>> alibi_slopes(4)
    array([0.25      , 0.0625    , 0.015625  , 0.00390625], dtype=float32)
    """
    whole = 2 ** (num_heads.bit_length() - 1)
    exponents = [Fraction(8 * i, whole) for i in range(1, whole + 1)]
    exponents += [Fraction(8 * i, 2 * whole) for i in range(1, 2 * whole, 2)][: num_heads - whole]
    return np.array([2.0 ** -float(exponent) for exponent in exponents], np.float32)


def linear(slopes: Array, query_positions: Array, key_positions: Array) -> Array:
    """Minus slope × distance, for each head, query and key.

    Args:
        slopes: shape `(heads,)`.
        query_positions: shape `(queries,)` or `(batch, queries)`.
        key_positions: shape `(keys,)` or `(batch, keys)`.
    Returns:
        Array of shape `(heads, queries, keys)`, or `(batch, heads, queries, keys)`.
    Source: Press et al. 2022, section 3; the keys after a query, which a causal mask hides, count as far as those
        before it.

    >>> linear(np.array([0.5]), np.array([0, 1]), np.array([0, 1]))
    array([[[-0. , -0.5],
            [-0.5, -0. ]]])
    """
    xp = namespace_of(slopes)
    queries, keys = paired(query_positions, key_positions)
    distances = xp.abs(queries - keys)
    per_head = xp.expand_dims(xp.expand_dims(slopes, axis=-1), axis=-1)
    return -per_head * xp.astype(xp.expand_dims(distances, axis=-3), dtype_of(slopes))
