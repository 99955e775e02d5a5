"""`check_model` on decoders of Keras: a right one conforms, and planted mistakes are named."""

import keras
import pytest
from keras import ops
from keras.src import backend

from posenc_backends.check.model import check_model
from posenc_backends.keras import RotaryEmbedding
from posenc_core import Rotary

ROTARY = Rotary(head_dim=16, layout="half")


class Table(keras.layers.Layer):
    """Rotates with a table, or with cosine and sine where it has none."""

    def __init__(self, length=None, first=0, base=1e4, pairs=8, layout="half"):
        super().__init__()
        self.first, self.length, self.order = first, length, layout
        self.frequencies = float(base) ** -(ops.arange(pairs, dtype="float32") / pairs)
        if length is not None:
            angles = ops.arange(length, dtype="float32")[:, None] * self.frequencies
            self.cosine = self.add_weight(angles.shape, "zeros", trainable=False)
            self.cosine.assign(ops.cos(angles))
            self.sine = ops.sin(angles)

    def call(self, x, at):
        at = at + self.first
        if self.length is None:
            angles = ops.cast(at, "float32")[..., None] * self.frequencies
            cosine, sine = ops.cos(angles), ops.sin(angles)
        else:
            at = ops.minimum(at, self.length - 1)
            cosine, sine = ops.take(self.cosine, at, axis=0), ops.take(self.sine, at, axis=0)
        width = 2 * cosine.shape[-1]
        return ops.concatenate([turn(x[..., :width], cosine, sine, self.order), x[..., width:]], axis=-1)


def turn(x, cosine, sine, layout):
    cosine, sine = cosine[:, :, None], sine[:, :, None]
    a, b = ops.split(x, 2, axis=-1) if layout == "half" else (x[..., ::2], x[..., 1::2])
    both = (a * cosine - b * sine, b * cosine + a * sine)
    return ops.concatenate(both, axis=-1) if layout == "half" else ops.reshape(ops.stack(both, axis=-1), x.shape)


class Ours(keras.layers.Layer):
    """Rotates with our layer."""

    def __init__(self, encoding):
        super().__init__()
        self.rotate = RotaryEmbedding(encoding)

    def call(self, x, at):
        return ops.swapaxes(self.rotate(ops.swapaxes(x, 1, 2), positions=at), 1, 2)


class Attention(keras.layers.Layer):
    def __init__(self, rotate):
        super().__init__()
        self.project, self.rotate = keras.layers.Dense(64), rotate

    def call(self, x, at):
        parts = ops.reshape(self.project(x), (*x.shape[:2], 4, 16))
        q, k, v = ops.split(parts, (2, 3), axis=2)
        if self.rotate is not None:
            q, k = self.rotate(q, at), self.rotate(k, at)
        if isinstance(self.rotate, Ours):
            k, v = (ops.repeat(each, 2, axis=2) for each in (k, v))  # as Keras on TensorFlow wants them
            return ops.reshape(ops.dot_product_attention(q, k, v), x.shape)
        scores = ops.einsum("bsd,bqhd->bhqs", k[:, :, 0], q) / 4
        return ops.reshape(ops.einsum("bhqs,bsd->bqhd", ops.softmax(scores), v[:, :, 0]), x.shape)


class Decoder(keras.Model):
    """Two layers, which take positions."""

    def __init__(self, *rotations):
        super().__init__()
        keras.utils.set_random_seed(0)
        self.embedding = keras.layers.Embedding(9, 32)
        self.blocks = [Attention(one) for one in rotations]

    def call(self, tokens, positions):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = x + block(x, positions)
        return x


class Counting(Decoder):
    """Takes no positions."""

    def call(self, tokens):
        return super().call(tokens, ops.arange(tokens.shape[1])[None])


@pytest.mark.parametrize(
    ("model", "rotate", "remark"),
    [
        (Decoder, Table, "a token after a cache"),
        (Decoder, lambda: Table(2**17), "a token after a cache"),
        (Decoder, lambda: Ours(ROTARY), "a token after a cache"),
        (Counting, Table, "positions past 66"),
    ],
)
def test_right_models_conform(model, rotate, remark):
    before = backend.numpy.cos, backend.nn.softmax, keras.layers.Layer.__call__
    result = check_model(model(rotate(), rotate()), spec=ROTARY)
    assert result.status == 0, result
    assert [(one.module, one.number) for one in result.layers] == [("blocks.0", 0), ("blocks.1", 1)]
    assert f"not run: {remark}" in str(result)
    assert "not judged" not in str(result)
    assert before == (backend.numpy.cos, backend.nn.softmax, Attention.__call__)


CONFIG = {
    "model_type": "smollm3", "hidden_size": 32, "num_attention_heads": 2, "num_key_value_heads": 1,
    "num_hidden_layers": 2, "rope_theta": 1e4, "no_rope_layers": [1, 0], "max_position_embeddings": 2048,
}  # fmt: skip


@pytest.mark.parametrize(
    ("rotate", "name"),
    [
        (lambda: Table(base=500.0), "wrong base"),
        (lambda: Table(layout="interleaved"), "layout swapped"),
        (lambda: Table(pairs=4), "wrong rotary_dim"),
        (lambda: Table(first=1), "positions off by one"),
        (lambda: Table(4096), "positions clamped"),
        (lambda: Ours(Rotary(head_dim=16, layout="half", base=500.0)), "wrong base"),
    ],
)
def test_planted_mistakes_are_named(rotate, name):
    assert check_model(Decoder(rotate(), rotate()), spec=ROTARY).names == (name,)


def test_a_layer_that_must_not_rotate():
    assert check_model(Decoder(Table(), None), CONFIG).status == 0
    assert check_model(Decoder(Table(), Table()), CONFIG).names == ("NoPE ignored",)
