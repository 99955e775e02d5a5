"""`check_model` on decoders of flax.nnx: a right one conforms, and planted mistakes are named."""

import jax
import pytest
from flax import nnx
from jax import numpy as jnp

from posenc_backends.check.model import check_model
from posenc_backends.jax.flax import RotaryEmbedding
from posenc_core import Rotary

ROTARY = Rotary(head_dim=16, layout="half")


class Table(nnx.Module):
    """Rotates with a table, or with cosine and sine where it has none."""

    def __init__(self, length=None, first=0, base=1e4, pairs=8, layout="half"):
        self.first, self.length, self.layout = first, length, layout
        self.frequencies = nnx.Variable(base ** -(jnp.arange(pairs) / pairs))
        if length is not None:
            angles = jnp.arange(length)[:, None] * self.frequencies[...]
            self.cosine, self.sine = nnx.Variable(jnp.cos(angles)), jnp.sin(angles)

    def __call__(self, x, at):
        at = at + self.first
        if self.length is None:
            cosine, sine = rotations(at, self.frequencies[...])
        else:
            cosine, sine = self.cosine[...][at], self.sine[at]  # JAX takes the last row past the end
        width = 2 * cosine.shape[-1]
        return jnp.concatenate([turn(x[..., :width], cosine, sine, self.layout), x[..., width:]], axis=-1)


@jax.jit
def rotations(at, frequencies):
    angles = at[..., None] * frequencies
    return jnp.cos(angles), jnp.sin(angles)


def turn(x, cosine, sine, layout):
    cosine, sine = cosine[:, :, None], sine[:, :, None]
    a, b = jnp.split(x, 2, axis=-1) if layout == "half" else (x[..., ::2], x[..., 1::2])
    both = (a * cosine - b * sine, b * cosine + a * sine)
    return jnp.concatenate(both, axis=-1) if layout == "half" else jnp.stack(both, axis=-1).reshape(x.shape)


class Ours(nnx.Module):
    """Rotates with our layer."""

    def __init__(self, encoding):
        self.rotate = RotaryEmbedding(encoding)

    def __call__(self, x, at):
        return self.rotate(x.swapaxes(1, 2), positions=at).swapaxes(1, 2)


class Attention(nnx.Module):
    def __init__(self, rotate, rngs):
        self.project, self.rotate = nnx.Linear(32, 64, rngs=rngs), rotate

    def __call__(self, x, at):
        q, k, v = jnp.split(self.project(x).reshape(*x.shape[:2], 4, 16), (2, 3), axis=2)
        if self.rotate is not None:
            q, k = self.rotate(q, at), self.rotate(k, at)
        if isinstance(self.rotate, Ours):
            return jax.nn.dot_product_attention(q, k, v).reshape(x.shape)
        scores = jnp.einsum("bqhd,bkgd->bhqk", q, k) / 4
        return jnp.einsum("bhqk,bkgd->bqhd", nnx.softmax(scores), v).reshape(x.shape)


class Decoder(nnx.Module):
    """Two layers, which take positions."""

    def __init__(self, *rotations):
        rngs = nnx.Rngs(0)
        self.embedding = nnx.Embed(9, 32, rngs=rngs)
        self.layers = nnx.List([Attention(one, rngs) for one in rotations])

    def __call__(self, tokens, positions):
        x = self.embedding(tokens)
        for layer in self.layers:
            x = x + layer(x, positions)
        return x


class Counting(Decoder):
    """Takes no positions."""

    def __call__(self, tokens):
        return super().__call__(tokens, jnp.arange(tokens.shape[1])[None])


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
    result = check_model(model(rotate(), rotate()), spec=ROTARY)
    assert result.status == 0, result
    assert [(one.module, one.number) for one in result.layers] == [("layers.0", 0), ("layers.1", 1)]
    assert f"not run: {remark}" in str(result)
    assert "not judged" not in str(result)
    assert "bind" not in {*vars(jax.lax.cos_p), *vars(jax.lax.dot_general_p)}


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
