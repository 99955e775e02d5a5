"""What `jit` compiles, how often, and which tables are constants of the program."""

import jax
import numpy as np
import pytest
from jax import numpy as jnp

from posenc_backends.jax import MultiHeadAttention, PositionalEncoding, RotaryEmbedding
from posenc_core import Alibi, AxialRotary, Rotary, grid

from .plain import WIDTH, tokens

X = tokens(1, 2, 7, WIDTH)


def rope(base=10000.0, max_len=64):
    return RotaryEmbedding(Rotary(head_dim=WIDTH, layout="half", base=base), max_len=max_len)


def counting():
    """Return a compiled call of any layer, and a list that grows with each trace."""
    traced = []

    @jax.jit
    def call(layer, *arrays):
        traced.append(layer)
        return layer(*arrays)

    return call, traced


def largest_constant(call, *arrays):
    return max((np.size(constant) for constant in jax.make_jaxpr(call)(*arrays).consts), default=0)


def test_a_layer_of_an_equal_encoding_is_not_compiled_again():
    call, traced = counting()
    for layer in (rope(), rope(), jax.tree.map(lambda leaf: leaf, rope())):
        call(layer, X)
    assert len(traced) == 1


def test_new_attention_of_an_equal_encoding_is_not_compiled_again():
    (call, traced), x = counting(), tokens(1, 4, 16)
    for seed in range(3):
        call(MultiHeadAttention(16, 2, position=Alibi(num_heads=2), key=jax.random.key(seed)), x, x, x)
    assert len(traced) == 1


@pytest.mark.parametrize("other", [rope(base=500.0), rope(max_len=65)])
def test_a_layer_of_another_encoding_is_compiled_again(other):
    call, traced = counting()
    results = [call(layer, X) for layer in (rope(), other)]
    assert len(traced) == 2
    np.testing.assert_allclose(results[1], other(X), rtol=0, atol=1e-6)


def test_a_table_that_grew_compiles_nothing_again():
    (call, traced), layer = counting(), rope(max_len=8)
    call(layer, X)
    layer(jnp.ones((1, 2, 33, WIDTH), jnp.float32))
    assert layer.tables[0].shape[0] >= 33
    call(layer, X)
    assert len(traced) == 1


@pytest.mark.parametrize("arguments", [{}, {"start": 5}, {"positions": np.array([9, 0, 3, 60, 1, 2, 2])}])
def test_compiled_code_contains_only_the_rows_of_constant_positions(arguments):
    layer = rope(max_len=4096)
    assert largest_constant(lambda x: layer(x, **arguments), X) <= 7 * WIDTH
    np.testing.assert_allclose(jax.jit(lambda x: layer(x, **arguments))(X), layer(X, **arguments), rtol=0, atol=1e-6)


def test_compiled_code_contains_only_the_rows_of_constant_grid_positions():
    layer = RotaryEmbedding(AxialRotary(head_dim=WIDTH, layout="half", axes_dims=(4, 4)), max_len=4096)
    assert largest_constant(lambda x: layer(x, positions=grid(2, 3)), X[:, :, :6]) <= 6 * WIDTH


def test_compiled_code_contains_a_table_once_for_traced_positions():
    layer = rope(max_len=4096)
    constants = jax.make_jaxpr(lambda x, start: layer(layer(x, start=start), start=start))(X, 3).consts
    assert (
        sorted(np.size(constant) for constant in constants if np.size(constant) > 7 * WIDTH) == [4096 * WIDTH // 2] * 2
    )


@pytest.mark.parametrize(("traced", "rows"), [(True, 64), (False, len(X[0, 0]))])
def test_equal_tables_are_one_constant(traced, rows):
    layers = [rope() for _ in range(3)]

    def call(x, positions):
        for layer in layers:
            x = layer(x, positions=positions if traced else None)
        return x

    constants = jax.make_jaxpr(call)(X, np.arange(X.shape[-2])).consts
    assert sum(map(np.size, constants)) == rows * WIDTH


def test_donated_tokens_are_overwritten():
    layer, x = PositionalEncoding(WIDTH), jnp.copy(X)
    result = jax.jit(layer, donate_argnums=0)(x)
    assert x.is_deleted()
    np.testing.assert_allclose(result, layer(X), rtol=0, atol=1e-6)
