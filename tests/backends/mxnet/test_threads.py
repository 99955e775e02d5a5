"""Threads that share hybridized layers: one thread at a time builds a graph, or drops it when tables grow."""

import copy
import pickle
import sys
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


@pytest.fixture(autouse=True)
def quick_switches():
    """Let threads alternate as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def rotated_ones(length):
    """Return rotated tokens of ones: Su et al. 2021, equation 34."""
    angles = np.arange(length)[:, None] / 10000.0 ** (np.arange(4) / 4)
    return np.concatenate([np.cos(angles) - np.sin(angles), np.cos(angles) + np.sin(angles)], axis=-1)


def together(function, arguments):
    """Call `function` with each argument in a thread of its own, all at the same time; return the results."""
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
        np.testing.assert_allclose(got[0, 0], rotated_ones(length), rtol=0, atol=4 * ULP)


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
        copied = again(layer)
        (got,) = together(lambda x: copied(x).asnumpy(), [mx.np.ones((1, 1, 9, 8))])
    np.testing.assert_allclose(got[0, 0], rotated_ones(9), rtol=0, atol=4 * ULP)


def test_old_tables_stay_valid():
    """Another thread may be about to run a graph with them."""
    layer = RotaryEmbedding(ROTARY, max_len=9)
    layer.set_tables(ROTARY.constants(4))
    assert [table.shape[0] for table in layer.tables] == [9, 9]


def test_longer_tables_have_a_variable_at_once():
    """Gluon's `var` returns None where another thread takes the variable away between two of its lines."""
    layer = RotaryEmbedding(ROTARY, max_len=4)
    layer.set_tables(ROTARY.constants(9))
    assert [parameter._var.infer_shape()[1] for parameter in layer._reg_params.values()] == [[(9, 4)]] * 2
