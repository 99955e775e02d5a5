"""Angles: positions × frequencies, in radians. The readable form, in the precision of its inputs.

Tables that are kept come from `tables`, which rounds the true sine once; this is the same product as the papers
write it, for reading, for drawing and for positions that are only known while a program is traced.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .._array_api.namespace import Array, dtype_name, namespace_of


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


def angles_of(positions: Array, frequencies: npt.NDArray[np.float64]) -> Array:
    """`angles` in the library of `positions`, of frequencies that are known: in float64 where positions are, else float32.

    >>> angles_of(np.array([2**20], np.float32), np.array([1.0, 0.5]))
    array([[1.048576e+06, 5.242880e+05]], dtype=float32)
    """
    xp = namespace_of(positions)
    wide = "float64" if dtype_name(positions) == "float64" else "float32"
    known = xp.asarray(frequencies.astype(wide), device=getattr(positions, "device", None))
    return angles(xp.astype(positions, known.dtype), known)
