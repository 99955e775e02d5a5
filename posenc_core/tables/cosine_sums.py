"""Exact sums of cosines of a distance: every float32 entry is the true real number, rounded once."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt

from ._fixed_point import Frequencies, cos_sin_to_bits, turns_of, wrapped_angles
from ._rounding import Table, round_once, round_or_recompute, rows_at_a_time

_BLOCK = 2**14  # cosines: float64 temporaries of this size fit into the second-level cache


def cosine_sums(distances: npt.NDArray[np.int64], frequencies: Frequencies) -> Table:
    """Compute the sum of `cos(distance * frequency)` over the frequencies: `(length,) -> (length,)`.

    Args:
        distances: integers below 2**31 in size.
        frequencies: radians per position.
    Returns:
        Float32, correctly rounded.
    Source: rounding test: Ziv 1991, "Fast evaluation of elementary mathematical functions with correctly rounded last
        bit".

    >>> from posenc_core.tables.frequencies import geometric
    >>> cosine_sums(np.array([0, 1]), geometric(4))
    array([2.       , 1.5402523], dtype=float32)
    """
    turns, count = turns_of(frequencies), len(frequencies)
    step, sums = rows_at_a_time(_BLOCK, count), np.empty_like(distances[:, None], np.float32)
    for first in range(0, len(distances), step):
        block = distances[first : first + step]
        angles, sizes, floor = wrapped_angles(block[:, None], turns)
        # each cosine errs as its angle does, and by 4 ulp; each addition by half an ulp of at most `count`
        errors = (sizes * 2.0**-51 + floor + 2.0**-51).sum(axis=-1) + count**2 * 2.0**-53

        def exact(row: int, _: int, block: npt.NDArray[np.int64] = block) -> np.float32:
            exact_angles = [int(block[row]) * Fraction(frequency) for frequency in frequencies]
            return round_once(lambda bits: (sum(cos_sin_to_bits(each, bits)[0] for each in exact_angles), 2 * count))

        round_or_recompute(sums[first : first + step], np.cos(angles).sum(axis=-1)[:, None], errors[:, None], exact)
    return sums.ravel()
