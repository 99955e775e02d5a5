"""What JAX users do with a layer."""

import jax
import numpy as np
import pytest
from jax import numpy as jnp

from posenc_backends.jax import AttentionBias, MultiHeadAttention, PositionalEncoding, RotaryEmbedding
from posenc_core import Alibi, FoPE, Learned, LearnedSinusoidal, Rotary, ShawBias, Sinusoidal, T5Bias, rotate

from .plain import tokens

ROTARY = Rotary(head_dim=8, layout="half")


def test_only_parameters_are_leaves():
    assert not jax.tree_util.tree_leaves(PositionalEncoding(8))
    assert not jax.tree_util.tree_leaves(RotaryEmbedding(ROTARY))
    assert (
        len(jax.tree_util.tree_leaves(PositionalEncoding(8, encoding=Learned(dim=8, length=5), key=jax.random.key(0))))
        == 1
    )
    assert (
        len(
            jax.tree_util.tree_leaves(
                MultiHeadAttention(8, 2, bias=True, position=Alibi(num_heads=2), key=jax.random.key(0))
            )
        )
        == 8
    )


def test_tree_map_does_not_change_the_table():
    layer = jax.tree_util.tree_map(lambda leaf: leaf.astype(jnp.bfloat16), PositionalEncoding(8))
    np.testing.assert_array_equal(layer.P[0], Sinusoidal(dim=8).table(range(1000)))


@pytest.mark.parametrize(("layer", "given"), [(MultiHeadAttention, (8, 2)), (AttentionBias, (T5Bias(num_heads=2),))])
def test_a_layer_with_something_to_draw_demands_its_key(layer, given):
    with pytest.raises(TypeError, match=r"^`key` must be given to a layer that draws initial parameters"):
        layer(*given)


def test_layers_with_nothing_to_draw_need_no_key_and_parts_of_attention_get_theirs():
    assert not PositionalEncoding(8, encoding=LearnedSinusoidal(dim=8)).parameters["alpha"].any()
    position = FoPE(head_dim=16, layout="half", num_terms=5, std=0.5)
    first, second = (MultiHeadAttention(32, 2, position=position, key=jax.random.key(seed)) for seed in range(2))
    for one, other in zip(*map(jax.tree_util.tree_leaves, (first, second)), strict=True):
        assert (one != other).any()


def test_decoding_takes_a_traced_start():
    layer, x = RotaryEmbedding(ROTARY), np.random.default_rng(0).normal(size=(1, 2, 1, 8)).astype(np.float32)
    step = jax.jit(lambda start: layer(x, start=start))
    for start in (0, 7, 2047):
        wanted = rotate(x, *ROTARY.cos_sin([start]), layout="half")
        np.testing.assert_allclose(step(start), wanted, rtol=0, atol=1e-6)
    assert np.isnan(step(2048)).all()


def test_layers_pass_through_transformations():
    x = np.random.default_rng(0).normal(size=(3, 5, 8)).astype(np.float32)
    layer = MultiHeadAttention(8, 2, position=Rotary(head_dim=4, layout="half"), key=jax.random.key(0))
    plain = layer(x, x, x)
    np.testing.assert_allclose(jax.jit(lambda layer, x: layer(x, x, x))(layer, x), plain, atol=1e-6)
    rows = jax.vmap(lambda row: layer(row[None], row[None], row[None])[0])(jnp.asarray(x))
    np.testing.assert_allclose(rows, plain, atol=1e-6)
    gradient = jax.grad(lambda layer: (layer(x, x, x) ** 2).sum())(layer)
    assert all(np.abs(leaf).max() > 0 for leaf in jax.tree_util.tree_leaves(gradient))


def test_layers_are_immutable():
    with pytest.raises(AttributeError, match="`dropout` of a PositionalEncoding cannot be changed"):
        PositionalEncoding(8).dropout = 0.5


def test_dropout_needs_a_key():
    layer, x = PositionalEncoding(8, 0.5), jnp.ones((1, 64, 8))
    np.testing.assert_array_equal(layer(x), layer(x))
    dropped = layer(x, key=jax.random.key(1))
    assert 0.3 < np.mean(dropped == 0) < 0.7


def test_a_layer_with_a_grown_table_has_the_same_tree_structure():
    """Otherwise the state of an optimizer would not fit it."""
    layer, x = PositionalEncoding(4, max_len=3), jnp.zeros((1, 1, 4), jnp.float32)
    row, before = jax.jit(lambda layer, start: layer(x, start=start)), jax.tree.structure(layer)
    assert np.isnan(row(layer, 4)).all()
    layer(jnp.zeros((1, 6, 4), jnp.float32))
    assert layer.P.shape == (1, 6, 4)
    assert jax.tree.structure(layer) == before


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_results_have_the_dtype_of_the_tokens(dtype):
    """This includes attention, whose weights are float32, as in flax with that `dtype`."""
    x, scores = jnp.ones((1, 3, 8), dtype), jnp.ones((1, 2, 3, 3), dtype)
    learned = PositionalEncoding(8, encoding=Learned(dim=8, length=5), key=jax.random.key(0))
    attention = MultiHeadAttention(8, 2, bias=True, position=T5Bias(num_heads=2), key=jax.random.key(0))
    calls = (
        (learned, x),
        (RotaryEmbedding(ROTARY), x),
        (AttentionBias(T5Bias(num_heads=2), key=jax.random.key(0)), scores),
        (attention, x, x, x),
    )
    assert {jax.eval_shape(*call).dtype.name for call in calls} == {dtype}
    gradient = jax.eval_shape(jax.grad(lambda layer: layer(x, x, x).astype(jnp.float32).sum()), attention)
    assert {leaf.dtype.name for leaf in jax.tree.leaves(gradient)} == {"float32"}


def test_attention_in_half_precision_is_near_that_in_float32():
    layer, x = MultiHeadAttention(8, 2, bias=True, position=Alibi(num_heads=2), key=jax.random.key(0)), tokens(1, 5, 8)
    call = jax.jit(lambda x: layer(x, x, x))
    half = call(jnp.asarray(x, jnp.bfloat16))
    np.testing.assert_allclose(half.astype(jnp.float32), call(x), rtol=0, atol=2.0**-5)  # 8 of 2**-8


FAR = np.array([2**31 - 1, 3]), np.array([-(2**31) + 1, 2**31 - 2])


@pytest.mark.parametrize("transform", [lambda call: call, jax.jit], ids=["eager", "traced"])
@pytest.mark.parametrize("sides", ["both", "past"])
def test_distances_beyond_int32_are_right(transform, sides):
    layer, scores = AttentionBias(Alibi(num_heads=1, sides=sides)), jnp.zeros((1, 1, 2, 2))
    biases = transform(lambda *at: layer(scores, 0, *at))(*(each.astype(np.int32) for each in FAR))
    distances = FAR[0][:, None] - FAR[1]
    distances = np.abs(distances) if sides == "both" else np.maximum(distances, 0)
    np.testing.assert_array_equal(biases[0, 0], (-(2.0**-8) * distances).astype(np.float32))


@pytest.mark.parametrize("transform", [lambda call: call, jax.jit], ids=["eager", "traced"])
def test_looked_up_biases_at_distances_beyond_int32_are_right(transform):
    layer, scores = AttentionBias(T5Bias(num_heads=1), key=jax.random.key(0)), jnp.zeros((1, 1, 2, 2))
    close = layer(scores, 0, np.array([1000, 0]), np.array([-1000, 999]))
    biases = transform(lambda *at: layer(scores, 0, *at))(*(each.astype(np.int32) for each in FAR))
    assert len(np.unique(biases[..., 0, :])) == 2
    np.testing.assert_array_equal(biases[0, 0, 0, 0], close[0, 0, 0, 0])
    np.testing.assert_array_equal(biases[0, 0, 1], close[0, 0, 1])


def test_relative_vectors_at_distances_beyond_int32_are_right():
    shaw = AttentionBias(ShawBias(num_heads=1, head_dim=4, max_distance=3, applies_to="keys"), key=jax.random.key(0))
    scores, q, k = jnp.zeros((1, 1, 2, 2)), jnp.ones((1, 1, 2, 4)), jnp.ones((1, 1, 2, 4))
    biases = shaw(scores, 0, *FAR, q, k)
    np.testing.assert_array_equal(biases, shaw(scores, 0, np.array([10, 0]), np.array([-10, 9]), q, k))


@pytest.mark.parametrize("dtype", ["uint8", "int16", "uint32"])
def test_traced_narrow_positions_must_be_cast(dtype):
    """The last row of a table of 2048 rows has no index in uint8."""
    positions = jnp.array([0, 5, 2], dtype)
    with pytest.raises(TypeError, match=f"must be int32 or int64, got {dtype}; cast them to int32 first"):
        jax.jit(lambda at: RotaryEmbedding(ROTARY)(jnp.ones((1, 3, 8)), positions=at))(positions)
    eager = RotaryEmbedding(ROTARY)(jnp.ones((1, 3, 8)), positions=positions)
    np.testing.assert_array_equal(eager, RotaryEmbedding(ROTARY)(jnp.ones((1, 3, 8)), positions=[0, 5, 2]))


def test_projections_take_initializers_and_dtypes():
    ones = jax.nn.initializers.ones
    options = {"kernel_init": ones, "bias_init": ones, "param_dtype": jnp.bfloat16, "dtype": jnp.float16}
    layer = MultiHeadAttention(8, 2, bias=True, position=T5Bias(num_heads=2), key=jax.random.key(0), **options)
    assert {leaf.dtype for leaf in jax.tree_util.tree_leaves(layer)} == {jnp.dtype(jnp.bfloat16)}
    assert all((part.weight == 1).all() and (part.bias == 1).all() for part in (layer.W_q, layer.W_o))
    x = jnp.ones((1, 3, 8))
    assert layer(x, x, x).dtype == jnp.float16
