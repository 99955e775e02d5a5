"""Layers and their leaves: saved, restored, cast, copied, combined, and mixed with another encoding."""

import copy
import json
import pickle

import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest
from jax import numpy as jnp

from posenc_backends.jax import MultiHeadAttention, PositionalEncoding, RotaryEmbedding
from posenc_core import Learned, LearnedSinusoidal, Rotary, Sinusoidal
from posenc_core.encodings import Encoding

from .plain import WIDTH, rotated, sinusoids, tokens

X = tokens(1, 2, 7, WIDTH)


def rope(base=10000.0, max_len=64):
    return RotaryEmbedding(Rotary(head_dim=WIDTH, layout="half", base=base), max_len=max_len)


def learned(length=9, **settings):
    return PositionalEncoding(WIDTH, encoding=Learned(dim=WIDTH, length=length, **settings), key=jax.random.key(0))


def attention(base):
    return MultiHeadAttention(
        2 * WIDTH, 2, position=Rotary(head_dim=WIDTH, layout="half", base=base), key=jax.random.key(0)
    )


@pytest.fixture
def saved(tmp_path):
    """A function that saves a pytree as an orbax checkpoint and restores it into another."""

    def through(tree, target):
        with ocp.StandardCheckpointer() as checkpointer:
            checkpointer.save(tmp_path / "saved", tree)
            checkpointer.wait_until_finished()
            return checkpointer.restore(tmp_path / "saved", target)

    return through


def test_a_checkpoint_holds_parameters_by_name(saved):
    layer = attention(500.0)
    restored = saved(layer, jax.tree.map(jnp.zeros_like, layer))
    x = tokens(1, 3, 2 * WIDTH)
    np.testing.assert_array_equal(restored(x, x, x), layer(x, x, x))
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(layer)]
    assert paths == [f".{name}.weight" for name in ("W_q", "W_k", "W_v", "W_o")]


def test_a_checkpoint_of_other_parameters_is_rejected(saved):
    target = PositionalEncoding(WIDTH, encoding=LearnedSinusoidal(dim=WIDTH))
    with pytest.raises(ValueError, match=r"(?s)parameters\.alpha.*parameters\.table"):
        saved(learned(), target)


def test_a_checkpoint_of_another_length_is_rejected(saved):
    with pytest.raises(ValueError, match=r"\(6, 8\) is not compatible with the stored shape: \(9, 8\)"):
        saved(learned(9), learned(6))


@pytest.mark.parametrize(
    ("first", "second"),
    [(rope(), rope(base=500.0)), (learned(), learned(std=1.0)), (attention(10000.0), attention(500.0))],
)
def test_trees_of_two_encodings_do_not_combine(first, second):
    """JAX names both encodings for gradients, means and updates."""
    encodings = [getattr(layer, "rotary", layer).encoding for layer in (first, second)]
    with pytest.raises(ValueError, match="different pytree metadata") as caught:
        jax.tree.map(lambda a, b: a, first, second)
    assert all(repr(encoding) in str(caught.value) for encoding in encodings)
    assert jax.tree.structure(first) != jax.tree.structure(second)


def test_an_encoding_is_saved_beside_its_leaves(tmp_path):
    """Leaves do not name their encoding; the encoding is saved as JSON, and its layer has the same structure."""
    layer = learned(std=0.5)
    arguments = ocp.args.Composite(
        leaves=ocp.args.StandardSave(layer), encoding=ocp.args.JsonSave(layer.encoding.to_dict())
    )
    with ocp.CheckpointManager(tmp_path) as manager:
        manager.save(0, args=arguments)
        manager.wait_until_finished()
        encoding = manager.restore(0, args=ocp.args.Composite(encoding=ocp.args.JsonRestore())).encoding
        target = PositionalEncoding(
            WIDTH, encoding=Encoding.from_dict(json.loads(json.dumps(encoding))), key=jax.random.key(0)
        )
        restored = manager.restore(0, args=ocp.args.Composite(leaves=ocp.args.StandardRestore(target))).leaves
    assert restored.encoding == layer.encoding
    np.testing.assert_array_equal(restored(X[0]), layer(X[0]))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_model_that_is_cast_keeps_its_tables(dtype):
    layer = jax.tree.map(lambda leaf: leaf.astype(dtype), attention(10000.0))
    assert {leaf.dtype.name for leaf in jax.tree.leaves(layer)} == {dtype}
    assert {table.dtype.name for table in layer.rotary.tables} == {"float32"}
    x = jnp.asarray(tokens(1, 3, 2 * WIDTH), dtype)
    assert layer(x, x, x).dtype == dtype


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda layer: pickle.loads(pickle.dumps(layer))])
def test_copies_of_a_layer_keep_its_grown_table(again):
    layer = rope(max_len=2)
    layer(X)
    copied = again(layer)
    assert jax.tree.structure(copied) == jax.tree.structure(layer)
    assert [table.shape for table in copied.tables] == [table.shape for table in layer.tables]
    np.testing.assert_allclose(copied(X), rotated(X, range(7)), rtol=0, atol=1e-6)
    copied(jnp.ones((1, 2, 33, WIDTH), jnp.float32))
    assert copied.tables[0].shape != layer.tables[0].shape


def test_64_bits_switched_on_and_off_change_no_table():
    layers = {}
    for x64 in (False, True):
        with jax.enable_x64(x64):
            layers[x64] = PositionalEncoding(WIDTH, max_len=64), rope()
    for x64 in (False, True):
        with jax.enable_x64(x64):
            for added, rope_layer in layers.values():
                assert added.P.dtype == rope_layer.tables[0].dtype == jnp.float32
                np.testing.assert_array_equal(added.P[0], Sinusoidal(dim=WIDTH).table(range(64)))
                assert rope_layer(X).dtype == jnp.float32
                np.testing.assert_allclose(rope_layer(X), rotated(X, range(7)), rtol=0, atol=1e-6)


def test_float64_tokens_meet_tables_of_float32():
    x = X[0].astype(np.float64)
    with jax.enable_x64(True):
        result = jax.jit(PositionalEncoding(WIDTH))(x)
    assert result.dtype == np.float64
    np.testing.assert_allclose(result, x + sinusoids(range(7)), rtol=0, atol=2.0**-25)
