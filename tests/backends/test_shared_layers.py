"""Blocks of one model that share one layer and its table: results are the same as with separate layers."""

import numpy as np
import pytest

from posenc_core import Alibi, LearnedRotary, Rotary, T5Bias

ROTARY = Rotary(head_dim=4, layout="half")
LEARNED = {"RotaryEmbedding": LearnedRotary(head_dim=4, layout="half"), "AttentionBias": T5Bias(num_heads=2)}


def tokens(length):
    return np.linspace(-1, 1, 8 * length).reshape(1, length, 8)


def blocks_of(on, layer):
    """Return two blocks that share one layer."""
    return [on.testing.eval_mode(on.backend.MultiHeadAttention(8, 2, position=layer)) for _ in range(2)]


def test_a_shared_table_grows_once_and_results_do_not_change(on, to_backend):
    layer, (short, long) = (
        on.backend.RotaryEmbedding(ROTARY, max_len=8),
        (to_backend(tokens(length)) for length in (5, 12)),
    )
    first, second = blocks_of(on, layer)
    for block, x in ((first, short), (second, long), (first, long)):
        shared = on.backend.to_numpy(block(x, x, x))
    assert {table.shape[0] for table in layer.tables} == {16}
    vars(first)["rotary"] = on.backend.RotaryEmbedding(ROTARY)  # bypass the attribute handling of the framework
    np.testing.assert_array_equal(on.backend.to_numpy(on.testing.eval_mode(first)(long, long, long)), shared)


@pytest.mark.parametrize("encoding", [ROTARY, Alibi(num_heads=2)], ids=repr)
def test_blocks_keep_the_layer_itself(on, encoding):
    layer_name, name = ("RotaryEmbedding", "rotary") if encoding is ROTARY else ("AttentionBias", "scoring")
    layer = getattr(on.backend, layer_name)(encoding)
    assert all(getattr(block, name) is layer for block in blocks_of(on, layer))


def test_a_layer_that_is_an_empty_container_is_shared():
    """In some frameworks a layer is a container of its parameters, and without parameters it is false."""
    from posenc_backends import numpy

    class Container(numpy.RotaryEmbedding):
        def __len__(self):
            return 0

    layer = Container(ROTARY)
    assert numpy.MultiHeadAttention(8, 2, position=layer).rotary is layer


@pytest.mark.parametrize(("layer_name", "encoding"), LEARNED.items())
def test_learned_layers_are_shared_or_rejected(on, layer_name, encoding):
    layer = getattr(on.backend, layer_name)(encoding)
    if on.backend.__name__.endswith(".jax"):
        with pytest.raises(ValueError, match="`position` must be an encoding, got the layer of"):
            blocks_of(on, layer)
    else:
        assert all(layer in (block.rotary, block.scoring) for block in blocks_of(on, layer))


def test_other_layers_are_rejected(on):
    backend = on.backend
    with pytest.raises(TypeError, match="`position` must be a rotary or scoring encoding, a pair of them or None, got"):
        backend.MultiHeadAttention(8, 2, position=backend.PositionalEncoding(8))
    with pytest.raises(ValueError, match="`position` must have `head_dim` 2, num_hiddens / num_heads, got Rotary"):
        backend.MultiHeadAttention(8, 4, position=backend.RotaryEmbedding(ROTARY))


def test_layers_of_other_frameworks_are_rejected(on):
    from posenc_backends import numpy

    if on.backend is numpy:
        pytest.skip("NumPy is the backend under test.")
    with pytest.raises(TypeError, match="`position` must be a layer of the framework that attends, got"):
        on.backend.MultiHeadAttention(8, 2, position=numpy.RotaryEmbedding(ROTARY))
