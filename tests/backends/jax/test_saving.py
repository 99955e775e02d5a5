"""What `to_state` saves of trees, and what `from_state` rejects."""

import io
import re

import jax
import numpy as np
import orbax.checkpoint as ocp
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
from posenc_core import Learned, LearnedSinusoidal, Rotary, T5Bias

from .plain import tokens

X = tokens(1, 5, 8)


def t5(max_distance=128, num_buckets=32):
    return AttentionBias(T5Bias(num_heads=2, max_distance=max_distance, num_buckets=num_buckets), key=jax.random.key(0))


def learned(length=9):
    return PositionalEncoding(8, encoding=Learned(dim=8, length=length), key=jax.random.key(0))


def model(position=None, seed=0):
    """Return a tree with several layers, one of them without leaves, and other values."""
    keys = jax.random.split(jax.random.key(seed), 2)
    attention = MultiHeadAttention(8, 2, position=position or T5Bias(num_heads=2), bias=True, key=keys[0])
    embed = PositionalEncoding(8, encoding=Learned(dim=8, length=9), key=keys[1])
    return {
        "layers": [embed, attention],
        "rope": RotaryEmbedding(Rotary(head_dim=8, layout="half")),
        "scale": jnp.ones(3),
    }


def through_a_file(state):
    file = io.BytesIO()
    np.savez(file, **state)
    file.seek(0)
    return dict(np.load(file))


def same(first, second):
    assert jax.tree.structure(first) == jax.tree.structure(second)
    jax.tree.map(np.testing.assert_array_equal, first, second)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_tree_is_saved_and_loaded(dtype):
    saved = jax.tree.map(lambda leaf: leaf.astype(dtype), model())
    loaded = from_state(model(seed=1), through_a_file(to_state(saved)))
    same(loaded, saved)
    assert {leaf.dtype.name for leaf in jax.tree.leaves(loaded)} == {dtype}


def test_a_tree_is_loaded_into_abstract_leaves():
    unknown = jax.eval_shape(model)
    same(from_state(unknown, to_state(model())), model())


def test_a_tree_is_loaded_from_an_orbax_checkpoint(tmp_path):
    state = to_state(model())
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(tmp_path / "saved", state)
        checkpointer.wait_until_finished()
        same(from_state(model(seed=1), checkpointer.restore(tmp_path / "saved")), model())


@pytest.mark.parametrize(
    ("saved", "target"),
    [
        (t5(), t5(max_distance=99)),
        (learned(9), learned(7)),
        (RotaryEmbedding(Rotary(head_dim=8, layout="half")), RotaryEmbedding(Rotary(head_dim=8, layout="interleaved"))),
    ],
)
def test_parameters_of_another_encoding_are_rejected(saved, target):
    message = (
        f"`.encoding` must be {target.encoding!r}, as in the layer, got {saved.encoding!r}; make a layer with that, or"
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        from_state(target, through_a_file(to_state(saved)))


def test_errors_name_the_layer_of_a_tree():
    with pytest.raises(
        ValueError, match=r"`\['layers'\]\[1\].scoring.encoding` must be T5Bias.*max_distance=99.*got T5Bias"
    ):
        from_state(model(T5Bias(num_heads=2, max_distance=99)), to_state(model()))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda state: state.pop(".parameters['table']"), r"must have the leaves .*table.*, got \[\]"),
        (lambda state: state.update(more=X), "must have the leaves .*got .*'more'"),
        (lambda state: state.update({".parameters['table']": X}), r"must have shape \(9, 8\), got \(1, 5, 8\)"),
        (lambda state: state.pop(".encoding"), "must have an encoding, `.encoding`, as `to_state` writes it"),
    ],
)
def test_states_that_do_not_fit_are_rejected(change, message):
    state = to_state(learned())
    change(state)
    with pytest.raises(ValueError, match=message):
        from_state(learned(), state)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(
    ("target", "saved", "arrays", "message"),
    [
        (learned(7), learned(9), (X,),
         r"`table` of Learned\(dim=8, length=7.*must have shape \(7, 8\), got \(9, 8\), of another"),
        (t5(), t5(num_buckets=8), (np.zeros((1, 2, 3, 3), np.float32),),
         r"`table` of T5Bias.*\(32, 2\), got \(8, 2\), of another"),
    ],
)  # fmt: skip
def test_a_layer_with_leaves_of_another_shape_is_not_called(target, saved, arrays, message, compiled):
    layer = jax.tree.unflatten(jax.tree.structure(target), jax.tree.leaves(saved))
    with pytest.raises(ValueError, match=message):
        (jax.jit(layer) if compiled else layer)(*arrays)


def test_leaves_of_another_name_do_not_fit():
    with pytest.raises(ValueError, match="must be LearnedSinusoidal"):
        from_state(PositionalEncoding(8, encoding=LearnedSinusoidal(dim=8), key=jax.random.key(0)), to_state(learned()))
