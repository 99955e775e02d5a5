"""`check_model` on decoders of MLX: a right one conforms, and planted mistakes are named."""

import mlx.core as mx
import pytest
from mlx import nn

from posenc_backends.check.model import check_model
from posenc_backends.mlx import RotaryEmbedding
from posenc_core import Rotary

ROTARY = Rotary(head_dim=16, layout="half")


class Fast(nn.Module):
    """Rotates with MLX's own function, and counts positions from a start."""

    def __init__(self, traditional=False, dims=16, base=1e4):
        super().__init__()
        self.options = {"traditional": traditional, "scale": 1.0, "base": base}
        self.dims = dims

    def __call__(self, x, at):
        return mx.fast.rope(x, self.dims, offset=at, **self.options)


class Table(nn.Module):
    """Rotates with a table, or with cosine and sine where it has none."""

    def __init__(self, length=None, first=0):
        super().__init__()
        self.first, self.cut = first, length
        self._frequencies = 1e4 ** -(mx.arange(8) / 8)
        if length is not None:
            angles = mx.arange(length)[:, None] * self._frequencies
            self._cosine, self._sine = mx.cos(angles), mx.sin(angles)

    def __call__(self, x, at):
        at = at + self.first
        if self.cut is None:
            angles = at[..., None].astype(mx.float32) * self._frequencies
            cosine, sine = mx.cos(angles)[:, None], mx.sin(angles)[:, None]
        else:
            at = mx.minimum(at, self.cut - 1)
            cosine, sine = self._cosine[at][:, None], self._sine[at][:, None]
        a, b = mx.split(x, 2, axis=-1)
        return mx.concatenate([a * cosine - b * sine, b * cosine + a * sine], axis=-1)


class Ours(nn.Module):
    """Rotates with our layer."""

    def __init__(self, encoding):
        super().__init__()
        self.rotate = RotaryEmbedding(encoding)

    def __call__(self, x, at):
        return self.rotate(x, positions=at)


class Attention(nn.Module):
    def __init__(self, rotate):
        super().__init__()
        self.project, self.rotate = nn.Linear(32, 96), rotate

    def __call__(self, x, at):
        parts = mx.split(self.project(x).reshape(*x.shape[:2], 6, 16).swapaxes(1, 2), 3, axis=1)
        q, k, v = (*(part if self.rotate is None else self.rotate(part, at) for part in parts[:2]), parts[2])
        if isinstance(self.rotate, Table):
            mixed = mx.softmax(q @ k.swapaxes(-1, -2) / 4, axis=-1) @ v
        else:
            mixed = mx.fast.scaled_dot_product_attention(q, k, v, scale=0.25)
        return mixed.swapaxes(1, 2).flatten(-2)


class Decoder(nn.Module):
    """Two layers, which take positions."""

    def __init__(self, *rotations):
        super().__init__()
        mx.random.seed(0)
        self.embedding, self.layers = nn.Embedding(9, 32), [Attention(one) for one in rotations]

    def decode(self, tokens, at):
        x = self.embedding(tokens)
        for layer in self.layers:
            x = x + layer(x, at)
        return x

    def __call__(self, tokens, positions):
        return self.decode(tokens, positions)


class Starting(Decoder):
    """Takes the position of the first token."""

    def __call__(self, tokens, start=0):
        return self.decode(tokens, start)


class Counting(Decoder):
    """Takes no positions."""

    def __call__(self, tokens):
        return self.decode(tokens, 0)


@pytest.mark.parametrize(
    ("model", "remark"),
    [
        (Decoder(Table(), Table()), "a token after a cache"),
        (Decoder(Table(2**17), Table(2**17)), "a token after a cache"),
        (Decoder(Ours(ROTARY), Ours(ROTARY)), "a token after a cache"),
        (Starting(Fast(), Fast()), "a token after a cache"),
        (Counting(Fast(), Fast()), "positions past 66"),
    ],
)
def test_right_models_conform(model, remark):
    before = mx.cos, mx.fast.rope, vars(Attention)["__call__"]
    result = check_model(model, spec=ROTARY)
    assert result.status == 0, result
    assert [(one.module, one.number) for one in result.layers] == [("layers.0", 0), ("layers.1", 1)]
    assert f"not run: {remark}" in str(result)
    assert "not judged" not in str(result)
    assert before == (mx.cos, mx.fast.rope, vars(Attention)["__call__"])


CONFIG = {
    "model_type": "smollm3", "hidden_size": 32, "num_attention_heads": 2, "num_key_value_heads": 2,
    "num_hidden_layers": 2, "rope_theta": 1e4, "no_rope_layers": [1, 0], "max_position_embeddings": 2048,
}  # fmt: skip


@pytest.mark.parametrize(
    ("model", "name"),
    [
        (Starting(Fast(), Fast(base=500.0)), "wrong base"),
        (Starting(Fast(traditional=True), Fast(traditional=True)), "layout swapped"),
        (Starting(Fast(dims=8), Fast(dims=8)), "wrong rotary_dim"),
        (Decoder(Table(first=1), Table(first=1)), "positions off by one"),
        (Decoder(Table(4096), Table(4096)), "positions clamped"),
        (Decoder(Ours(Rotary(head_dim=16, layout="half", base=500.0)), Ours(ROTARY)), "wrong base"),
    ],
)
def test_planted_mistakes_are_named(model, name):
    assert check_model(model, spec=ROTARY).names == (name,)


def test_a_layer_that_must_not_rotate():
    assert check_model(Decoder(Table(), None), CONFIG).status == 0
    assert check_model(Decoder(Table(), Table()), CONFIG).names == ("NoPE ignored",)
