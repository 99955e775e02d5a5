"""Values on both sides of limits and conditions that samples of `nox -s mutants` showed untested."""

from contextlib import nullcontext

import numpy as np
import pytest

from posenc_core import Normalized, Sinusoidal, draw_augmentation
from posenc_core.encodings.scoring.base import Scoring
from posenc_core.tables._angle_addition import are_consecutive

from .test_bad_values import SWEEP

FARTHEST = 2**31 - 1
SCORING = [cls(**options) for cls, options, _ in SWEEP if issubclass(cls, Scoring)]


@pytest.mark.parametrize("encoding", SCORING, ids=repr)
def test_scores_have_positions_up_to_both_limits(encoding):
    lowest = -FARTHEST if encoding.limit > FARTHEST else 0
    for position, is_valid in (
        (lowest, True),
        (lowest - 1, False),
        (encoding.limit - 1, True),
        (encoding.limit, False),
    ):
        expected = (
            nullcontext() if is_valid else pytest.raises(ValueError, match=f"from {lowest} to {encoding.limit - 1}")
        )
        with expected:
            encoding.check_positions("positions", np.array([0, position]))
        with expected:
            encoding.check_positions("positions", range(position, position + 1))


def test_only_integers_from_0_in_steps_of_1_are_consecutive():
    blocks = ([0, 1, 2], [5, 6, 7], [0, 2, 4], [3, 3, 3], [2, 1, 0], [-1, 0, 1], [0, 1, 3])
    assert are_consecutive(np.array(blocks).ravel(), 3) == [True, True, *[False] * 5]
    assert are_consecutive(np.array(blocks, float).ravel(), 3) == []


@pytest.mark.parametrize("step", [2, 3, -1])
def test_a_table_at_steps_has_the_rows_of_its_positions(step):
    encoding = Sinusoidal(dim=64)
    positions = np.arange(4096)
    np.testing.assert_array_equal(encoding.table(positions[::step]), encoding.table(positions)[::step])


@pytest.mark.parametrize("encoding", [Normalized(dim=2, length=4), Normalized(dim=1, length=1)], ids=repr)
def test_traced_rows_are_those_of_eager_code_or_nan(encoding):
    positions = np.arange(-2, 7).astype(np.float32)
    (rows,) = encoding.traced_rows(positions)
    known = (positions >= 0) & (positions < encoding.length)
    np.testing.assert_array_equal(np.isnan(rows).all(axis=1), ~known)
    np.testing.assert_array_equal(rows[known], encoding.table(positions[known].astype(int)))


@pytest.mark.parametrize("seed", [0, 2**32 - 1, (0, 2**32 - 1)])
def test_seeds_have_32_bits(seed):
    assert draw_augmentation(2, seed=seed, shift=0.5).shift.shape == (2,)
    for wrong in (-1, 2**32):
        with pytest.raises(ValueError, match="`seed`"):
            draw_augmentation(2, seed=(0, wrong), shift=0.5)
