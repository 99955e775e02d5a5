"""Exact angles, minus whole turns: every float32 entry is the true real number, rounded once.

For programs that are given angles and compute cosine and sine themselves.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from ._fixed_point import TWO_PI, Frequencies, nearest_float32, turns_of, wrapped_angles
from ._rounding import Positions, Table, round_or_recompute, rows_at_a_time

_BLOCK = 2**14  # entries: float64 temporaries of this size fit into the second-level cache


def angles_in_turn(positions: Positions, frequencies: Frequencies) -> Table:
    """Compute positions × frequencies modulo 2π, from -π to π radians: `(length,) -> (length, pairs)`.

    A float32 angle in this range is off by at most 2**-23 radians at any position. Without the reduction it is off by
    up to half a radian at position 2**24.

    Args:
        positions: int64 or float64, shape `(length,)`, below 2**31 in size.
        frequencies: radians per position.
    Returns:
        Float32, correctly rounded.

    >>> from posenc_core.tables.frequencies import geometric
    >>> angles_in_turn(np.array([1, 4, 2**24]), geometric(2))
    array([[ 1.       ],
           [-2.2831852],
           [-0.8939689]], dtype=float32)
    """
    turns, step = turns_of(frequencies), rows_at_a_time(_BLOCK, len(frequencies))
    turn = Fraction(TWO_PI)
    angles = np.empty((len(positions), len(frequencies)), np.float32)
    for first in range(0, len(positions), step):
        block = positions[first : first + step]
        value, sizes, floor = wrapped_angles(block[:, None], turns)

        def exact(row: int, column: int, block: Positions = block) -> np.float32:
            angle = Fraction(block[row].item()) * Fraction(frequencies[column])
            return nearest_float32(angle - round(angle / turn) * turn)

        round_or_recompute(angles[first : first + step], value, sizes * 2.0**-51 + floor, exact)
    return angles
