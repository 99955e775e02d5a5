"""Blocks of one model that share one layer."""

import keras
import numpy as np
import pytest

from posenc_backends.keras import AttentionBias, MultiHeadAttention, RotaryEmbedding, to_numpy
from posenc_core import LearnedRotary, Rotary, T5Bias

X = np.random.default_rng(0).normal(size=(2, 5, 8)).astype(np.float32)
MAKES = {
    "fixed": (lambda: RotaryEmbedding(Rotary(head_dim=4, layout="half")), 0),
    "learned rotary": (lambda: RotaryEmbedding(LearnedRotary(head_dim=4, layout="half", std=0.5)), 1),
    "learned bias": (lambda: AttentionBias(T5Bias(num_heads=2)), 1),
}


def model_of(layer):
    tokens = result = keras.Input((None, 8))
    for _ in range(2):
        result = MultiHeadAttention(8, 2, position=layer)(result, result, result)
    return keras.Model(tokens, result)


@pytest.mark.parametrize(("make", "learned"), MAKES.values(), ids=MAKES)
def test_files_contain_a_shared_layer_once(tmp_path, make, learned):
    model, other = model_of(make()), model_of(make())
    model.save(tmp_path / "model.keras")
    model.save_weights(tmp_path / "model.weights.h5")
    other.load_weights(tmp_path / "model.weights.h5")
    for read in (model, other, keras.saving.load_model(tmp_path / "model.keras")):
        first, second = (block for block in read.layers if isinstance(block, MultiHeadAttention))
        assert first.rotary is second.rotary
        assert first.scoring is second.scoring
        assert len(read.weights) == 2 * 4 + learned
        np.testing.assert_array_equal(to_numpy(read(X)), to_numpy(model(X)))


def test_a_configuration_with_the_layer_creates_another_block():
    layer = RotaryEmbedding(Rotary(head_dim=4, layout="half"))
    block = MultiHeadAttention(8, 2, position=layer)
    assert MultiHeadAttention.from_config(block.get_config()).rotary is layer
