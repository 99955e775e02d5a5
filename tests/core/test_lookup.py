"""Rows of positions that only a running program knows."""

import numpy as np
import pytest

from posenc_backends import load
from posenc_core import Sinusoidal
from posenc_core.lookup import TableLookup


class Traced(TableLookup):
    """A layer whose room says of every array that it is traced."""

    encoding = Sinusoidal(dim=2)

    def __init__(self, xp):
        self.room, self.held = self, {"table": xp.asarray(np.arange(8.0).reshape(4, 2))}

    def is_traced(self, array):
        return True


@pytest.fixture
def xp():
    """Arrays that are not NumPy's, whose numbers are always known."""
    return load("strict").namespace


@pytest.fixture
def layer(xp):
    return Traced(xp)


def test_rows_that_the_table_does_not_have_are_nan(xp, layer):
    (rows,) = layer.rows(xp.zeros((1, 6, 2)), positions=xp.asarray([-1, 0, 3, 4, 2, -(2**31)], dtype=xp.int32))
    nan = [np.nan, np.nan]
    np.testing.assert_array_equal(np.asarray(rows), [nan, [0, 1], [6, 7], nan, [4, 5], nan])


def test_traced_positions_are_wide_integers(xp, layer):
    for dtype, name in ((xp.float32, "float32"), (xp.uint8, "uint8")):
        with pytest.raises(
            TypeError,
            match=f"Traced positions and lengths must be int32 or int64, got {name}; real positions must be known",
        ):
            layer.rows(xp.zeros((1, 2, 2)), positions=xp.asarray([0, 1], dtype=dtype))


def test_a_traced_layer_does_not_grow(xp, layer):
    with pytest.raises(ValueError, match="`max_len` is 4, but position 4 is asked for while the layer is traced"):
        layer.rows(xp.zeros((1, 5, 2)))
