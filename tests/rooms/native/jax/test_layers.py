"""What a JAX user does to a layer."""

import jax
import numpy as np
import pytest
from jax import numpy as jnp

from posenc_backends.jax import MultiHeadAttention, PositionalEncoding, RotaryEmbedding
from posenc_core import Alibi, Learned, Rotary, Sinusoidal, rotate

ROTARY = Rotary(head_dim=8, layout="half")


def test_only_parameters_are_leaves():
    assert not jax.tree_util.tree_leaves(PositionalEncoding(8))
    assert not jax.tree_util.tree_leaves(RotaryEmbedding(ROTARY))
    assert len(jax.tree_util.tree_leaves(PositionalEncoding(8, encoding=Learned(dim=8, length=5)))) == 1
    assert len(jax.tree_util.tree_leaves(MultiHeadAttention(8, 2, bias=True, position=Alibi(num_heads=2)))) == 8


def test_no_map_over_leaves_reaches_the_table():
    layer = jax.tree_util.tree_map(lambda leaf: leaf.astype(jnp.bfloat16), PositionalEncoding(8))
    np.testing.assert_array_equal(layer.P[0], Sinusoidal(dim=8).table(range(1000)))


def test_decoding_takes_a_traced_start():
    layer, x = RotaryEmbedding(ROTARY), np.random.default_rng(0).normal(size=(1, 2, 1, 8)).astype(np.float32)
    step = jax.jit(lambda start: layer(x, start=start))
    for start in (0, 7, 2047):
        wanted = rotate(x, *ROTARY.cos_sin([start]), layout="half")
        np.testing.assert_allclose(step(start), wanted, rtol=0, atol=1e-6)
    assert np.isnan(step(2048)).all()


def test_layers_pass_through_transformations():
    x = np.random.default_rng(0).normal(size=(3, 5, 8)).astype(np.float32)
    layer = MultiHeadAttention(8, 2, position=Rotary(head_dim=4, layout="half"))
    plain = layer(x, x, x)
    np.testing.assert_allclose(jax.jit(lambda layer, x: layer(x, x, x))(layer, x), plain, atol=1e-6)
    rows = jax.vmap(lambda row: layer(row[None], row[None], row[None])[0])(jnp.asarray(x))
    np.testing.assert_allclose(rows, plain, atol=1e-6)
    gradient = jax.grad(lambda layer: (layer(x, x, x) ** 2).sum())(layer)
    assert all(np.abs(leaf).max() > 0 for leaf in jax.tree_util.tree_leaves(gradient))


def test_a_layer_is_set_for_good():
    with pytest.raises(AttributeError, match="`dropout` of a PositionalEncoding is set for good"):
        PositionalEncoding(8).dropout = 0.5


def test_dropout_acts_where_a_key_is_given():
    layer, x = PositionalEncoding(8, 0.5), jnp.ones((1, 64, 8))
    np.testing.assert_array_equal(layer(x), layer(x))
    dropped = layer(x, key=jax.random.key(1))
    assert 0.3 < np.mean(dropped == 0) < 0.7


def test_a_layer_whose_table_grew_is_the_same_tree():
    """So that the state of an optimizer fits it; what was compiled reads NaN where it did before."""
    layer, x = PositionalEncoding(4, max_len=3), jnp.zeros((1, 1, 4))
    row, before = jax.jit(lambda layer, start: layer(x, start=start)), jax.tree.structure(layer)
    assert np.isnan(row(layer, 4)).all()
    layer(jnp.zeros((1, 6, 4)))
    assert layer.P.shape == (1, 6, 4)
    assert jax.tree.structure(layer) == before
    assert np.isnan(row(layer, 4)).all()
    np.testing.assert_array_equal(jax.jit(layer)(jnp.zeros((1, 6, 4)))[0], Sinusoidal(dim=4).table(range(6)))
