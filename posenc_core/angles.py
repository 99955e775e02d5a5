"""Angles: positions × frequencies, in radians. The readable form, in the precision of its inputs.

Tables that are kept come from `tables`, which rounds the true sine once; this is the same product as the papers
write it, for reading, for drawing and for positions that are only known while a program is traced.
"""

from __future__ import annotations

from ._arrays import Array, namespace_of


def angles(positions: Array, frequencies: Array) -> Array:
    """Outer product, radians: `(..., length) x (pairs,) -> (..., length, pairs)`, both of one float dtype.

    Source: Su et al. 2021, equation 15 (arXiv:2104.09864).

    >>> import numpy as np
    >>> angles(np.array([0.0, 1.0, 2.0]), np.array([1.0, 0.5]))
    array([[0. , 0. ],
           [1. , 0.5],
           [2. , 1. ]])
    """
    xp = namespace_of(positions)
    return xp.expand_dims(positions, axis=-1) * frequencies
