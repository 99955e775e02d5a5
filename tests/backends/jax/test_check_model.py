"""`check_model` on models of flax.nnx whose calls are compiled, or one for all layers."""

import pytest
from flax import nnx
from jax import numpy as jnp

from posenc_backends.check.model import check_model
from posenc_core import Rotary, Sinusoidal

ROTARY = Rotary(head_dim=16, layout="half")


class Layer(nnx.Module):
    def __init__(self, base, rngs):
        self.frequencies = nnx.Variable(base ** -(jnp.arange(8) / 8))
        self.project = nnx.Linear(32, 96, rngs=rngs)

    def __call__(self, x, at):
        q, k, v = jnp.split(self.project(x).reshape(*x.shape[:2], 6, 16), 3, axis=2)
        q, k = (self.rotate(one, at[..., None, None] * self.frequencies[...]) for one in (q, k))
        weights = nnx.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k) / 4)
        return x + jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(x.shape)

    def rotate(self, x, angles):
        a, b = jnp.split(x, 2, axis=-1)
        cos, sin = jnp.cos(angles), jnp.sin(angles)
        return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


class Decoder(nnx.Module):
    def __init__(self):
        self.embedding = nnx.Embed(9, 32, rngs=nnx.Rngs(0))
        self.layers = nnx.List([Layer(base, nnx.Rngs(0)) for base in (1e4, 500.0)])

    def __call__(self, tokens, positions):
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x, positions)
        return x


class Scanned(nnx.Module):
    """Has one layer, whose arrays are those of all layers."""

    def __init__(self):
        self.embedding = nnx.Embed(9, 32, rngs=nnx.Rngs(0))
        make = nnx.split_rngs(splits=2)(nnx.vmap(Layer, in_axes=(0, 0)))
        self.layers = make(jnp.array([1e4, 500.0]), nnx.Rngs(0))

    def __call__(self, tokens, positions):
        return self.decode(self.embedding(tokens), positions)

    def decode(self, x, positions):
        @nnx.scan(in_axes=(0, nnx.Carry), out_axes=nnx.Carry)
        def decode(layer, x):
            return layer(x, positions)

        return decode(self.layers, x)


class WithTable(Scanned):
    def __call__(self, tokens, positions):
        angles = positions[..., None] * 1e4 ** -(jnp.arange(16) / 16)
        rows = jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], axis=-1)
        return self.decode(self.embedding(tokens) + rows, positions)


class Jitted(Decoder):
    __call__ = nnx.jit(Decoder.__call__)


class Checkpointed(Decoder):
    __call__ = nnx.remat(Decoder.__call__)


@pytest.mark.parametrize("model", [Jitted, Scanned])
def test_each_layer_is_judged(model):
    result = check_model(model(), spec=ROTARY)
    assert [[one.name for one in layer.mistakes] for layer in result.layers] == [[], ["wrong base"]], result
    assert [layer.number for layer in result.layers] == [0, 1]


def test_a_layer_without_a_number_after_a_table():
    result = check_model(WithTable(), spec=Sinusoidal(dim=32, convention="concatenated"))
    assert [(layer.module, layer.number) for layer in result.layers] == [("layers.1", 1)]
    assert "not judged: layers, whose tokens depend on positions before they rotate" in str(result)
    assert not result.tables[0].mistakes


def test_a_traced_model_is_refused():
    assert "`embedding` is called in a function that is traced" in str(check_model(Checkpointed(), spec=ROTARY))


def test_a_compiled_function_that_calls_the_model():
    model, before = Decoder(), {*vars(Layer)}
    decode = nnx.jit(lambda model, tokens, positions: model(tokens, positions))
    result = check_model(model, spec=ROTARY, call=lambda tokens, positions: decode(model, tokens, positions))
    assert [len(layer.mistakes) for layer in result.layers] == [0, 1], result
    assert {*vars(Layer)} == before
    assert {*vars(model)} == {*vars(Decoder())}
