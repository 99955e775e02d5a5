"""Rows of positions that only a running program knows."""

import numpy as np
import pytest

from posenc_backends import load, strict
from posenc_core import Binary, Sinusoidal
from posenc_core.layers.tables import TableLayer, _by_angle

from ..errors import rejects


class TracedBackend(type(strict.BACKEND)):
    """A backend that takes every array for traced."""

    def is_traced(self, array):
        return True


class Traced(TableLayer):
    """A layer of that backend."""

    encoding = Sinusoidal(dim=2)
    backend = TracedBackend()
    auto_expand = True

    def __init__(self, xp):
        self.arrays = self.initial_arrays = {"table": xp.asarray(np.arange(8.0).reshape(4, 2))}


@pytest.fixture
def xp():
    """Arrays that are not NumPy's, whose numbers are always known."""
    return load("strict").namespace


@pytest.fixture
def layer(xp):
    return Traced(xp)


def test_rows_that_the_table_does_not_have_are_nan(xp, layer):
    (rows,) = layer.lookup(xp.zeros((1, 6, 2)), positions=xp.asarray([-1, 0, 3, 4, 2, -(2**31)], dtype=xp.int32))
    nan = [np.nan, np.nan]
    np.testing.assert_array_equal(np.asarray(rows), [nan, [0, 1], [6, 7], nan, [4, 5], nan])


def test_traced_positions_are_wide_integers(xp, layer):
    with pytest.raises(
        TypeError, match=r"Traced positions and lengths must be int32 or int64, got uint8; cast them to int32 first\."
    ):
        layer.lookup(xp.zeros((1, 2, 2)), positions=xp.asarray([0, 1], dtype=xp.uint8))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_real_positions_that_are_traced_are_computed_with_in_their_dtype(xp, layer, dtype):
    positions = xp.asarray([[0.5, 1000.25]], dtype=getattr(xp, dtype))
    (rows,) = layer.lookup(xp.zeros((1, 2, 2)), positions=positions)
    assert str(rows.dtype).endswith(dtype)
    wanted = [[[np.sin(0.5), np.cos(0.5)], [np.sin(1000.25), np.cos(1000.25)]]]
    np.testing.assert_allclose(np.asarray(rows), wanted, rtol=0, atol=2e-7 if dtype == "float32" else 2e-16)


def test_where_rows_are_not_smooth_real_positions_must_be_known(xp, layer):
    vars(layer)["encoding"] = Binary(dim=2)
    with pytest.raises(TypeError, match=r"Traced positions of Binary\(dim=2\) must be int32 or int64, got float32"):
        layer.lookup(xp.zeros((1, 2, 2)), positions=xp.asarray([0.5, 1.0], dtype=xp.float32))


def test_a_traced_layer_does_not_grow(xp, layer):
    with rejects(ValueError, "max_len", "4", "`max_len=5`"):
        layer.lookup(xp.zeros((1, 5, 2)))


def test_tables_double_as_a_cache_grows():
    """So decoding n tokens one by one makes no more rows than twice n, in log n steps."""
    layer, made = load("numpy").PositionalEncoding(2, max_len=4), []
    set_tables = layer.set_tables
    layer.set_tables = lambda constants: (made.append(len(constants["table"])), set_tables(constants))
    for start in range(1000):
        layer(np.zeros((1, 1, 2), np.float32), start=start)
    assert made == [8, 16, 32, 64, 128, 256, 512, 1024]


@pytest.mark.parametrize(
    ("start", "length", "rows"), [(0, 5, 8), (7, 1, 8), (8, 1, 4), (0, 9, 9), (1, 9, 10), (15, 8, 4)]
)
def test_tables_grow_to_twice_their_length_or_that_of_the_call(start, length, rows):
    x = np.zeros((1, length, 2), np.float32)
    for given in ({"start": start}, {"positions": np.arange(start, start + length)}):
        layer = load("numpy").PositionalEncoding(2, max_len=4)
        found = layer(x, **given)
        np.testing.assert_array_equal(found[0], layer.encoding.table(np.arange(start, start + length)))
        assert len(layer.tables[0]) == rows


def test_a_pair_that_follows_one_axis_has_its_derivative():
    derivatives, speeds = (
        np.array([[6.0, 0.0], [0.0, -4.0], [0.0, 0.0]]),
        np.array([[3.0, 0.0], [0.0, -2.0], [0.0, 0.0]]),
    )
    np.testing.assert_array_equal(_by_angle(derivatives, speeds), [2.0, 2.0])
