import numpy as np
import pytest

from posenc_backends import load
from posenc_core._array_api.namespace import paired
from posenc_core.attention.bias import (
    alibi_slopes,
    clamped,
    distances,
    linear_bias,
    logarithmic_bias,
    normalized_distance,
    per_head,
    perceptron,
    power_bias,
)

STRICT = load("strict").namespace


def test_slopes_of_a_power_of_two_are_one_geometric_series_in_both_orders():
    for heads in (1, 2, 16, 64):
        np.testing.assert_array_equal(alibi_slopes(heads), alibi_slopes(heads, order="geometric"))


def test_slopes_that_powers_of_two_are_come_out_so():
    np.testing.assert_array_equal(alibi_slopes(8), 2.0 ** -np.arange(1, 9))
    np.testing.assert_array_equal(alibi_slopes(4, max_bias=200), (2.0 ** (-50 * np.arange(1.0, 5))).astype(np.float32))


def test_the_slopes_of_twelve_heads_are_those_of_eight_and_every_other_of_sixteen():
    np.testing.assert_array_equal(alibi_slopes(12)[:8], 2.0 ** -np.arange(1, 9))
    np.testing.assert_array_equal(alibi_slopes(12)[8:], (2.0 ** -np.arange(0.5, 4)).astype(np.float32))


def test_the_order_is_that_which_mpt_and_fastertransformer_write():
    for heads in (*range(2, 34), 63, 64, 65, 71, 127, 128, 129, 199):
        whole = 2 ** (heads - 1).bit_length()
        slopes = 2.0 ** (-8 * np.arange(1, whole + 1) / whole)
        mpt = slopes if whole == heads else np.concatenate([slopes[1::2], slopes[::2]])[:heads]
        np.testing.assert_array_equal(alibi_slopes(heads), mpt.astype(np.float32))


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.float64])
def test_distances_are_counted_in_the_dtype_of_the_positions(dtype):
    queries, keys = np.array([100], dtype), np.array([-100, 99, 101], dtype)
    np.testing.assert_array_equal(distances(queries, keys)[0], [[200, 1, 1]])
    np.testing.assert_array_equal(distances(queries, keys, sides="past")[0], [[200, 1, 0]])
    far = distances(np.array([2**30 + 1]), np.array([2**30]))
    np.testing.assert_array_equal(far, [[[1]]])


def test_batches_of_either_side_spread():
    one, two = np.arange(3), np.array([[0, 1], [5, 5]])
    assert distances(one, two).shape == (2, 1, 3, 2)
    np.testing.assert_array_equal(distances(two, one)[1, 0], [[5, 4, 3]] * 2)
    assert linear_bias(per_head(np.ones(4, np.float32)), distances(two, one)).shape == (2, 4, 2, 3)


def test_kernels_of_real_distances():
    far = np.array([[[0.0, 0.25, 1.0, 9.0]]])
    two = np.array([2.0])
    np.testing.assert_allclose(logarithmic_bias(two, np.array([3.0]), far)[0, 0], -2 * np.log1p(3 * far[0, 0]))
    np.testing.assert_allclose(power_bias(two, np.array([0.5]), far)[0, 0], [0, -1, -2, -6])
    assert power_bias(two.astype(np.float32), np.float32([0.01]), np.float32([[[0]]])) == 0


def test_what_is_clamped_is_told_by_no_rounding():
    np.testing.assert_array_equal(clamped(np.array([0.0, 0.5]), minimum=0.01), np.float32([0.01, 0.5]))


def test_shares_are_of_the_farthest_key_from_the_threshold_on():
    rate, threshold = np.float32([0.5]), np.float32([4])
    shares = normalized_distance(rate, threshold, np.array([[2], [4], [2**20]]), np.array([0, 2]))
    bent = np.log1p(0.5 * np.array([[2, 0], [4, 2], [2**20, 2**20 - 2]]))
    farthest = np.log1p(0.5 * np.array([[4], [4], [2**20]])) + 1e-6
    np.testing.assert_allclose(shares, bent / farthest, rtol=2e-7)


def test_the_standard_is_enough():
    arrays = [STRICT.asarray(array) for array in (np.array([[0, 3], [1, 2]]), np.arange(3))]
    far = distances(*arrays)
    numbers = (STRICT.asarray(np.float32([number])) for number in (0.5, 4))
    shares = normalized_distance(*numbers, *paired(*arrays))
    hidden = STRICT.asarray(np.ones(5, np.float32))
    heads = STRICT.asarray(np.ones((2, 5), np.float32)), STRICT.asarray(np.zeros(2, np.float32))
    assert perceptron(shares, (hidden, hidden), heads).shape == (2, 2, 2, 3)
    assert power_bias(per_head(hidden), per_head(hidden), far).shape == (2, 5, 2, 3)
