"""Layers on eight devices: where arrays are, and what is communicated."""

from functools import partial

import equinox as eqx
import haiku as hk
import jax
import numpy as np
import pytest
from flax import linen, nnx
from jax import numpy as jnp
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as Spec

from posenc_backends.jax import AttentionBias, MultiHeadAttention, PositionalEncoding, RotaryEmbedding
from posenc_backends.jax import flax as modules
from posenc_core import Alibi, Learned, PoPE, Rotary, T5Bias, shard

from ...many_devices import many_devices
from .plain import ULP, WIDTH, rotated, sinusoids, tokens

SENT = ("all-gather", "all-reduce", "all-to-all", "collective-permute", "reduce-scatter")
LENGTH = 16
ROTARY = Rotary(head_dim=WIDTH, layout="half")
X = tokens(2, 8, LENGTH, WIDTH)
TURNED = rotated(X, range(LENGTH))
NEAR = {"rtol": 0, "atol": 6 * ULP}


@pytest.fixture(scope="module")
def mesh():
    if len(jax.devices()) != 8:
        pytest.skip("XLA_FLAGS must ask for 8 devices.")
    return Mesh(np.array(jax.devices()).reshape(2, 4), ("heads", "sequence"))


def on_mesh(mesh, array, *axes):
    return jax.device_put(array, NamedSharding(mesh, Spec(*axes)))


def sent(call, *arrays):
    program = jax.jit(call).lower(*arrays).compile().as_text()
    return [operation for operation in SENT if operation in program]


@many_devices("JAX", "`jit` of tokens split over heads, sequence or both: RoPE without communication")
@pytest.mark.parametrize("axes", [(None, None, "sequence"), (None, "heads"), (None, "heads", "sequence")])
@pytest.mark.parametrize("arguments", [{}, {"start": 0}, {"positions": np.arange(LENGTH)}])
def test_rotation_needs_no_communication(mesh, axes, arguments):
    layer, x = RotaryEmbedding(ROTARY, max_len=64), on_mesh(mesh, X, *axes)
    result = jax.jit(lambda x: layer(x, **arguments))(x)
    assert result.sharding.is_equivalent_to(x.sharding, 4)
    assert not sent(lambda x: layer(x, **arguments), x)
    np.testing.assert_allclose(result, TURNED, **NEAR)


def test_a_traced_start_needs_no_communication(mesh):
    layer, x = RotaryEmbedding(ROTARY, max_len=64), on_mesh(mesh, X, None, "heads", "sequence")
    assert not sent(lambda x, start: layer(x, start=start), x, 3)
    result = jax.jit(lambda x, start: layer(x, start=start))(x, 3)
    np.testing.assert_allclose(result, rotated(X, range(3, 3 + LENGTH)), **NEAR)


def test_addition_and_bias_need_no_communication(mesh):
    x, scores = on_mesh(mesh, X[:, 0], None, "sequence"), on_mesh(mesh, X @ X.swapaxes(2, 3), None, "heads", "sequence")
    assert not sent(PositionalEncoding(WIDTH), x)
    assert not sent(AttentionBias(Alibi(num_heads=8)), scores)
    assert not sent(AttentionBias(T5Bias(num_heads=8), key=jax.random.key(0)), scores)


def test_layers_run_on_sharded_tokens_without_jit(mesh):
    x = on_mesh(mesh, X, None, "heads", "sequence")
    layer = RotaryEmbedding(ROTARY, max_len=4)  # its table grows
    result = layer(x)
    assert result.sharding.is_equivalent_to(x.sharding, 4)
    np.testing.assert_allclose(result, TURNED, **NEAR)
    np.testing.assert_allclose(layer(X), TURNED, **NEAR)


def test_an_explicit_mesh_keeps_the_sharding_in_types():
    mesh = jax.make_mesh((8,), ("sequence",), axis_types=(jax.sharding.AxisType.Explicit,))
    x = on_mesh(mesh, X, None, None, "sequence")
    with jax.set_mesh(mesh):
        result = jax.jit(RotaryEmbedding(ROTARY, max_len=64))(x)
        again = jax.jit(lambda x, start: RotaryEmbedding(ROTARY, max_len=64)(x, start=start))(x, 0)
    for found in (result, again):
        assert found.sharding.spec[2] == "sequence"
        np.testing.assert_allclose(found, TURNED, **NEAR)


@many_devices("JAX", "explicit meshes: sharded positions, starts, packed rows, `cos_sin`, tensor-parallel weights")
def test_an_explicit_mesh_takes_sharded_positions_starts_and_weights():
    """It is what `jax.make_mesh` makes: all that is looked up or summed must say how its result is sharded."""
    mesh, starts, rows = jax.make_mesh((2, 4), ("batch", "model")), np.array([1, 5]), np.arange(2 * LENGTH) % 11
    rope, attend = (
        RotaryEmbedding(ROTARY, max_len=64),
        MultiHeadAttention(WIDTH, 4, position=T5Bias(num_heads=4), key=jax.random.key(0)),
    )
    learned = PositionalEncoding(WIDTH, encoding=Learned(dim=WIDTH, length=32), key=jax.random.key(0))

    def call(attend, x, tokens, starts, rows):
        in_attention = {"positions": rows, "key_positions": rows, "causal": True}
        return (
            *(rope(x, start=starts), *rope.cos_sin(rows), rope(x, positions=rows)),
            *(learned(tokens, positions=rows), attend(tokens, tokens, tokens, **in_attention)),
        )

    given = X, X[:, 0], starts, rows.reshape(2, LENGTH)
    sharded = on_mesh(mesh, X, "batch", "model"), on_mesh(mesh, X[:, 0], "batch"), on_mesh(mesh, starts, "batch")
    packed = on_mesh(mesh, given[-1], "batch")
    with jax.set_mesh(mesh):
        results = jax.jit(call)(jax.tree_util.tree_map_with_path(partial(lie, mesh, "model"), attend), *sharded, packed)
    for result, wanted in zip(results, call(attend, *map(jnp.asarray, given)), strict=True):
        assert result.sharding.spec[0] in ("batch", None)
        np.testing.assert_allclose(result, wanted, rtol=0, atol=1e-5)
    by_column = jax.jit(lambda x, rows: rope(x, positions=rows))
    with jax.set_mesh(mesh):
        result = by_column(on_mesh(mesh, X, None, None, "model"), on_mesh(mesh, given[-1], None, "model"))
    np.testing.assert_allclose(result, rope(X, positions=given[-1]), **NEAR)


def lie(mesh, name, path, leaf):
    """Return a leaf of attention as tensor parallelism has it: columns of the projections, rows of the last one."""
    axes = (name,) if path[0].name == "W_o" else (None, name)
    return on_mesh(mesh, leaf, *(axes if path[-1] == jax.tree_util.GetAttrKey("weight") else ()))


def test_shard_map_over_heads_needs_no_positions(mesh):
    layer, spec = RotaryEmbedding(ROTARY, max_len=64), Spec(None, "heads")
    result = jax.jit(jax.shard_map(layer, mesh=mesh, in_specs=spec, out_specs=spec))(X)
    np.testing.assert_allclose(result, TURNED, **NEAR)


@many_devices(
    "JAX",
    "`shard_map` over the heads of a bias or of rotations that differ by head, with gradients of what is learned",
    line='`heads=4 * jax.lax.axis_index("heads") + jnp.arange(4)`',
)
@pytest.mark.parametrize(
    "layer",
    [
        AttentionBias(Alibi(num_heads=8)),
        AttentionBias(T5Bias(num_heads=8), key=jax.random.key(0)),
        RotaryEmbedding(PoPE(head_dim=WIDTH, num_heads=8), max_len=64, key=jax.random.key(0)),
    ],
    ids=lambda layer: type(layer.encoding).__name__,
)
def test_shard_map_over_heads_takes_a_traced_offset(mesh, layer):
    x, spec = tokens(2, 8, LENGTH, LENGTH if isinstance(layer, AttentionBias) else WIDTH), Spec(None, "heads")

    def part(layer, x):
        return layer(x, heads=4 * jax.lax.axis_index("heads") + jnp.arange(4))

    together = jax.jit(jax.shard_map(part, mesh=mesh, in_specs=(Spec(), spec), out_specs=spec))
    np.testing.assert_allclose(together(layer, x), layer(x), rtol=0, atol=1e-6)
    gradients = [
        jax.grad(lambda layer, call=call: (call(layer, x) ** 2).sum(), allow_int=True)(layer)
        for call in (together, lambda layer, x: layer(x))
    ]
    for got, wanted in zip(*map(jax.tree.leaves, gradients), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)


@many_devices(
    "JAX",
    "`shard_map` over the sequence, contiguous or zig-zag",
    line='`positions=shard(positions, jax.lax.axis_index("sequence"), 4, order="zigzag")`',
)
@pytest.mark.parametrize("order", ["contiguous", "zigzag"])
def test_shard_map_over_the_sequence_takes_the_positions_of_its_shard(mesh, order):
    layer, own = PositionalEncoding(WIDTH, max_len=64), partial(shard, np.arange(LENGTH), world_size=4, order=order)
    ranks = np.concatenate([own(rank) for rank in range(4)])
    call = jax.shard_map(
        lambda x, positions: (layer(x, positions=positions), own(jax.lax.axis_index("sequence"))),
        mesh=mesh,
        in_specs=(Spec(None, "sequence"), Spec("sequence")),
        out_specs=(Spec(None, "sequence"), Spec("sequence")),
    )
    result, positions = jax.jit(call)(X[:, 0, ranks], ranks)
    np.testing.assert_array_equal(positions, ranks)
    np.testing.assert_allclose(result, X[:, 0, ranks] + sinusoids(ranks), rtol=0, atol=2 * ULP)


@many_devices("JAX", "Ulysses in `shard_map`: RoPE between two `all_to_all`")
def test_ulysses_rotates_the_full_sequence_of_its_heads(mesh):
    """Between two exchanges each device has all tokens of some heads (Jacobs et al. 2023, arXiv:2309.14509)."""
    layer, spec = RotaryEmbedding(ROTARY, max_len=64), Spec(None, None, "sequence")

    def part(x):
        heads = jax.lax.all_to_all(x, "sequence", split_axis=1, concat_axis=2, tiled=True)
        return jax.lax.all_to_all(layer(heads), "sequence", split_axis=2, concat_axis=1, tiled=True)

    result = jax.jit(jax.shard_map(part, mesh=mesh, in_specs=spec, out_specs=spec))(X)
    np.testing.assert_allclose(result, TURNED, **NEAR)


@many_devices(
    "JAX",
    "tensor-parallel `MultiHeadAttention`: one all-reduce",
    line="columns of `W_q`, `W_k`, `W_v` and rows of `W_o` sharded",
)
def test_attention_with_heads_on_several_devices(mesh):
    """Devices hold columns of the projections and rows of the last one (Shoeybi et al. 2019): one all-reduce."""
    layer, x = (
        MultiHeadAttention(16, 2, position=Rotary(head_dim=8, layout="half"), key=jax.random.key(0)),
        jnp.asarray(tokens(2, 5, 16)),
    )

    spread = jax.tree_util.tree_map_with_path(partial(lie, mesh, "heads"), layer)
    assert sent(lambda layer, x: layer(x, x, x, causal=True), spread, on_mesh(mesh, x)) == ["all-reduce"]
    result = jax.jit(lambda layer, x: layer(x, x, x, causal=True))(spread, on_mesh(mesh, x))
    np.testing.assert_allclose(result, layer(x, x, x, causal=True), rtol=0, atol=1e-5)


class Field(eqx.Module):
    """A module of Equinox with a layer."""

    attention: MultiHeadAttention

    def __call__(self, x):
        return self.attention(x, x, x, causal=True)


class Block(linen.Module):
    """A module of linen with a layer."""

    @linen.compact
    def __call__(self, x):
        return self.param("attention", attention)(x, x, x, causal=True)


def attention(key):
    return MultiHeadAttention(16, 2, position=T5Bias(num_heads=2), key=key)


def haiku_block(x):
    """Return the result of a layer whose leaves are parameters of Haiku, as on the page on JAX."""
    leaves, tree = jax.tree.flatten(attention(jax.random.key(0)))
    found = [hk.get_parameter(str(n), x.shape, x.dtype, init=lambda *_, x=x: x) for n, x in enumerate(leaves)]
    layer = tree.unflatten(found)
    return layer(x, x, x, causal=True)


@many_devices("JAX", "batch and sequence on eight devices with `flax.nnx`, linen, Equinox and Haiku")
def test_modules_of_every_library_run_on_eight_devices(mesh):
    """The batch and the sequence are split, parameters are on all devices; one program has all four."""
    x, key = jnp.asarray(tokens(2, 8, 16)), jax.random.key(0)
    graph, state = nnx.split(modules.MultiHeadAttention(16, 2, position=T5Bias(num_heads=2), rngs=nnx.Rngs(0)))
    haiku = hk.without_apply_rng(hk.transform(haiku_block))
    calls = (
        lambda state, x: nnx.merge(graph, state)(x, x, x, causal=True),
        Block().apply,
        Field.__call__,
        haiku.apply,
    )
    trees = state, Block().init(key, x), Field(attention(key)), haiku.init(key, x)

    def run(trees, x):
        return [call(tree, x) for call, tree in zip(calls, trees, strict=True)]

    found = jax.jit(run)(jax.tree.map(partial(on_mesh, mesh), trees), on_mesh(mesh, x, "heads", "sequence"))
    for got, wanted in zip(found, run(trees, x), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-5)
