"""Models of Keras in training, under its compilers, masks and policies."""

import keras
import numpy as np
import pytest

from posenc_backends.keras import MultiHeadAttention, PositionalEncoding, RotaryEmbedding, to_numpy
from posenc_core import Learned, Rotary, ShawBias, T5Bias

X = np.random.default_rng(0).normal(size=(8, 6, 8)).astype(np.float32)
Y = np.roll(X, 1, axis=1)
ROPE = Rotary(head_dim=4, layout="half")
POSITIONS = [ROPE, T5Bias(num_heads=2), ShawBias(num_heads=2, head_dim=4, max_distance=3)]
COMPILED = POSITIONS[:1] if keras.backend.backend() == "torch" else POSITIONS  # its compiler takes 20 seconds each


def fitted(position, jit, policy="float32"):
    """Return the losses of a model in training."""
    keras.utils.set_random_seed(0)
    tokens = keras.Input((None, 8))
    hidden = PositionalEncoding(8, encoding=Learned(dim=8, length=9), dtype=policy)(tokens)
    hidden = MultiHeadAttention(8, 2, position=position, dtype=policy)(hidden, hidden, hidden)
    model = keras.Model(tokens, keras.layers.Activation("linear", dtype="float32")(hidden))
    optimizer = keras.optimizers.Adam(0.03)
    scaled = keras.optimizers.LossScaleOptimizer(optimizer) if policy == "mixed_float16" else optimizer
    model.compile(scaled, "mse", jit_compile=jit)
    return model.fit(X, Y, batch_size=4, epochs=3, shuffle=False, verbose=0).history["loss"]


@pytest.mark.parametrize("position", COMPILED, ids=lambda position: type(position).__name__)
def test_compiled_training_agrees_with_eager_training(position):
    compiled, eager = fitted(position, True), fitted(position, False)
    assert compiled[-1] < compiled[0]
    np.testing.assert_allclose(compiled, eager, rtol=1e-4)


def test_half_precision_learns_with_a_scaled_loss():
    losses = fitted(ROPE, False, policy="mixed_float16")
    assert np.isfinite(losses).all()
    assert losses[-1] < losses[0]


def test_a_mask_passes_through_and_hides_keys():
    words = keras.Input((None,), dtype="int32")
    embedded = keras.layers.Embedding(6, 8, mask_zero=True)(words)
    hidden = PositionalEncoding(8)(embedded)
    hidden = MultiHeadAttention(8, 2, position=ROPE)(hidden, hidden, hidden)
    model = keras.Model(words, keras.layers.GlobalAveragePooling1D()(hidden))
    short, long = np.array([[1, 2, 3]]), np.array([[1, 2, 3, 0, 0]])
    np.testing.assert_allclose(to_numpy(model(long)), to_numpy(model(short)), rtol=0, atol=1e-6)


def test_queries_and_keys_are_two_inputs_of_one_model():
    q, k = keras.Input((2, None, 4)), keras.Input((1, None, 4))
    layer = RotaryEmbedding(ROPE)
    model = keras.Model([q, k], layer(q, k))
    inputs = [np.random.default_rng(n).normal(size=(3, n, 5, 4)).astype(np.float32) for n in (2, 1)]
    for got, alone in zip(model(inputs), inputs, strict=True):
        np.testing.assert_array_equal(to_numpy(got), to_numpy(layer(keras.ops.convert_to_tensor(alone))))


def test_a_compiled_model_past_its_tables_raises_an_error():
    tokens = keras.Input((None, 8))
    model = keras.Model(tokens, PositionalEncoding(8, max_len=3)(tokens))
    model.compile(jit_compile=True)
    with pytest.raises(ValueError, match="`max_len` is 3"):
        model.predict_on_batch(X)


def model_with_positions(dtype):
    """Return a model under a mixed policy with positions as an input."""
    tokens, positions = keras.Input((None, 8)), keras.Input((None,), dtype=dtype)
    layer = PositionalEncoding(8, max_len=2048, dtype="mixed_bfloat16")
    return keras.Model([tokens, positions], layer(tokens, positions=positions), dtype="mixed_bfloat16")


def test_integer_positions_of_a_model_under_a_mixed_policy_are_exact():
    at = np.tile(np.array([1001, 3, 2047], np.int32), (2, 1))
    got = model_with_positions("int32")([np.zeros((2, 3, 8), np.float32), at])
    rows = PositionalEncoding(8, max_len=2048)(keras.ops.zeros((2, 3, 8)), positions=at)
    np.testing.assert_array_equal(to_numpy(got), to_numpy(keras.ops.cast(rows, "bfloat16")))


def test_real_positions_of_a_model_under_a_mixed_policy_are_exact():
    at = np.tile(np.array([1001.0, 3.5, 2047.0], np.float32), (2, 1))
    got = model_with_positions("float32")([np.zeros((2, 3, 8), np.float32), at])
    rows = PositionalEncoding(8)(keras.ops.zeros((2, 3, 8)), positions=at)
    np.testing.assert_array_equal(to_numpy(got), to_numpy(keras.ops.cast(rows, "bfloat16")))


def test_positions_in_half_precision_are_rejected():
    at = keras.ops.cast(np.array([1001.0, 3.0]), "bfloat16")
    with pytest.raises(TypeError, match="positions"):
        PositionalEncoding(8)(keras.ops.zeros((1, 2, 8)), positions=at)
