"""Threads that share hybridized layers: their graphs are made, and let go of when tables grow, by one of them at a time."""

import copy
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import mxnet as mx
import numpy as np
import pytest

from posenc_backends.mxnet import MultiHeadAttention, RotaryEmbedding
from posenc_core import Rotary

ROTARY = Rotary(head_dim=8, layout="half")
LENGTHS = [3 + 5 * i for i in range(16)]
ULP = 2.0**-24


def turns(length):
    """What becomes of tokens of ones: Su et al. 2021, equation 34."""
    angles = np.arange(length)[:, None] / 10000.0 ** (np.arange(4) / 4)
    return np.concatenate([np.cos(angles) - np.sin(angles), np.cos(angles) + np.sin(angles)], axis=-1)


def together(function, arguments):
    """`function` of each argument, all begun at once in threads of their own."""
    ready = threading.Barrier(len(arguments))

    def begun(argument):
        ready.wait()
        return function(argument)

    with ThreadPoolExecutor(len(arguments)) as pool:
        return list(pool.map(begun, arguments))


@pytest.mark.parametrize("again", range(3))
@pytest.mark.parametrize("warm", [False, True], ids=["first call", "later"])
def test_a_graph_whose_tables_grow(warm, again):
    layer = RotaryEmbedding(ROTARY, max_len=4)
    layer.hybridize()
    if warm:
        layer(mx.np.ones((1, 1, 4, 8)))
    arrays = [mx.np.ones((1, 1, length, 8)) for length in LENGTHS]
    for length, got in zip(LENGTHS, together(lambda x: layer(x).asnumpy(), arrays), strict=True):
        np.testing.assert_allclose(got[0, 0], turns(length), rtol=0, atol=4 * ULP)


@pytest.mark.parametrize("again", range(3))
def test_attention_whose_tables_grow(again):
    layer = MultiHeadAttention(16, 2, position=ROTARY)
    layer.rotary = RotaryEmbedding(ROTARY, max_len=2)
    layer.initialize(mx.init.Normal(0.3))
    arrays, fresh = [mx.np.random.normal(0, 1, (2, length, 16)) for length in LENGTHS], copy.deepcopy(layer)
    layer.hybridize()
    for x, got in zip(arrays, together(lambda x: layer(x, x, x).asnumpy(), arrays), strict=True):
        np.testing.assert_allclose(got, fresh(x, x, x).asnumpy(), rtol=0, atol=2e-6)


@pytest.mark.parametrize(
    "again", [copy.deepcopy, lambda layer: pickle.loads(pickle.dumps(layer))], ids=["copy", "pickle"]
)
def test_a_copy_does_not_wait_for_the_original(again):
    layer = RotaryEmbedding(ROTARY, max_len=4)
    layer.hybridize()
    with layer._lock:
        other = again(layer)
        (got,) = together(lambda x: other(x).asnumpy(), [mx.np.ones((1, 1, 9, 8))])
    np.testing.assert_allclose(got[0, 0], turns(9), rtol=0, atol=4 * ULP)


def test_rows_that_are_held_stay():
    """A thread may have looked at them, and be about to run a graph that takes them."""
    layer = RotaryEmbedding(ROTARY, max_len=9)
    layer.set_tables(ROTARY.constants(4))
    assert [table.shape[0] for table in layer.tables] == [9, 9]
