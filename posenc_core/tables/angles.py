"""Angles: positions × frequencies in radians, as the papers write them, in the precision of the inputs.

They are for teaching, for plots and for traced positions. Tables come from `posenc_core.tables.sincos` instead, which
reduces angles exactly and rounds each entry once.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .._array_api.checks import check_floating, check_library, check_numbers, check_rank, host_array
from .._array_api.namespace import Array, beside, dtype_name, namespace_of


def angles(positions: Array, frequencies: Array) -> Array:
    """Compute the outer product of positions and frequencies, in radians.

    Args:
        positions: floating-point, shape `(..., length)`.
        frequencies: radians per position, of the dtype of `positions`, shape `(pairs,)`.
    Returns:
        Angles of that dtype, shape `(..., length, pairs)`.
    Raises:
        TypeError: if one of them is not a floating-point array, or they belong to two libraries.
        ValueError: if `frequencies` have not one axis.
    Source: Su et al. 2021, equation 15 (arXiv:2104.09864).

    >>> import numpy as np
    >>> angles(np.array([0.0, 1.0, 2.0]), np.array([1.0, 0.5]))
    array([[0. , 0. ],
           [1. , 0.5],
           [2. , 1. ]])
    """
    check_floating("positions", positions)
    check_floating("frequencies", frequencies)
    check_library("frequencies", frequencies, positions)
    check_rank("frequencies", frequencies, minimum=1, maximum=1, axes="(pairs,)")
    return namespace_of(positions).expand_dims(positions, axis=-1) * frequencies


def angles_of(positions: Array, frequencies: npt.NDArray[np.float64]) -> Array:
    """Compute `angles` in the library of `positions` from frequencies that are NumPy's.

    Returns:
        Angles, shape `(..., length, pairs)`: float64 if the positions are float64, otherwise float32.
    Raises:
        TypeError: if `positions` is not an array of numbers, or `frequencies` are not real numbers.
        ValueError: if `frequencies` have not one axis.

    >>> angles_of(np.array([2**20], np.float32), np.array([1.0, 0.5]))
    array([[1.048576e+06, 5.242880e+05]], dtype=float32)
    """
    check_numbers("positions", positions)
    frequencies = host_array("frequencies", frequencies)
    check_numbers("frequencies", frequencies)
    xp = namespace_of(positions)
    dtype = "float64" if dtype_name(positions) == "float64" else "float32"
    converted = xp.asarray(frequencies.astype(dtype), **beside(positions))
    return angles(xp.astype(positions, converted.dtype), converted)
