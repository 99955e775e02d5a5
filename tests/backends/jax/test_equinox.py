"""The layers as fields of modules of Equinox, which need no wrapper: trained, partitioned, saved, stacked."""

import io

import equinox as eqx
import jax
import numpy as np
import optax
import pytest
from jax import numpy as jnp

from posenc_backends.jax import (
    AttentionBias,
    MultiHeadAttention,
    PositionalEncoding,
    RotaryEmbedding,
    from_state,
    to_state,
)
from posenc_core import Learned, Rotary, T5Bias

from .plain import tokens

X, WANTED = tokens(2, 5, 16), tokens(2, 5, 16, seed=1)
ROTARY = Rotary(head_dim=8, layout="half")


class Block(eqx.Module):
    """A Transformer block with all four layers."""

    embed: PositionalEncoding
    fixed: PositionalEncoding
    attention: MultiHeadAttention
    rope: RotaryEmbedding
    bias: AttentionBias
    forward: eqx.nn.Linear

    def __init__(self, key, position=ROTARY):
        keys = jax.random.split(key, 4)
        self.embed = PositionalEncoding(16, encoding=Learned(dim=16, length=9), key=keys[0])
        self.fixed = PositionalEncoding(16)
        self.attention = MultiHeadAttention(16, 2, position=position, key=keys[1])
        self.rope = RotaryEmbedding(Rotary(head_dim=16, layout="interleaved"))
        self.bias = AttentionBias(T5Bias(num_heads=1), key=keys[2])
        self.forward = eqx.nn.Linear(16, 16, key=keys[3])

    @eqx.filter_jit
    def __call__(self, x):
        x = self.fixed(self.embed(x))
        x = jax.nn.standardize(x + self.attention(x, x, x, causal=True))
        scores = self.rope(x) @ self.rope(x).swapaxes(-1, -2)
        return jax.vmap(jax.vmap(self.forward))(jax.nn.softmax(self.bias(scores[:, None]))[:, 0] @ x)


@pytest.fixture(scope="module")
def model():
    return Block(jax.random.key(0))


def tables(model):
    return [np.asarray(table) for layer in (model.fixed, model.rope, model.attention.rotary) for table in layer.tables]


def test_an_optimizer_moves_parameters_and_no_table(model):
    optimizer = optax.adamw(0.02, weight_decay=0.5)

    @eqx.filter_jit
    def step(model, state):
        value, gradient = eqx.filter_value_and_grad(lambda model: ((model(X) - WANTED) ** 2).mean())(model)
        updates, state = optimizer.update(gradient, state, eqx.filter(model, eqx.is_array))
        return eqx.apply_updates(model, updates), state, value

    trained, state, values = model, optimizer.init(eqx.filter(model, eqx.is_array)), []
    for _ in range(5):
        trained, state, value = step(trained, state)
        values.append(float(value))
    assert values[-1] < 0.8 * values[0]
    before, after = (jax.tree.leaves(eqx.filter(tree, eqx.is_array)) for tree in (model, trained))
    assert len(before) == 1 + 4 + 1 + 2
    assert all(np.abs(a - b).max() > 0 for a, b in zip(before, after, strict=True))
    for found, table in zip(tables(trained), tables(model), strict=True):
        np.testing.assert_array_equal(found, table)


def test_a_model_is_partitioned_and_combined(model):
    arrays, rest = eqx.partition(model, eqx.is_array)
    np.testing.assert_array_equal(eqx.combine(arrays, rest)(X), model(X))
    frozen = jax.tree.map(lambda _: False, model)
    learns = eqx.tree_at(lambda tree: tree.embed.parameters["table"], frozen, True)
    arrays, rest = eqx.partition(model, learns)
    gradient = eqx.filter_grad(lambda arrays: (eqx.combine(arrays, rest)(X) ** 2).sum())(arrays)
    assert [leaf.shape for leaf in jax.tree.leaves(gradient)] == [(9, 16)]


def test_a_model_is_serialised(model):
    file = io.BytesIO()
    eqx.tree_serialise_leaves(file, model)
    file.seek(0)
    loaded = eqx.tree_deserialise_leaves(file, eqx.filter_eval_shape(Block, jax.random.key(1)))
    assert eqx.tree_equal(loaded, model)
    np.testing.assert_array_equal(loaded(X), model(X))


def test_a_model_is_saved_with_its_encodings(model):
    target = eqx.filter_eval_shape(Block, jax.random.key(1))
    np.testing.assert_array_equal(from_state(target, to_state(eqx.filter(model, eqx.is_array)))(X), model(X))
    other = Block(jax.random.key(1), Rotary(head_dim=8, layout="interleaved"))
    with pytest.raises(ValueError, match=r"attention.rotary.encoding` must be Rotary.*interleaved.*got Rotary.*half"):
        from_state(other, to_state(model))


@pytest.mark.slow
def test_blocks_are_stacked_and_scanned():
    keys = jax.random.split(jax.random.key(0), 3)
    arrays, rest = eqx.partition(eqx.filter_vmap(Block)(keys), eqx.is_array)
    result, _ = jax.lax.scan(lambda x, block: (eqx.combine(block, rest)(x), None), X, arrays)
    wanted = X
    for key in keys:
        wanted = Block(key)(wanted)
    np.testing.assert_allclose(result, wanted, rtol=0, atol=1e-6)


def test_a_model_of_one_sequence_is_mapped_over_a_batch(model):
    """As in Equinox: layers take tokens without a batch, attention takes a batch of one."""

    def call(x):
        return model.attention(*[model.rope(model.embed(x))[None]] * 3)[0]

    mapped = eqx.filter_jit(eqx.filter_vmap(call))(X)
    np.testing.assert_allclose(mapped[1], eqx.filter_jit(call)(X[1]), rtol=0, atol=1e-6)


def test_a_model_in_half_precision_keeps_its_tables(model):
    half = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16) if eqx.is_inexact_array(leaf) else leaf, model)
    assert {table.dtype.name for table in tables(half)} == {"float32"}
    assert eqx.filter_eval_shape(half, jnp.asarray(X, jnp.bfloat16)).dtype == jnp.bfloat16
