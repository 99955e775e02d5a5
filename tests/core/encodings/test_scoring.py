import numpy as np
import pytest

from posenc_core import Alibi


def test_the_slopes_of_twelve_heads_are_those_of_eight_and_every_other_of_sixteen():
    slopes = Alibi(num_heads=12).constants(1)["slopes"]
    np.testing.assert_array_equal(slopes[:8], 2.0 ** -np.arange(1, 9))
    np.testing.assert_array_equal(slopes[8:], (2.0 ** -np.arange(0.5, 4)).astype(np.float32))


def test_far_positions_keep_their_distance():
    bias = Alibi(num_heads=1).bias([2**30 + 1], [2**30, 2**30 + 1])
    np.testing.assert_array_equal(bias, [[[-1 / 256, 0]]])


@pytest.mark.parametrize("num_heads", [0, -1])
def test_bad_input(num_heads):
    with pytest.raises(ValueError, match="`num_heads` must be at least 1"):
        Alibi(num_heads=num_heads)
