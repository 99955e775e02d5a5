"""Layers under JAX's transformations, where arrays are tracers."""

import jax
import numpy as np
import pytest
from jax import export
from jax import numpy as jnp

from posenc_backends.jax import AttentionBias, MultiHeadAttention, PositionalEncoding, RotaryEmbedding
from posenc_core import Alibi, DynamicNTK, Rotary, Sinusoidal

from .plain import ULP, WIDTH, angles, rotated, sinusoids, tokens

ROTARY = Rotary(head_dim=WIDTH, layout="half")
LENGTH = 5
X = tokens(2, 3, LENGTH, WIDTH)
WEIGHTS = tokens(2, 3, LENGTH, WIDTH, seed=1)
NEAR = {"rtol": 0, "atol": 6 * ULP}  # two products, a sum and two roundings of the table, of numbers below 2


def short():
    return RotaryEmbedding(ROTARY, max_len=3)


def turned_back():
    return rotated(WEIGHTS, -np.arange(LENGTH))


def test_grad_goes_past_the_table():
    with jax.checking_leaks():
        gradient = jax.grad(lambda x: (short()(x) * WEIGHTS).sum())(X)
    np.testing.assert_allclose(gradient, turned_back(), **NEAR)


def test_vmap_goes_past_the_table():
    layer = short()
    with jax.checking_leaks():
        rows = jax.vmap(layer)(X)
    np.testing.assert_allclose(rows, rotated(X, range(LENGTH)), **NEAR)
    np.testing.assert_allclose(layer(X), rotated(X, range(LENGTH)), **NEAR)  # the grown table contains no tracer


def test_jvp_and_linearize_go_past_the_table():
    (result, tangent), (primal, push) = jax.jvp(short(), (X,), (WEIGHTS,)), jax.linearize(short(), X)
    for got, wanted in ((result, X), (primal, X), (tangent, WEIGHTS), (push(WEIGHTS), WEIGHTS)):
        np.testing.assert_allclose(got, rotated(wanted, range(LENGTH)), **NEAR)


def test_grad_of_a_lone_far_position_is_exact():
    gradient = jax.grad(lambda x: (short()(x, start=2**20) * WEIGHTS).sum())(X)
    np.testing.assert_allclose(gradient, rotated(WEIGHTS, -(2**20 + np.arange(LENGTH))), **NEAR)


@pytest.mark.parametrize(
    "transform",
    [jax.jit, lambda call: jax.jit(jax.vmap(call)), jax.checkpoint, lambda call: lambda x: jax.eval_shape(call, x)],
)
def test_traced_code_does_not_go_past_the_table(transform):
    with pytest.raises(ValueError, match=r"`max_len` is 3, but position 4 is asked for .*`max_len=5` or more"):
        transform(short())(X)


def test_traced_gradients_do_not_go_past_the_table():
    with pytest.raises(ValueError, match="`max_len` is 3"):
        jax.jit(jax.grad(lambda x: short()(x).sum()))(X)


def test_scan_does_not_go_past_the_table():
    with pytest.raises(ValueError, match="`max_len` is 3"):
        jax.lax.scan(lambda _, x: (None, short()(x)), None, X)


def test_each_row_of_a_vmap_has_its_own_start():
    starts = np.array([3, 2**20])
    layer = RotaryEmbedding(ROTARY, max_len=2**20 + LENGTH)
    rows = jax.vmap(layer, in_axes=(0, None, 0))(X, None, starts)
    np.testing.assert_allclose(rows, rotated(X, (starts[:, None] + np.arange(LENGTH))[:, None]), **NEAR)


def test_each_row_of_a_vmap_has_its_own_positions():
    positions = np.array([[4, 0, 9, 2, 2], [1, 60, 3, 5, 7]])
    layer = PositionalEncoding(WIDTH, max_len=61)
    rows = jax.vmap(lambda x, positions: layer(x, positions=positions))(X, positions)
    np.testing.assert_allclose(rows, X + sinusoids(positions)[:, None], rtol=0, atol=2 * ULP)


def test_derivatives_of_positions_forwards_and_backwards():
    """d/dp of a rotation is its frequency times a rotation by 90° more; d²/dp² is minus the frequency squared."""
    positions, x = np.array([0.5, 1.5, 2.0, 7.0, 3.0], np.float32), X[0, :1]
    call = lambda positions: RotaryEmbedding(ROTARY, max_len=16)(x, positions=positions)
    frequencies = np.tile(angles(1), 2)
    quarter = np.concatenate([-x[..., WIDTH // 2 :], x[..., : WIDTH // 2]], axis=-1)
    wanted = rotated(quarter, positions) * frequencies
    for jacobian in (jax.jacfwd, jax.jacrev):
        got = np.einsum("hlcl->hlc", jacobian(call)(positions))
        np.testing.assert_allclose(got, wanted, **NEAR)
    hessian = jax.hessian(lambda positions: call(positions).sum())(positions)
    np.testing.assert_allclose(np.diag(hessian), -(rotated(x, positions) * frequencies**2).sum((0, 2)), atol=2**-20)


def test_traced_real_positions_are_computed_in_float32():
    positions = np.array([0.5, 1.25, 2.0, 7.0, 3.5], np.float32)
    got = jax.jit(lambda positions: RotaryEmbedding(ROTARY)(X, positions=positions))(positions)
    np.testing.assert_allclose(got, rotated(X, positions), rtol=0, atol=6 * ULP + 7 * 2.0**-23)  # of an angle to 7


@pytest.mark.parametrize("policy", ["nothing_saveable", "dots_saveable", "everything_saveable"])
def test_checkpoint_policies_do_not_change_gradients(policy):
    layer, x = MultiHeadAttention(16, 2, position=ROTARY, key=jax.random.key(0)), tokens(2, 4, 16)
    loss = lambda layer: (layer(x, x, x, causal=True) ** 2).sum()
    again = jax.checkpoint(loss, policy=getattr(jax.checkpoint_policies, policy))
    for got, wanted in zip(*(jax.tree.leaves(jax.jit(jax.grad(f))(layer)) for f in (again, loss)), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


def test_dropout_in_a_scan_takes_a_key_for_each_step():
    layer, x = PositionalEncoding(WIDTH, 0.5), jnp.full((1, 64, WIDTH), 3.0)  # none of the results is 0
    keys = jax.random.split(jax.random.key(1), 4)
    steps = np.asarray(jax.lax.scan(lambda x, key: (x, layer(x, key=key)), x, keys)[1])
    dropped = steps == 0
    assert ((dropped.mean((1, 2, 3)) > 0.4) & (dropped.mean((1, 2, 3)) < 0.6)).all()
    assert all((dropped[i] != dropped[j]).any() for i in range(4) for j in range(i))
    scaled = np.broadcast_to(2 * (3 + sinusoids(range(64))), steps.shape)
    np.testing.assert_allclose(steps[~dropped], scaled[~dropped], rtol=2**-22)


def test_layers_made_inside_a_trace_leak_nothing():
    @jax.jit
    def call(x, scores):
        return PositionalEncoding(WIDTH)(x), AttentionBias(Alibi(num_heads=3))(scores)

    with jax.checking_leaks():
        added, _ = call(X[0], np.zeros((3, LENGTH, LENGTH), np.float32))
    np.testing.assert_array_equal(added, X[0] + Sinusoidal(dim=WIDTH).table(range(LENGTH)))


DYNAMIC = DynamicNTK(factor=4.0, original_max_position_embeddings=32)


@pytest.mark.parametrize(
    ("scaling", "options", "message"),
    [
        (DYNAMIC, {"seq_len": 64},
         "`seq_len` asks for other tables than a traced layer holds; make the layer with Rotary"),
        (DYNAMIC, {"start": 26},
         "Position 32 lies past the 32 that these frequencies of .* make the layer with `encoding.at"),
        (None, {"start": 26}, "`max_len` is 32, but position 32 is asked for while the layer is traced; make it with"),
        (None, {"start": 2**20}, "`max_len` is 32, but position 1048582 is asked for while the layer is traced"),
    ],
)  # fmt: skip
def test_what_needs_an_eager_call_is_not_exported(scaling, options, message):
    """Some calls make a table or let one grow."""
    layer = RotaryEmbedding(Rotary(head_dim=WIDTH, layout="half", scaling=scaling), max_len=32)
    with pytest.raises(ValueError, match=message):
        export.export(jax.jit(lambda x: layer(x, **options)))(jax.ShapeDtypeStruct((1, 7, WIDTH), np.float32))
