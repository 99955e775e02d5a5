"""Load models and files of weights that were saved before the files of the package moved, and compare their numbers.

`tests/golden/saved_before.py` wrote them on TensorFlow, with the code of commit 0cd9e1f; every backend of Keras has to
read them.
"""

from pathlib import Path
from zipfile import ZipFile

import keras
import numpy as np
import pytest

from posenc_backends.keras import AttentionBias, MultiHeadAttention, PositionalEncoding, RotaryEmbedding, to_numpy
from posenc_core import Kerple, Learned, LearnedRotary, Rotary, T5Bias

SAVED = Path(__file__).with_name("saved_before")
HALF, INTERLEAVED = (Rotary(head_dim=4, layout=layout) for layout in ("half", "interleaved"))
T5, OTHER_T5 = T5Bias(num_heads=2), T5Bias(num_heads=2, max_distance=99)


def positional_encoding(encoding):
    tokens = keras.Input((None, 4))
    return keras.Model(tokens, PositionalEncoding(4, encoding=encoding)(tokens))


def rotated(encoding):
    heads = [keras.Input((2, None, 4)) for _ in range(2)]
    return keras.Model(heads, RotaryEmbedding(encoding)(*heads))


def scored(encoding):
    scores = keras.Input((2, None, None))
    return keras.Model(scores, AttentionBias(encoding)(scores))


def attention(encoding):
    tokens = keras.Input((None, 8))
    return keras.Model(tokens, MultiHeadAttention(8, 2, position=encoding)(tokens, tokens, tokens, causal=True))


def model(encoding):
    """Make a model that adds learned positions to tokens, then attends with an encoding."""
    tokens = keras.Input((None, 8))
    x = PositionalEncoding(8, encoding=Learned(dim=8, length=5))(tokens)
    return keras.Model(tokens, MultiHeadAttention(8, 2, position=encoding)(x, x, x, causal=True))


CASES = {  # the function that makes a model, the saved encoding, and another encoding
    "learned": (positional_encoding, Learned(dim=4, length=5), Learned(dim=4, length=7)),
    "rotary": (rotated, HALF, INTERLEAVED),
    "learned_rotary": (
        rotated,
        LearnedRotary(head_dim=4, layout="half"),
        LearnedRotary(head_dim=4, layout="half", base=99.0),
    ),
    "t5": (scored, T5, OTHER_T5),
    "kerple": (scored, Kerple(num_heads=2), Kerple(num_heads=2, sides="past")),
    "attention_rotary": (attention, INTERLEAVED, HALF),
    "attention_t5": (attention, T5, OTHER_T5),
    "model": (model, T5, OTHER_T5),
}
UNLEARNED = ("rotary",)
WEIGHTS_APART = ("kerple", "model")  # saved as separate files; the others are extracted from the saved models
EXACT = ("learned", "rotary", "t5")


def call(keras_model, arrays):
    """Call a model with NumPy arrays; return its results as a list."""
    result = keras_model(arrays if len(arrays) > 1 else arrays[0])
    return [to_numpy(each) for each in (result if isinstance(result, (list, tuple)) else (result,))]


def numbers(name):
    """Read the inputs and results of the layer of a case."""
    with np.load(SAVED / "numbers.npz") as saved:
        return [
            [saved[key] for key in sorted(saved) if key.startswith(f"{name}.{role}.")] for role in ("given", "wanted")
        ]


def compare(name, results, wanted):
    """Compare bit by bit if each number is looked up, a sum or a sum of two products: all machines round them alike."""
    assert len(results) == len(wanted) > 0
    for result, array in zip(results, wanted, strict=True):
        assert result.dtype == array.dtype
        # In other cases the order of sums, exponentials and logarithms depend on the machine: the largest number may be
        # off by 16 ulp.
        tolerance = 0 if name in EXACT else 2.0**-20 * np.abs(array).max()
        np.testing.assert_allclose(result, array, rtol=0, atol=tolerance)


def weights(name, folder):
    """Return the file of weights of a case."""
    if name in WEIGHTS_APART:
        return SAVED / f"{name}.weights.h5"
    with ZipFile(SAVED / f"{name}.keras") as archive:
        return archive.extract("model.weights.h5", folder)


@pytest.mark.parametrize("name", CASES)
def test_a_saved_model_gives_the_same_numbers(name):
    inputs, wanted = numbers(name)
    compare(name, call(keras.models.load_model(SAVED / f"{name}.keras"), inputs), wanted)


@pytest.mark.parametrize("name", CASES)
def test_saved_weights_give_the_same_numbers(name, tmp_path):
    make, encoding, _ = CASES[name]
    fresh = make(encoding)
    inputs, wanted = numbers(name)
    if name not in UNLEARNED:
        assert np.abs(call(fresh, inputs)[0] - wanted[0]).max() > 1e-3
    fresh.load_weights(weights(name, tmp_path))
    compare(name, call(fresh, inputs), wanted)


@pytest.mark.filterwarnings("ignore:Skipping nested container:UserWarning")  # Keras warns before it raises
@pytest.mark.parametrize("name", CASES)
def test_saved_weights_of_another_encoding_are_rejected(name, tmp_path):
    make, encoding, other = CASES[name]
    with pytest.raises(ValueError, match="`encoding` of the weights is") as caught:
        make(other).load_weights(weights(name, tmp_path))
    assert f"`encoding` of the weights is {encoding!r}, that of the layer {other!r}" in str(caught.value)
