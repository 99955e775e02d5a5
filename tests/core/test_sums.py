"""Angles that are sums over axes, compared with mpmath where float64 is not precise enough."""

from decimal import Decimal

import mpmath as mp
import numpy as np

from posenc_core.tables.multi_axis import cos_sin_of_sums

mp.mp.dps = 60


def nearest(value):
    """Return the nearest float32 of a number of 60 digits; rounding twice is safe because the digits are random."""
    return np.float32(float(value))


def test_entries_are_correctly_rounded_where_the_sum_almost_cancels():
    """Use angles close to a whole number of turns: their sine has few digits of the products."""
    rng = np.random.default_rng(0)
    turns = rng.normal(size=(3, 64)) * 100
    positions = rng.normal(size=(3, 1)) * 1e5
    turns[2] = (np.rint(positions[:2].T @ turns[:2])[0] - (positions[:2].T @ turns[:2])[0]) / positions[2, 0]
    cos, sin = cos_sin_of_sums(positions, turns)
    assert np.abs(sin).max() < 1e-6
    for j in range(64):
        angle = 2 * mp.pi * mp.fsum(mp.mpf(p) * mp.mpf(t) for p, t in zip(positions[:, 0], turns[:, j], strict=True))
        assert sin[0, j] == nearest(mp.sin(angle))
        assert cos[0, j] == nearest(mp.cos(angle))


def test_factors_of_any_sign_are_rounded_with_the_entry():
    positions, turns = np.array([[0.3, 7.0], [1.25, -2.0]]), np.array([[1.5, -0.7], [2.0, 0.1]])
    factors = Decimal("-12.5"), Decimal(3)
    cos, sin = cos_sin_of_sums(positions, turns, factors=factors)
    for k in range(2):
        for j in range(2):
            angle = (
                2 * mp.pi * mp.fsum(mp.mpf(p) * mp.mpf(t) for p, t in zip(positions[:, k], turns[:, j], strict=True))
            )
            assert cos[k, j] == nearest(float(factors[j]) * mp.cos(angle))
            assert sin[k, j] == nearest(float(factors[j]) * mp.sin(angle))


def test_quarters_of_a_turn_are_exact():
    cos, sin = cos_sin_of_sums(np.array([[0.0, 1.0, 1.0, 2.0**30], [0.0, 1.0, 2.0, 1.0]]), np.array([[0.25], [0.25]]))
    np.testing.assert_array_equal(cos[:, 0], [1, -1, 0, 0])
    np.testing.assert_array_equal(sin[:, 0], [0, 0, -1, 1])


def test_no_positions_give_no_rows():
    assert cos_sin_of_sums(np.zeros((2, 3, 0)), np.ones((2, 4)))[0].shape == (3, 0, 4)


def test_rows_do_not_depend_on_other_rows():
    rng = np.random.default_rng(1)
    positions, turns = rng.normal(size=(2, 700)) * 100, rng.normal(size=(2, 64))
    together, apart = cos_sin_of_sums(positions, turns), cos_sin_of_sums(positions[:, 600:], turns)
    for all_rows, some in zip(together, apart, strict=True):
        np.testing.assert_array_equal(all_rows[600:], some)
