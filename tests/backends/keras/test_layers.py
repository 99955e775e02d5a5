"""What Keras users do with a layer."""

import keras
import numpy as np
import pytest

from posenc_backends.keras import MultiHeadAttention, PositionalEncoding, RotaryEmbedding, to_numpy
from posenc_core import Alibi, Learned, Rotary, Sinusoidal, T5Bias

ROTARY = Rotary(head_dim=8, layout="half")


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16", "float16"])
def test_no_policy_reaches_tables_or_positions(policy):
    layer = PositionalEncoding(8, dtype=policy)
    np.testing.assert_array_equal(to_numpy(layer.P)[0], Sinusoidal(dim=8).table(range(1000)))
    positions = np.array([1001.0, 100003.0, 0.5])
    got = layer(keras.ops.zeros((1, 3, 8)), positions=positions)
    assert keras.backend.standardize_dtype(got.dtype) == layer.compute_dtype
    wanted = keras.ops.cast(Sinusoidal(dim=8).table(positions), layer.compute_dtype)
    np.testing.assert_array_equal(to_numpy(got)[0], to_numpy(wanted))


@pytest.mark.parametrize(
    "layer",
    [
        PositionalEncoding(8, 0.1, 50, encoding=Sinusoidal(dim=8, convention="timestep")),
        PositionalEncoding(8, combine="concat"),
        RotaryEmbedding(ROTARY, max_len=7),
        MultiHeadAttention(8, 2, 0.1, True, position=Alibi(num_heads=2)),
        MultiHeadAttention(8, 1, position=ROTARY),
        MultiHeadAttention(8, 4, num_kv_heads=2),
    ],
    ids=["addition", "concat", "rotation", "attention with Alibi", "attention with Rotary", "attention in groups"],
)
def test_a_layer_is_created_from_its_config(layer):
    config = layer.get_config()
    assert type(layer).from_config(config).get_config() == config


def test_a_model_of_unknown_length_learns_and_is_saved(tmp_path):
    tokens = keras.Input((None, 8))
    hidden = PositionalEncoding(8, encoding=Learned(dim=8, length=12))(tokens)
    hidden = MultiHeadAttention(8, 2, 0.1, position=Rotary(head_dim=4, layout="half"))(hidden, hidden, hidden)
    model = keras.Model(tokens, hidden)
    model.compile("sgd", "mse")
    x = np.random.default_rng(0).normal(size=(4, 6, 8)).astype(np.float32)
    before = model.evaluate(x, x, verbose=0)
    model.fit(x, x, epochs=3, verbose=0)
    assert model.evaluate(x, x, verbose=0) < before
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    longer = x.reshape(2, 12, 8)
    np.testing.assert_array_equal(again.predict(longer, verbose=0), model.predict(longer, verbose=0))


def test_tables_are_not_weights():
    assert not PositionalEncoding(8).weights
    assert not RotaryEmbedding(ROTARY).weights


def test_attention_does_not_see_masked_keys():
    tokens = keras.layers.Embedding(6, 8, mask_zero=True)
    attention = MultiHeadAttention(8, 2)
    long, short = (tokens(np.array([row])) for row in ([1, 2, 3, 0, 0], [1, 2, 3]))
    got, wanted = to_numpy(attention(long, long, long)), to_numpy(attention(short, short, short))
    np.testing.assert_allclose(got[:, :3], wanted, atol=1e-6)


def test_a_model_returns_attention_weights_and_cache_and_is_saved(tmp_path):
    tokens, seen = keras.Input((None, 8)), keras.Input((None, None), dtype="bool")
    attention = MultiHeadAttention(8, 2, position=Rotary(head_dim=4, layout="half"), num_kv_heads=1)
    options = {"causal": True, "weights": True, "cache": ()}
    output = attention(tokens, tokens, tokens, mask=keras.ops.expand_dims(seen, 1), **options)
    keras.Model([tokens, seen], [output.result, output.weights, *output.cache]).save(tmp_path / "model.keras")
    x = np.random.default_rng(0).normal(size=(2, 5, 8)).astype(np.float32)
    mask = np.random.default_rng(1).random((2, 5, 5)) < 0.6
    again = keras.saving.load_model(tmp_path / "model.keras")([x, mask])
    direct = attention(x, x, x, mask=mask[:, None], **options)
    for got, wanted in zip(again, (direct.result, direct.weights, *direct.cache), strict=True):
        np.testing.assert_allclose(to_numpy(got), to_numpy(wanted), rtol=0, atol=1e-6)


def test_a_mask_of_attention_is_not_a_padding_mask_of_its_result():
    tokens = keras.layers.Embedding(6, 8, mask_zero=True)(np.array([[1, 2, 0]]))
    result = MultiHeadAttention(8, 2)(tokens, tokens, tokens, mask=np.ones((3, 3), bool))
    pooled = keras.layers.GlobalAveragePooling1D()(result)
    np.testing.assert_allclose(to_numpy(pooled)[0], to_numpy(result)[0, :2].mean(axis=0), atol=1e-6)


@pytest.mark.parametrize("asked", [{"weights": True}, {"cache": ()}, {"weights": True, "cache": ()}], ids=str)
def test_a_functional_model_returns_the_requested_outputs(asked):
    tokens, layer = keras.Input((5, 8)), MultiHeadAttention(8, 4)
    model = keras.Model(tokens, layer(tokens, tokens, tokens, **asked))
    x = keras.random.normal((2, 5, 8))
    for got, wanted in zip(keras.tree.flatten(model(x)), keras.tree.flatten(layer(x, x, x, **asked)), strict=True):
        np.testing.assert_allclose(to_numpy(got), to_numpy(wanted), rtol=1e-6)


def test_weights_are_named_by_their_part_and_take_initializers():
    """So that a `LayoutMap` finds them, and `exclude_from_weight_decay`."""
    normal = keras.initializers.RandomNormal(stddev=5.0)
    options = {
        "position": T5Bias(num_heads=2),
        "kernel_initializer": normal,
        "bias_initializer": "ones",
        "name": "self",
    }
    layer = MultiHeadAttention(8, 2, bias=True, **options)
    names = [f"self/{part}/{weight}" for part in ("W_q", "W_k", "W_v", "W_o") for weight in ("kernel", "bias")]
    for made in (layer, MultiHeadAttention.from_config(layer.get_config())):
        assert [weight.path for weight in made.weights] == [*names, "self/scoring/table"]
        kernels = [to_numpy(part.kernel.value) for part in (made.W_q, made.W_k, made.W_v, made.W_o)]
        assert min(np.abs(kernel - kernels[0]).max() for kernel in kernels[1:]) > 1
        np.testing.assert_array_equal(to_numpy(made.W_o.bias.value), np.ones(8))


def test_tensors_of_keras_2_are_refused_in_a_sentence():
    class KerasTensor:
        __module__ = "tf_keras.src.engine.keras_tensor"
        shape, dtype = (2, 3, 8), "float32"

    with pytest.raises(TypeError, match="Tokens must be of Keras 3, got a KerasTensor of tf_keras, Keras 2; make the"):
        PositionalEncoding(8)(KerasTensor())
