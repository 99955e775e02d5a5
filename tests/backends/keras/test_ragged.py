"""Ragged arrays of TensorFlow, and such inputs of models, are refused in one sentence."""

import keras
import pytest

from posenc_backends.keras import AttentionBias, MultiHeadAttention, PositionalEncoding, RotaryEmbedding
from posenc_core import Alibi, Rotary

pytestmark = pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="ragged arrays of TensorFlow")
HALF = Rotary(head_dim=8, layout="half")


def ragged():
    import tensorflow as tf

    return tf.RaggedTensor.from_row_lengths(keras.ops.ones((5, 8)), [2, 3])


def spec():
    import tensorflow as tf

    return tf.RaggedTensorSpec((None, None, 8))


def symbolic():
    return keras.KerasTensor((None, None, 8), ragged=True)


def attend(x, **options):
    return MultiHeadAttention(8, 1, position=HALF)(*[keras.ops.ones((2, 3, 8))] * 2, x, **options)


CALLS = {
    "x": PositionalEncoding(8),
    "start": lambda x: PositionalEncoding(8)(keras.ops.ones((2, 3, 8)), start=x),
    "k": lambda x: RotaryEmbedding(HALF)(keras.ops.ones((2, 3, 8)), x),
    "scores": AttentionBias(Alibi(num_heads=2)),
    "values": attend,
    "mask": lambda x: attend(keras.ops.ones((2, 3, 8)), mask=x),
}


@pytest.mark.parametrize("make", [ragged, spec, symbolic])
@pytest.mark.parametrize("name", CALLS)
def test_ragged_arguments_are_refused(name, make):
    with pytest.raises(TypeError) as raised:
        CALLS[name](make())
    assert str(raised.value) == f"`{name}` must not be ragged; pass its `to_tensor()`, and the lengths as a mask."
