"""Rotations in TensorFlow's graphs: the gradients of tokens and tables are right."""

from functools import partial

import keras
import numpy as np
import pytest

from posenc_backends.keras import MultiHeadAttention, RotaryEmbedding
from posenc_core import Rotary, attend, rotate, unrotate
from posenc_core.rotation import pairing_of, rotate_checked

pytestmark = pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="graphs of TensorFlow")
RNG = np.random.default_rng(5)


def numbers(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def wanted(x, cos, sin, given, layout):
    """Return the gradients of `x` and both tables, by NumPy: the rotation back, and sums over batch and heads."""
    pairing, (length, width) = pairing_of(layout), x.shape[-2:]
    back = rotate_checked(given, cos, -sin, pairing.inverse)
    flat = np.eye(length * width // 2, dtype=np.float32).reshape(-1, length, width // 2)
    nothing = np.zeros_like(flat[0])
    of_cos = [np.vdot(given, rotate_checked(x, each, nothing, pairing)) for each in flat]
    of_sin = [np.vdot(given, rotate_checked(x, nothing, each, pairing)) for each in flat]
    return back, *(np.reshape(each, cos.shape) for each in (of_cos, of_sin))


@pytest.mark.parametrize("layout", ["half", "interleaved", "interleaved_to_half"])
@pytest.mark.parametrize("jit", [False, True])
def test_gradients_in_graphs(layout, jit):
    import tensorflow as tf

    host = [numbers(2, 3, 5, 8), numbers(5, 4), numbers(5, 4), numbers(2, 3, 5, 8)]

    @tf.function(jit_compile=jit)
    def gradients(x, cos, sin, given):
        with tf.GradientTape() as tape:
            tape.watch((x, cos, sin))
            result = rotate(x, cos, sin, layout=layout)
        return tape.gradient(result, (x, cos, sin), given)

    for found, each in zip(gradients(*map(tf.constant, host)), wanted(*host, layout), strict=True):
        np.testing.assert_allclose(found.numpy(), each, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("jit", [False, True])
def test_gradients_of_graphs_have_gradients(jit):
    """The gradient with respect to x is linear in what comes back, and in the tables."""
    import tensorflow as tf

    x, cos, sin, given, weights = (tf.constant(numbers(*shape)) for shape in ((3, 8), (3, 4), (3, 4), (3, 8), (3, 8)))

    @tf.function(jit_compile=jit)
    def twice(cos, given):
        with tf.GradientTape() as outer:
            outer.watch((cos, given))
            with tf.GradientTape() as inner:
                inner.watch(x)
                result = rotate(x, cos, sin, layout="half")
            back = tf.reduce_sum(weights * inner.gradient(result, x, given))
        return outer.gradient(back, (cos, given))

    of_cos, of_given = twice(cos, given)
    np.testing.assert_allclose(of_given, rotate(weights.numpy(), cos.numpy(), sin.numpy(), layout="half"), atol=1e-5)
    _, expected, _ = wanted(weights[None, None].numpy(), cos.numpy(), sin.numpy(), given[None, None].numpy(), "half")
    np.testing.assert_allclose(of_cos, expected, rtol=1e-5, atol=1e-5)


def test_gradients_of_some_rows_come_back_to_them():
    """What is gathered has a gradient of slices."""
    import tensorflow as tf

    x, cos, sin = numbers(4, 3, 8), numbers(3, 4), numbers(3, 4)

    @tf.function
    def gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            some = tf.gather(rotate(x, cos, sin, layout="half"), [2, 0])
        return tape.gradient(some, x)

    wanted = np.zeros_like(x)
    wanted[[0, 2]] = unrotate(np.ones((2, 3, 8), np.float32), cos, sin, layout="half")
    np.testing.assert_allclose(gradient(tf.constant(x)), wanted, atol=1e-6)


def test_sizes_may_be_unknown_in_graphs():
    import tensorflow as tf

    @tf.function(input_signature=[tf.TensorSpec((None, None, 8)), tf.TensorSpec((None, 4)), tf.TensorSpec((None, 4))])
    def rotated(x, cos, sin):
        return rotate(x, cos, sin, layout="interleaved")

    for length in (3, 7):
        x, cos, sin = numbers(2, length, 8), numbers(length, 4), numbers(length, 4)
        np.testing.assert_allclose(rotated(x, cos, sin), rotate(x, cos, sin, layout="interleaved"), atol=1e-6)
    at_known, x = partial(RotaryEmbedding(Rotary(head_dim=4, layout="half")), positions=[5, 1, 2]), numbers(1, 3, 4)
    np.testing.assert_allclose(tf.function(at_known, input_signature=[tf.TensorSpec((1, None, 4))])(x), at_known(x))
    for keys in (None, 3):
        shapes = [tf.TensorSpec((1, None, 4)), *2 * [tf.TensorSpec((1, keys, 4))]]
        got = tf.function(partial(attend, is_causal=True), input_signature=shapes)(x, x, x)
        np.testing.assert_allclose(got, attend(x, x, x, is_causal=True), atol=1e-6)
    attended = partial(MultiHeadAttention(4, 2), valid_lens=3)
    with pytest.raises(ValueError, match=r"`valid_lens` must have shape \(.*\), got \(\)\."):
        tf.function(attended, input_signature=3 * [tf.TensorSpec((None, 3, 4))])(x, x, x)


def test_tensors_around_a_graph_are_its_constants():
    import tensorflow as tf

    layer, x, lengths = MultiHeadAttention(4, 2), numbers(2, 3, 4), tf.constant([3, 1])
    wanted = layer(x, x, x, lengths)
    np.testing.assert_allclose(tf.function(lambda x: layer(x, x, x, lengths))(x), wanted, atol=1e-6)


@pytest.mark.parametrize("layout", ["half", "interleaved", "interleaved_to_half"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_graphs_of_rows_rotate_as_the_formula(layout, dtype):
    """`tf.vectorized_map` rewrites operators: some of them mistake its axis for theirs."""
    import tensorflow as tf

    x, cos, sin = tf.cast(numbers(3, 2, 5, 8), dtype), numbers(5, 4), numbers(5, 4)
    exact = rotate(tf.cast(x, "float32").numpy(), cos, sin, layout=layout)

    @tf.function
    def by_row(x):
        return tf.vectorized_map(lambda row: rotate(row, cos, sin, layout=layout), x, fallback_to_while_loop=False)

    np.testing.assert_array_equal(tf.cast(by_row(x), "float32"), tf.cast(tf.cast(exact, dtype), "float32"))
