"""Threads and processes that call one layer."""

import multiprocessing
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import jax
import numpy as np

from posenc_backends.jax import RotaryEmbedding
from posenc_core import Rotary

from .plain import WIDTH, rotated, tokens

ROTARY = Rotary(head_dim=WIDTH, layout="half")


def test_sixteen_threads_call_one_compiled_layer():
    """It is compiled for several lengths while they call it, and its tables grow."""
    layer, ready = RotaryEmbedding(ROTARY, max_len=16), threading.Barrier(16)
    call = jax.jit(lambda layer, x: layer(x))

    def begun(number):
        x = tokens(1, 2, 5 + number % 3, WIDTH, seed=number)
        ready.wait()
        if number == 0:
            layer(np.ones((1, 2, 33, WIDTH), np.float32))
        return x, [np.asarray(call(layer, x)) for _ in range(20)]

    with ThreadPoolExecutor(16) as pool:
        for x, results in pool.map(begun, range(16)):
            for result in results:
                np.testing.assert_allclose(result, rotated(x, range(x.shape[2])), rtol=0, atol=1e-6)
    assert layer.tables[0].shape[0] >= 33


def test_a_spawned_worker_receives_a_layer_and_calls_it():
    """A forked process would inherit locks of JAX's threads without the threads."""
    layer, x = RotaryEmbedding(ROTARY, max_len=4), tokens(1, 2, 7, WIDTH)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        np.testing.assert_allclose(pool.submit(layer, x).result(), rotated(x, range(7)), rtol=0, atol=1e-6)
