"""Models on two devices: Keras's distributions on JAX, a strategy of TensorFlow."""

import keras
import numpy as np
import pytest

from posenc_backends.keras import MultiHeadAttention, PositionalEncoding, to_numpy
from posenc_core import Learned, T5Bias

from ...many_devices import many_devices

BACKEND = keras.backend.backend()
ON_JAX = pytest.mark.skipif(BACKEND != "jax", reason="Keras distributes on JAX alone")
X = np.random.default_rng(0).normal(size=(4, 5, 8)).astype(np.float32)


def make():
    """Return a compiled model with the same weights each time."""
    keras.utils.set_random_seed(1)
    x = inputs = keras.Input((5, 8))
    x = PositionalEncoding(8, encoding=Learned(dim=8, length=5))(x)
    x = MultiHeadAttention(8, 2, position=T5Bias(num_heads=2))(x, x, x, causal=True)
    model = keras.Model(inputs, x)
    model.compile(keras.optimizers.SGD(0.1), "mse", jit_compile=BACKEND == "jax")
    return model


def trained(model):
    """Return the weights by name after a step."""
    model.fit(X, X, batch_size=4, verbose=0)
    return {weight.path.partition("/")[2]: to_numpy(weight.value) for weight in model.weights}


@pytest.fixture(scope="module")
def wanted():
    return trained(make())


def check(found, wanted):
    for name, numbers in wanted.items():
        np.testing.assert_allclose(found[name], numbers, rtol=0, atol=1e-5, err_msg=name)


@many_devices("Keras", "`DataParallel` on JAX, two devices")
@ON_JAX
def test_data_parallel_learns_what_one_device_learns(wanted):
    distribution = keras.distribution.DataParallel(devices=keras.distribution.list_devices("cpu"))
    with distribution.scope():
        check(trained(make()), wanted)


@many_devices(
    "Keras",
    "`ModelParallel` on JAX, the heads of attention on two devices",
    line='`layout[".*W_[qkv].*kernel"] = (None, "model"); layout[".*W_o.*kernel"] = ("model", None)`',
)
@ON_JAX
def test_model_parallel_splits_the_heads_and_learns_what_one_device_learns(wanted):
    devices = keras.distribution.list_devices("cpu")
    layout = keras.distribution.LayoutMap(keras.distribution.DeviceMesh((1, 2), ("batch", "model"), devices))
    layout[".*W_[qkv].*kernel"] = (None, "model")
    layout[".*W_o.*kernel"] = ("model", None)
    with keras.distribution.ModelParallel(layout_map=layout, batch_dim_name="batch").scope():
        model = make()
        check(trained(model), wanted)
    projections = [getattr(model.layers[-1], name).kernel.value for name in ("W_q", "W_k", "W_v", "W_o")]
    assert [tuple(each.sharding.spec) for each in projections] == [(None, "model")] * 3 + [("model", None)]


@many_devices("Keras", "`MirroredStrategy` on TensorFlow, two devices")
@pytest.mark.skipif(BACKEND != "tensorflow", reason="a strategy of TensorFlow")
def test_a_mirrored_strategy_learns_what_one_device_learns(wanted):
    import tensorflow as tf

    with tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]).scope():
        model = make()
    check(trained(model), wanted)
