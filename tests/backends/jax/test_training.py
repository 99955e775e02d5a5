"""Layers that learn, with optax and in flax models."""

import jax
import numpy as np
import optax
import pytest
from flax import linen, nnx
from jax import numpy as jnp

from posenc_backends.jax import AttentionBias, MultiHeadAttention, PositionalEncoding, RotaryEmbedding
from posenc_core import Alibi, LearnedSinusoidal, Rotary, T5Bias

from .plain import rotated, tokens

X, WANTED = tokens(2, 5, 16), tokens(2, 5, 16, seed=1)
POSITIONS = {
    "rotary": Rotary(head_dim=8, layout="half"),
    "t5": T5Bias(num_heads=2, num_buckets=8, max_distance=6),
    "alibi": Alibi(num_heads=2),
}


def loss(layer, x):
    return ((layer(x, x, x, causal=True) - WANTED) ** 2).mean()


def trainer(optimizer):
    def step(layer, state, x):
        value, gradient = jax.value_and_grad(loss)(layer, x)
        updates, state = optimizer.update(gradient, state, layer)
        return optax.apply_updates(layer, updates), state, value

    return step


@pytest.mark.parametrize("name", POSITIONS)
def test_training_with_donated_state(name):
    """Five steps with donated state are the same as without."""
    optimizer, layer = optax.adam(0.02), MultiHeadAttention(16, 2, position=POSITIONS[name], key=jax.random.key(0))
    plain_step, donating_step = jax.jit(trainer(optimizer)), jax.jit(trainer(optimizer), donate_argnums=(0, 1))
    state, donated_state = (layer, optimizer.init(layer)), jax.tree.map(jnp.copy, (layer, optimizer.init(layer)))
    values = []
    for _ in range(5):
        donated = jax.tree.leaves(donated_state)
        *donated_state, value = donating_step(*donated_state, X)
        values.append(float(value))
        assert all(leaf.is_deleted() for leaf in donated)
        *state, wanted = plain_step(*state, X)
        np.testing.assert_array_equal(value, wanted)
    assert values == sorted(values, reverse=True)
    assert values[-1] < 0.9 * values[0]
    assert donated_state[0](X, X, X).dtype == jnp.float32


def test_training_continues_after_a_table_grows():
    optimizer, layer = optax.adam(0.02), MultiHeadAttention(16, 2, position=POSITIONS["rotary"], key=jax.random.key(0))
    layer = jax.tree.map(lambda leaf: leaf, layer)
    step, state = jax.jit(trainer(optimizer)), optimizer.init(layer)
    q = jnp.ones((1, 2, 2500, 8), jnp.float32)
    layer.rotary(q)
    assert layer.rotary.tables[0].shape[0] > 2048
    layer, state, _ = step(layer, state, X)
    layer.rotary(q)
    updates, state = optimizer.update(jax.tree.map(jnp.ones_like, layer), state, layer)
    optax.apply_updates(layer, updates)


def test_weight_decay_and_masks_reach_only_parameters():
    """A table is not a leaf: it is unchanged after a hundred steps."""
    layer = MultiHeadAttention(16, 2, position=POSITIONS["rotary"], key=jax.random.key(0))
    before = [np.asarray(table) for table in layer.rotary.tables]
    optimizer = optax.adamw(0.5, weight_decay=0.5)
    updates, _ = optimizer.update(layer, optimizer.init(layer), layer)
    layer = optax.apply_updates(layer, updates)
    for after, table in zip(layer.rotary.tables, before, strict=True):
        np.testing.assert_array_equal(after, table)


class LinenModel(linen.Module):
    """A model of flax's older interface: our layer is a parameter."""

    @linen.compact
    def __call__(self, x):
        made = self.param("attention", lambda key: MultiHeadAttention(16, 2, position=POSITIONS["rotary"], key=key))
        x = RotaryEmbedding(Rotary(head_dim=16, layout="half"))(linen.Dense(16)(x))
        return made(x, x, x)


def test_a_linen_model_learns():
    model = LinenModel()
    variables = model.init(jax.random.key(0), X)
    assert len(jax.tree.leaves(variables)) == 2 + 4
    gradient = jax.jit(jax.grad(lambda variables: (model.apply(variables, X) ** 2).sum()))(variables)
    assert all(np.abs(leaf).max() > 0 for leaf in jax.tree.leaves(gradient))
    assert gradient["params"]["attention"].W_q.weight.shape == (16, 16)


def test_leaves_may_be_numpy_arrays():
    """Other tools read them as such."""
    layer = PositionalEncoding(4, encoding=LearnedSinusoidal(dim=4))
    bias = AttentionBias(POSITIONS["t5"], key=jax.random.key(0))
    for module, x in ((layer, jnp.ones((1, 3, 4))), (bias, jnp.ones((1, 2, 3, 3)))):
        np.testing.assert_array_equal(jax.tree.map(np.asarray, module)(x), module(x))


def test_rotation_inside_a_model_agrees_with_rotation_outside():
    class RotaryEncoding(nnx.Module):
        def __init__(self):
            self.rotary = nnx.data(RotaryEmbedding(POSITIONS["rotary"]))

        def __call__(self, q, start):
            return self.rotary(q, start=start)

    q, traced = tokens(1, 2, 5, 8), []
    call = nnx.jit(lambda model, q, start: (traced.append(q), model(q, start))[1])
    for start in (0, 1000):
        np.testing.assert_allclose(
            call(RotaryEncoding(), q, start), rotated(q, range(start, start + 5)), rtol=0, atol=1e-6
        )
    assert len(traced) == 1  # a new model is not compiled again
