"""Tables that eager calls have grown: no traced code depends on them, nor on which layer was traced first."""

from functools import partial

import jax
import numpy as np
import pytest
from jax import numpy as jnp

from posenc_backends.jax import MultiHeadAttention, PositionalEncoding, RotaryEmbedding
from posenc_core import Rotary

from .plain import rotated, sinusoids, tokens

ROTARY = Rotary(head_dim=4, layout="half")
NONE, POSITIONS = np.zeros((1, 3, 4), np.float32), np.array([5, 9, 11])
WANTED = np.where([[True], [False], [False]], sinusoids(POSITIONS, 4), np.nan)[None]  # of a table of 8 rows


def short():
    return PositionalEncoding(4, max_len=8)


def grown():
    layer = short()
    layer(jnp.zeros((1, 16, 4), jnp.float32))
    assert layer.P.shape == (1, 16, 4)
    return layer


def at(layer, x, positions):
    return layer(x, positions=positions)


def new(call):
    """Return the call, compiled again."""
    return jax.jit(partial(call))


def test_a_compiled_call_is_the_same_before_and_after_growth():
    layer, call = short(), new(at)
    for _ in range(2):
        for compiled in (call, new(at)):
            np.testing.assert_allclose(compiled(layer, NONE, POSITIONS), WANTED, rtol=0, atol=2.0**-24)
        layer(jnp.zeros((1, 16, 4), jnp.float32))


@pytest.mark.parametrize("first", [short, grown])
def test_a_compiled_call_does_not_depend_on_which_layer_was_compiled_first(first):
    call = new(at)
    for layer in (first(), short(), grown()):
        np.testing.assert_allclose(call(layer, NONE, POSITIONS), WANTED, rtol=0, atol=2.0**-24)


@pytest.mark.parametrize("make", [short, grown])
@pytest.mark.parametrize("arguments", [{}, {"positions": range(16)}, {"start": 2}])
def test_traced_code_ends_at_max_len(make, arguments):
    with pytest.raises(ValueError, match=r"`max_len` is 8, but position 1\d is asked for"):
        new(lambda layer, x: layer(x, **arguments))(make(), jnp.zeros((1, 16, 4), jnp.float32))


def test_traced_positions_of_an_eager_call_end_at_max_len():
    rows = [
        jax.vmap(lambda x, p, layer=layer: at(layer, x, p))(NONE[None], POSITIONS[None]) for layer in (short(), grown())
    ]
    for row in rows:
        np.testing.assert_allclose(row[0], WANTED, rtol=0, atol=2.0**-24)


def test_eager_calls_use_the_grown_table(monkeypatch):
    layer, x = RotaryEmbedding(ROTARY, max_len=2), tokens(1, 16, 4)
    layer(x)
    monkeypatch.setattr(type(layer), "set_tables", None)  # no further growth
    np.testing.assert_allclose(layer(x), rotated(x, range(16)), rtol=0, atol=1e-6)
    _, pull_back = jax.vjp(layer, x)
    np.testing.assert_allclose(pull_back(x)[0], rotated(x, -np.arange(16)), rtol=0, atol=1e-6)


def test_a_layer_returned_from_compiled_code_equals_its_input():
    """It does not matter which of the two had grown."""
    step = jax.jit(lambda layer: jax.tree.map(lambda leaf: 2 * leaf, layer))
    layers = [MultiHeadAttention(8, 2, position=ROTARY, key=jax.random.key(0)) for _ in range(2)]
    layers[0].rotary(jnp.zeros((1, 1, 3000, 4), jnp.float32))
    for layer in map(step, layers):
        with pytest.raises(ValueError, match="`max_len` is 2048"):
            jax.jit(layer.rotary)(jnp.zeros((1, 2, 3000, 4), jnp.float32))
