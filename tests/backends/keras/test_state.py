"""What Keras saves and loads of a layer."""

import subprocess
import sys

import keras
import numpy as np
import pytest

from posenc_backends.keras import AttentionBias, MultiHeadAttention, PositionalEncoding, RotaryEmbedding, to_numpy
from posenc_core import Alibi, Learned, LearnedSinusoidal, Rotary, Sinusoidal, T5Bias

X = np.random.default_rng(0).normal(size=(2, 5, 8)).astype(np.float32)


def model_of(layer):
    tokens = keras.Input((None, 8))
    attends = isinstance(layer, MultiHeadAttention)
    return keras.Model(tokens, layer(tokens, tokens, tokens) if attends else layer(tokens))


def rope(base):
    return Rotary(head_dim=4, layout="half", base=base)


PAIRS = {
    "without weights": (
        lambda: PositionalEncoding(8, encoding=Sinusoidal(dim=8)),
        lambda: PositionalEncoding(8, encoding=Sinusoidal(dim=8, base=100.0)),
    ),
    "with weights": (
        lambda: PositionalEncoding(8, encoding=LearnedSinusoidal(dim=8)),
        lambda: PositionalEncoding(8, encoding=LearnedSinusoidal(dim=8, base=100.0)),
    ),
    "in attention": (
        lambda: MultiHeadAttention(8, 2, position=rope(100.0)),
        lambda: MultiHeadAttention(8, 2, position=Alibi(num_heads=2)),
    ),
    "in attention without": (lambda: MultiHeadAttention(8, 2, position=rope(100.0)), lambda: MultiHeadAttention(8, 2)),
}


@pytest.mark.filterwarnings("ignore:Skipping nested container:UserWarning")  # Keras warns before it raises
@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_weights_of_another_encoding_are_rejected_with_both_names(pair, tmp_path):
    first, second = (model_of(make()) for make in pair)
    first.save_weights(tmp_path / "model.weights.h5")
    with pytest.raises(ValueError, match="`encoding` of the weights is") as caught:
        second.load_weights(tmp_path / "model.weights.h5")
    positions_layers = [layer.layers[-1] for layer in (first, second)]
    for layer in positions_layers:
        assert repr(getattr(layer, "encoding", None) or layer.position) in str(caught.value)


def test_weights_that_do_not_name_their_encoding_are_loaded():
    layer, other = (PositionalEncoding(8, encoding=Learned(dim=8, length=9, std=std)) for std in (0.02, 0.5))
    store = {}
    layer.save_own_variables(store)
    other.load_own_variables({name: array for name, array in store.items() if name == "0"})
    np.testing.assert_array_equal(to_numpy(other.P), to_numpy(layer.P))


def test_weights_with_another_initial_deviation_are_loaded():
    layer, other = (PositionalEncoding(8, encoding=Learned(dim=8, length=9, std=std)) for std in (0.02, 0.5))
    store = {}
    layer.save_own_variables(store)
    other.load_own_variables(store)
    np.testing.assert_array_equal(to_numpy(other.P), to_numpy(layer.P))


LOADED = """
import sys
import numpy as np
import keras
import posenc_backends.keras
given = np.load(sys.argv[1] + "/given.npz")
got = keras.saving.load_model(sys.argv[1] + "/model.keras")(given["x"])
assert abs(keras.ops.convert_to_numpy(got) - given["y"]).max() < 1e-6
"""


def test_a_process_that_imports_the_backend_needs_no_custom_objects(tmp_path):
    model = model_of(MultiHeadAttention(8, 2, position=T5Bias(num_heads=2)))
    model.save(tmp_path / "model.keras")
    np.savez(tmp_path / "given.npz", x=X, y=to_numpy(model(X)))
    subprocess.run([sys.executable, "-W", "ignore", "-c", LOADED, str(tmp_path)], check=True)


def test_a_clone_has_layers_of_its_own():
    model = model_of(PositionalEncoding(8, encoding=Learned(dim=8, length=9)))
    clone = keras.models.clone_model(model)
    clone.set_weights(model.get_weights())
    np.testing.assert_array_equal(to_numpy(clone(X)), to_numpy(model(X)))
    clone.set_weights([np.zeros((9, 8), np.float32)])
    np.testing.assert_array_equal(to_numpy(clone(X)), X)
    assert (to_numpy(model(X)) != X).any()


def test_layers_of_two_bases_in_one_process_are_independent():
    queries = X[:, None]
    encodings = [Rotary(head_dim=8, layout="half", base=base) for base in (10.0, 1e6)]
    layers = [RotaryEmbedding(encoding) for encoding in encodings]
    for layer, encoding in zip(layers, encodings, strict=True):
        cos, sin = encoding.cos_sin(range(5))
        a, b = queries[..., :4], queries[..., 4:]
        wanted = np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)
        np.testing.assert_allclose(to_numpy(layer(queries)), wanted, rtol=0, atol=1e-6)


def test_learned_biases_of_a_model_are_saved(tmp_path):
    scores = keras.Input((2, None, None))
    model = keras.Model(scores, AttentionBias(T5Bias(num_heads=2, std=1.0))(scores))
    model.save(tmp_path / "model.keras")
    scores_in = np.zeros((1, 2, 5, 5), np.float32)
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(to_numpy(again(scores_in)), to_numpy(model(scores_in)))
