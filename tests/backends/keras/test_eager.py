"""TensorFlow's eager tensors and the shared kernel: all derivatives, and the cases that the kernel does not take."""

import gc

import keras
import numpy as np
import pytest

if keras.backend.backend() != "tensorflow":
    pytest.skip("Keras runs on another framework.", allow_module_level=True)

import tensorflow as tf

from posenc_backends._kernels import library
from posenc_core import rotate
from posenc_core._array_api import kernels

RNG = np.random.default_rng(5)


@pytest.fixture
def calls(monkeypatch):
    """A list that grows with each call of the kernel."""
    made, run = [], library.run
    monkeypatch.setattr(library, "run", lambda *arguments: made.append(arguments) or run(*arguments))
    return made


def tensor(*shape):
    return tf.constant(RNG.normal(size=shape).astype(np.float32))


def rotation(*tables):
    return lambda x: rotate(x, *tables, layout="half")


def both(function, *arguments):
    """Return the results of a function with the kernel and without it."""
    with_kernel = function(*arguments)
    held = dict(kernels._kernels)
    kernels._kernels.clear()
    try:
        return with_kernel, function(*arguments)
    finally:
        kernels._kernels.update(held)


def gradients(function, x, *sources, persistent=False):
    with tf.GradientTape(persistent=persistent) as tape:
        tape.watch([x, *sources])
        result = function(x)
    return tape.gradient(result, [x, *sources])


def second(function, x):
    return gradients(lambda x: gradients(lambda x: tf.reduce_sum(function(x) ** 3), x)[0], x)


def tangent(function, x):
    with tf.autodiff.ForwardAccumulator(x, x + 1) as accumulator:
        result = function(x)
    return [result, accumulator.jvp(result)]


def of_taken_rows(function, x):
    """Take some rows of a result: the gradient arrives as `tf.IndexedSlices`."""
    return gradients(lambda x: tf.gather(function(x), [1, 0, 1]), x)


WAYS = {
    "twice": second,
    "forward": tangent,
    "persistent": lambda function, x: gradients(function, x, persistent=True),
    "rows": of_taken_rows,
}


@pytest.mark.parametrize("derivative", WAYS.values(), ids=WAYS)
def test_derivatives_agree_with_the_reference(calls, derivative):
    x, cos, sin = tensor(2, 3, 33, 40), tensor(33, 20), tensor(33, 20)
    for with_kernel, expected in zip(*both(derivative, rotation(cos, sin), x), strict=True):
        np.testing.assert_array_equal(with_kernel, expected)
    assert len(calls) >= 2


def test_learned_tables_have_gradients(calls):
    x, cos, sin = tensor(2, 3, 33, 40), tensor(33, 20), tensor(33, 20)
    for with_kernel, expected in zip(*both(gradients, rotation(cos, sin), x, cos, sin), strict=True):
        np.testing.assert_array_equal(with_kernel, expected)
    assert not calls


def test_results_have_memory_of_their_own(calls):
    """Later calls change neither earlier results nor their inputs."""
    x, tables = tensor(2, 3, 33, 40), [tensor(33, 20), tensor(33, 20)]
    before = x.numpy().copy()

    def rotated():
        return [rotation(*tables)(x + number) for number in range(50)]

    results, expected = both(rotated)
    assert len(calls) == 50
    tables.clear()
    gc.collect()
    for result, wanted in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result, wanted)
    np.testing.assert_array_equal(x, before)


def test_the_kernel_waits_for_pending_operations(calls):
    x, cos, sin = tensor(64, 64), tensor(64, 32), tensor(64, 32)

    def product():
        return rotation(cos, sin)(tf.linalg.matmul(tf.tile(x, [1, 200]), tf.tile(x, [200, 1])))

    tf.config.experimental.set_synchronous_execution(False)
    try:
        with_kernel = product().numpy()
    finally:
        tf.config.experimental.set_synchronous_execution(True)
    np.testing.assert_array_equal(with_kernel, both(product)[1])
    assert calls


def intercepted(function, x):
    tf.debugging.enable_check_numerics()
    try:
        return function(x)
    finally:
        tf.debugging.disable_check_numerics()


LEFT_ALONE = {
    "tf.function": lambda function, x: tf.function(function)(x),
    "captured": lambda function, x: tf.function(lambda: function(x))(),
    "vectorized_map": tf.vectorized_map,
    "tf.data": lambda function, x: next(iter(tf.data.Dataset.from_tensors(x).map(function))),
    "variable": lambda function, x: function(tf.Variable(x)),
    "intercepted": intercepted,
}


@pytest.mark.parametrize("way", LEFT_ALONE.values(), ids=LEFT_ALONE)
def test_the_kernel_does_not_take_other_tensors(calls, way):
    x, function = tensor(2, 3, 33, 40), rotation(tensor(33, 20), tensor(33, 20))
    found, plain = both(way, function, x)
    np.testing.assert_array_equal(found, plain)
    assert not calls


def test_eager_code_within_a_graph_uses_the_kernel(calls):
    x, function = tensor(2, 3, 33, 40), rotation(tensor(33, 20), tensor(33, 20))
    found, plain = both(tf.function(lambda x: tf.py_function(function, [x], tf.float32)), x)
    np.testing.assert_array_equal(found, plain)
    assert len(calls) == 1
