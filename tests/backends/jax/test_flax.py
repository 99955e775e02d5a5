"""The layers as modules of `flax.nnx`, in a model that is trained, split, saved, stacked and evaluated."""

import importlib
from functools import partial

import jax
import numpy as np
import optax
import orbax.checkpoint as ocp
import pytest
from flax import nnx
from jax import numpy as jnp

from posenc_backends import jax as posenc
from posenc_backends.jax import flax as modules
from posenc_core import (
    Alibi,
    Fire,
    FoPE,
    Learned,
    LearnedRotary,
    LearnedSinusoidal,
    MixedRotary,
    QueryScale,
    Rotary,
    Sinusoidal,
    T5Bias,
)

from .plain import tokens

X, WANTED = tokens(2, 5, 16), tokens(2, 5, 16, seed=1)
ROTARY = Rotary(head_dim=8, layout="half")


class Block(nnx.Module):
    """A Transformer block with all four layers."""

    def __init__(self, rngs, dropout=0.0, position=ROTARY):
        learned = Learned(dim=16, length=9)
        self.embed = modules.PositionalEncoding(16, dropout, encoding=learned, rngs=rngs)
        self.fixed = modules.PositionalEncoding(16)
        self.attention = modules.MultiHeadAttention(16, 2, dropout, position=position, rngs=rngs)
        self.rope = modules.RotaryEmbedding(Rotary(head_dim=16, layout="interleaved"))
        self.bias = modules.AttentionBias(T5Bias(num_heads=1), rngs=rngs)
        self.norm, self.forward = nnx.LayerNorm(16, rngs=rngs), nnx.Linear(16, 16, rngs=rngs)

    @nnx.jit
    def __call__(self, x):
        x = self.fixed(self.embed(x))
        x = self.norm(x + self.attention(x, x, x, causal=True))
        scores = self.rope(x) @ self.rope(x).swapaxes(-1, -2)
        return self.forward(nnx.softmax(self.bias(scores[:, None]))[:, 0] @ x)


@nnx.jit
def step(model, optimizer, x):
    value, gradient = nnx.value_and_grad(lambda model: ((model(x) - WANTED) ** 2).mean())(model)
    optimizer.update(model, gradient)
    return value


def tables(model):
    return [np.asarray(table) for layer in (model.fixed, model.rope, model.attention.rotary) for table in layer.tables]


def paths(state):
    return {"/".join(map(str, path)) for path, _ in nnx.to_flat_state(state)}


def test_an_optimizer_moves_parameters_and_no_table():
    model = Block(nnx.Rngs(0))
    before, fixed = jax.tree.map(np.asarray, nnx.to_pure_dict(nnx.state(model))), tables(model)
    optimizer = nnx.Optimizer(model, optax.adamw(0.02, weight_decay=0.5), wrt=nnx.Param)
    values = [float(step(model, optimizer, X)) for _ in range(5)]
    assert values[-1] < 0.8 * values[0]
    moved = jax.tree.map(lambda a, b: np.abs(a - b).max() > 0, before, nnx.to_pure_dict(nnx.state(model)))
    assert all(jax.tree.leaves(moved))
    for after, table in zip(tables(model), fixed, strict=True):
        np.testing.assert_array_equal(after, table)


def test_state_is_parameters_by_their_paths():
    weights = {f"attention/W_{name}/kernel" for name in "qkvo"}
    others = {"norm/scale", "norm/bias", "forward/kernel", "forward/bias"}
    expected = {"embed/parameters/table", "bias/parameters/table", *weights, *others}
    assert paths(nnx.state(Block(nnx.Rngs(0)))) == paths(nnx.state(Block(nnx.Rngs(0)), nnx.Param)) == expected


def test_a_model_is_split_and_merged():
    model, other = Block(nnx.Rngs(0)), Block(nnx.Rngs(1))
    graph, state = nnx.split(model)
    np.testing.assert_array_equal(nnx.merge(graph, state)(X), model(X))
    assert graph == nnx.split(other)[0]  # so `jit` compiles once for both
    assert graph != nnx.split(Block(nnx.Rngs(0), position=Alibi(num_heads=2)))[0]
    nnx.update(other, state)
    np.testing.assert_array_equal(other(X), model(X))


def test_a_model_is_restored_from_a_checkpoint(tmp_path):
    model = Block(nnx.Rngs(0))
    graph, unknown = nnx.split(nnx.eval_shape(lambda: Block(nnx.Rngs(1))))
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(tmp_path / "model", nnx.state(model))
        checkpointer.wait_until_finished()
        restored = nnx.merge(graph, checkpointer.restore(tmp_path / "model", unknown))
    np.testing.assert_array_equal(restored(X), model(X))


def test_a_model_is_saved_with_its_encodings():
    model, target = Block(nnx.Rngs(0)), Block(nnx.Rngs(1))
    np.testing.assert_array_equal(posenc.from_state(target, posenc.to_state(model))(X), model(X))
    other = Block(nnx.Rngs(1), position=Rotary(head_dim=8, layout="interleaved"))
    with pytest.raises(ValueError, match=r"attention.rotary.encoding` must be Rotary.*interleaved.*got Rotary.*half"):
        posenc.from_state(other, posenc.to_state(model))


@pytest.mark.slow
def test_blocks_are_stacked_and_scanned():
    @nnx.split_rngs(splits=3)
    @nnx.vmap
    def stack(rngs):
        return Block(rngs)

    blocks = stack(nnx.Rngs(0))
    assert blocks.embed.parameters["table"].shape == (3, 9, 16)
    result = nnx.scan(lambda x, block: block(x), in_axes=(nnx.Carry, 0), out_axes=nnx.Carry)(X, blocks)
    graph, state = nnx.split(blocks)
    wanted = X
    for index in range(3):
        wanted = nnx.merge(graph, jax.tree.map(lambda leaf, at=index: leaf[at], state))(wanted)
    np.testing.assert_allclose(result, wanted, rtol=0, atol=1e-6)


def test_blocks_may_share_a_layer_that_learns():
    """It is one module of the graph, with one parameter."""
    bias = modules.AttentionBias(T5Bias(num_heads=2), rngs=nnx.Rngs(0))
    blocks = nnx.List([modules.MultiHeadAttention(16, 2, position=bias, rngs=nnx.Rngs(seed)) for seed in (1, 2)])
    assert len(jax.tree.leaves(nnx.state(blocks))) == 2 * 4 + 1
    graph, state = nnx.split(blocks)
    merged = nnx.merge(graph, state)
    assert merged[0].scoring is merged[1].scoring


def test_dropout_follows_train_and_eval():
    def layer(dropout=0.5, **options):
        return modules.PositionalEncoding(16, dropout, **options)

    ones, first, again = jnp.ones((8, 5, 16)), layer(rngs=nnx.Rngs(dropout=1)), layer(rngs=nnx.Rngs(dropout=1))
    model = nnx.List([first, modules.MultiHeadAttention(16, 2, 0.5, rngs=nnx.Rngs(0))])
    dropped = first(ones)
    np.testing.assert_array_equal(dropped, nnx.jit(lambda layer, x: layer(x))(again, ones))
    for other in (first(ones), again(ones)):
        assert not np.array_equal(other, dropped)
    assert 0.3 < np.mean(dropped == 0) < 0.7
    model.eval()
    np.testing.assert_array_equal(first(ones), layer(0.0)(ones))
    assert model[1].dropout.deterministic
    assert np.any(layer()(ones, rngs=nnx.Rngs(0)) == 0)
    np.testing.assert_array_equal(layer()(ones, deterministic=True), layer(0.0)(ones))
    with pytest.raises(ValueError, match="no `rngs` argument"):
        layer()(ones)


LAYERS = [
    ("PositionalEncoding", (16,), {"encoding": LearnedSinusoidal(dim=16)}, (X,)),
    ("PositionalEncoding", (16,), {"encoding": Sinusoidal(dim=16)}, (X,)),
    ("RotaryEmbedding", (LearnedRotary(head_dim=16, layout="half"),), {}, (X,)),
    ("RotaryEmbedding", (FoPE(head_dim=16, layout="half", num_terms=5, std=0.5),), {}, (X,)),
    (
        "RotaryEmbedding",
        (MixedRotary(head_dim=16, layout="half", num_heads=2),),
        {},
        (X, None, 0, np.array([[0, 0, 0, 1, 1], [0, 1, 2, 0, 1]])),
    ),
    ("AttentionBias", (Fire(num_heads=2),), {}, (np.zeros((1, 2, 5, 5), np.float32),)),
    ("MultiHeadAttention", (16, 2), {"bias": True, "position": T5Bias(num_heads=2)}, (X, X, X, np.array([3, 2]))),
]


@pytest.mark.parametrize(("name", "arguments", "options", "inputs"), LAYERS)
def test_numbers_are_those_of_the_layer_of_jax(name, arguments, options, inputs):
    """The parameters of one, given to the other, give the same bits, and the same dtype."""
    plain = getattr(posenc, name)(*arguments, **options, key=jax.random.key(3))
    module = getattr(modules, name)(*arguments, **options, rngs=nnx.Rngs(4))
    drawn = {jax.tree_util.keystr(path).replace(".weight", ".kernel"): leaf
             for path, leaf in jax.tree_util.tree_leaves_with_path(plain)}  # fmt: skip
    places = jax.tree_util.tree_leaves_with_path(module)
    found = [drawn[jax.tree_util.keystr(path).removesuffix(".value")] for path, _ in places]
    assert len(found) == len(drawn)
    module = jax.tree.unflatten(jax.tree.structure(module), found)
    np.testing.assert_array_equal(module(*inputs), plain(*inputs))
    half = [jnp.asarray(x, jnp.bfloat16) if getattr(x, "dtype", None) == np.float32 else x for x in inputs]
    assert nnx.eval_shape(lambda module, *given: module(*given), module, *half).dtype == jnp.bfloat16
    assert isinstance(module, nnx.Module)


def test_queries_of_attention_are_scaled():
    """A model that is split and merged has the factors as well."""
    scale = QueryScale(length=2, scale=1.0)
    with pytest.raises(TypeError, match=r"^`rngs` must be given to a layer that draws initial parameters"):
        modules.MultiHeadAttention(16, 2, query_scale=scale)
    layer = modules.MultiHeadAttention(16, 2, query_scale=scale, rngs=nnx.Rngs(0))
    plain = modules.MultiHeadAttention(16, 2, rngs=nnx.Rngs(0))
    same = nnx.merge(*nnx.split(layer))
    np.testing.assert_array_equal(same(X, X, X), layer(X, X, X))
    assert not np.allclose(layer(X, X, X)[:, 2:], plain(X, X, X)[:, 2:], atol=1e-4)
    queries = np.ones((3, 1), np.float32)
    np.testing.assert_array_equal(modules.QueryScaling(scale)(queries)[:, 0], scale.factors(range(3)))


def test_a_table_grows_in_eager_calls_and_the_graph_stays():
    layer = modules.RotaryEmbedding(ROTARY, max_len=4)
    graph = nnx.split(layer)[0]
    q = tokens(1, 2, 9, 8)
    np.testing.assert_array_equal(layer(q), posenc.RotaryEmbedding(ROTARY)(q))
    assert layer.tables[0].shape[0] >= 9
    assert nnx.split(layer)[0] == graph
    with pytest.raises(ValueError, match="max_len"):
        nnx.jit(lambda layer, q: layer(q))(layer, q)


def test_without_flax_its_import_says_what_to_install(monkeypatch):
    monkeypatch.setattr("posenc_backends.find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r'^`flax` is not installed; run `pip install "flax"`\.$'):
        importlib.reload(modules)


def test_an_older_flax_is_refused(monkeypatch):
    monkeypatch.delattr(nnx, "data")
    with pytest.raises(ImportError, match=r"needs flax 0\.12 or newer"):
        importlib.reload(modules)


def test_projections_take_initializers_dtypes_and_the_names_of_mesh_axes():
    split = partial(nnx.with_partitioning, nnx.initializers.ones)
    inits = {"kernel_init": split((None, "model")), "out_kernel_init": split(("model", None))}
    options = {**inits, "bias_init": nnx.initializers.ones, "param_dtype": jnp.bfloat16, "rngs": nnx.Rngs(0)}
    auto = (jax.sharding.AxisType.Auto,)
    with jax.set_mesh(jax.make_mesh((1,), ("model",), axis_types=auto)):
        layer = modules.MultiHeadAttention(16, 2, bias=True, position=T5Bias(num_heads=2), **options)
    specs, state = nnx.get_partition_spec(nnx.state(layer)), nnx.state(layer)
    assert tuple(specs["W_q"]["kernel"].get_value()) == (None, "model")
    assert tuple(specs["W_o"]["kernel"].get_value()) == ("model", None)
    assert {leaf.dtype for leaf in jax.tree.leaves(state)} == {jnp.dtype(jnp.bfloat16)}
    assert (layer.W_v.bias[...] == 1).all()
    narrow = modules.MultiHeadAttention(16, 2, dtype=jnp.bfloat16, rngs=nnx.Rngs(0))
    assert narrow(X, X, X).dtype == jnp.bfloat16
