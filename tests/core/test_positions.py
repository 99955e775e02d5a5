import re

import numpy as np
import pytest

from posenc_core.positions import counted, counted_from, from_array, sequence


def test_a_sequence_counts_from_start():
    np.testing.assert_array_equal(sequence(4), [0, 1, 2, 3])
    np.testing.assert_array_equal(sequence(2, start=-1), [-1, 0])
    assert sequence(0).shape == (0,)


def test_arrays_become_int64_or_float64():
    assert from_array(np.array([1, 2], np.uint8)).dtype == np.int64
    assert from_array(np.array([1, 2], np.float32)).dtype == np.float64
    assert from_array([[0.5]]).shape == (1, 1)


@pytest.mark.parametrize(
    ("positions", "kind", "message"),
    [
        (3, ValueError, "`positions` must have shape (..., length), got the single number 3."),
        ([True], TypeError, "`positions` must be integers or real numbers, got bool."),
        ([1j], TypeError, "got complex128."),
        (["a"], TypeError, "`positions` must be integers or real numbers"),
        ([np.inf], ValueError, "`positions` must be finite and below 2**31 in size, got inf."),
        ([-(2**31)], ValueError, "got -2147483648."),
        (np.array([2**64 - 5], np.uint64), ValueError, "got 18446744073709551611."),
        ([np.iinfo(np.int64).min], ValueError, "got -9223372036854775808."),
    ],
)
def test_other_positions_are_refused(positions, kind, message):
    with pytest.raises(kind, match=re.escape(message)):
        from_array(positions)


def test_sequences_stay_within_the_limit():
    with pytest.raises(ValueError, match=re.escape("`start` must keep positions below 2**31 in size, got -")):
        sequence(2, start=-(2**70))
    assert sequence(1, start=2**31 - 1) == 2**31 - 1


def test_negative_lengths_are_refused():
    with pytest.raises(ValueError, match=re.escape("`length` must be at least 0, got -1.")):
        sequence(-1)


def test_counting_in_any_library(xp):
    like = xp.zeros(3)
    np.testing.assert_array_equal(np.asarray(counted(4, like=like)), np.arange(4))
    rows = counted_from(xp.asarray([0, 10]), 3)
    np.testing.assert_array_equal(np.asarray(rows), [[0, 1, 2], [10, 11, 12]])
