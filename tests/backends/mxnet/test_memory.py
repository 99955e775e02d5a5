"""Tables become arrays of the framework without a conversion."""

import gc

import mxnet as mx
import numpy as np

from posenc_backends.mxnet import PositionalEncoding
from posenc_backends.mxnet import backend as arrays
from posenc_core import Sinusoidal


def test_an_array_shares_the_memory_of_a_table_and_keeps_it_alive():
    table = Sinusoidal(dim=6).table(range(1000))
    wanted = table.copy()
    array = arrays.adopted(table)
    assert not table.flags.writeable
    del table
    gc.collect()
    np.testing.assert_array_equal(array.asnumpy(), wanted)


def test_empty_and_strided_tables():
    assert arrays.adopted(np.zeros((0, 6), np.float32)).shape == (0, 6)
    table = Sinusoidal(dim=6).table(range(1000))
    np.testing.assert_array_equal(arrays.adopted(table[::2]).asnumpy(), table[::2])


def test_arrays_of_users_are_copied():
    """Users may write to them after the call."""
    positions = np.arange(5, dtype=np.int32)
    layer = PositionalEncoding(6, encoding=Sinusoidal(dim=6))
    layer.initialize()
    to_backend = layer.to_backend(positions)
    positions[:] = 7
    mx.nd.waitall()
    np.testing.assert_array_equal(to_backend.asnumpy(), np.arange(5))
