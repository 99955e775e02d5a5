"""Tables are handed over without a copy."""

import gc

import numpy as np
import paddle

from posenc_backends.paddle import PositionalEncoding
from posenc_backends.paddle import backend as arrays
from posenc_core import Sinusoidal


def test_a_tensor_lives_in_the_memory_of_a_table_and_keeps_it():
    table = Sinusoidal(dim=6).table(range(1000))
    wanted, address = table.copy(), table.__array_interface__["data"][0]
    tensor = arrays.adopted(table)
    assert tensor.data_ptr() == address
    del table
    gc.collect()
    np.testing.assert_array_equal(tensor.numpy(), wanted)


def test_what_lies_in_steps_is_copied():
    table = Sinusoidal(dim=6).table(range(1000))
    tensor = arrays.adopted(table[::2])
    table[...] = 0
    np.testing.assert_array_equal(tensor.numpy(), Sinusoidal(dim=6).table(range(0, 1000, 2)))


def test_what_users_give_is_copied():
    """They may write to it after the call."""
    positions = np.arange(5)
    layer = PositionalEncoding(6, encoding=Sinusoidal(dim=6))
    to_backend = layer.to_backend(positions)
    positions[:] = 7
    np.testing.assert_array_equal(to_backend.numpy(), np.arange(5))


def test_two_layers_hold_memory_of_their_own():
    first, second = (PositionalEncoding(6, encoding=Sinusoidal(dim=6)) for _ in range(2))
    with paddle.no_grad():
        first.arrays["table"][0, 0] = 9.0
    assert float(second.arrays["table"][0, 0]) == 0
