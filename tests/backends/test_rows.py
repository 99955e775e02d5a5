"""Layers give the encoding itself: rows of positions of any shape, and the bias, with the numbers of a call."""

import numpy as np
import pytest

from posenc_core import (
    Alibi,
    GridSinusoidal,
    Learned,
    LearnedQueryScale,
    QueryScale,
    RandomFourierFeatures,
    ShawBias,
    Sinusoidal,
    SwinV2Bias,
)

ADDITIVE = [
    Sinusoidal(dim=8), Learned(dim=8, length=64), GridSinusoidal(dim=8, num_axes=2, convention="mae"),
    RandomFourierFeatures(dim=8, num_axes=2, scale=1.0, seed=0),
]  # fmt: skip
SHAPES = [(), (2, 1, 3)]


@pytest.mark.parametrize("encoding", ADDITIVE, ids=repr)
def test_rows_are_what_a_call_adds(on, to_backend, encoding):
    layer, axes = on.testing.eval_mode(on.backend.PositionalEncoding(8, encoding=encoding)), encoding.num_axes
    lead = (axes,) if axes > 1 else ()
    for shape in SHAPES[len(lead) :]:  # a position on two axes alone would be two positions
        at = np.arange(np.prod(lead + shape)).reshape(lead + shape).astype(np.int32)
        flat = to_backend(at.reshape(*lead, -1))
        x = to_backend(np.zeros((1, int(np.prod(shape)), 8), np.float32))
        wanted = on.backend.to_numpy(layer(x, positions=flat)).reshape(*shape, 8)
        for given in (at, *([to_backend(at)] if shape else [])):
            np.testing.assert_array_equal(on.backend.to_numpy(layer.rows(given)), wanted)


@pytest.mark.parametrize("encoding", [QueryScale(length=2, scale=1.0), LearnedQueryScale(num_heads=2)], ids=repr)
def test_factors_are_what_a_call_multiplies_by(on, to_backend, encoding):
    layer = on.testing.eval_mode(on.backend.QueryScaling(encoding))
    heads = (2,) if encoding.parameters() else ()
    for shape in SHAPES:
        at = np.arange(np.prod(shape)).reshape(shape).astype(np.int32)
        q = to_backend(np.ones((*(heads or (1,)), at.size, 1), np.float32))
        wanted = on.backend.to_numpy(layer(q, positions=to_backend(at.reshape(-1))))
        np.testing.assert_array_equal(on.backend.to_numpy(layer.rows(at)), wanted.reshape(*heads, *shape, 1))


@pytest.mark.parametrize("encoding", [Alibi(num_heads=2), SwinV2Bias(num_heads=2, window=(2, 2), hidden=4)], ids=repr)
def test_the_bias_is_what_a_call_adds(on, to_backend, encoding):
    layer, scores = on.testing.eval_mode(on.backend.AttentionBias(encoding)), np.zeros((2, 2, 2, 4), np.float32)
    each = [[0, 3], [2, 1]]
    for queries in (range(2, 4), to_backend(each)):
        wanted = on.backend.to_numpy(layer(to_backend(scores), query_positions=queries))
        found = on.backend.to_numpy(layer.bias(queries, range(4)))
        np.testing.assert_array_equal(np.broadcast_to(found, wanted.shape), wanted)
        assert found.ndim == 3 + (len(np.shape(queries)) > 1)


def test_a_bias_of_queries_and_keys_is_refused(backend):
    with pytest.raises(TypeError, match=r"`bias` of ShawBias.* depends on queries and keys; call the layer with them"):
        backend.AttentionBias(ShawBias(num_heads=2, head_dim=4, max_distance=2)).bias([0], [0])
    with pytest.raises(ValueError, match=r"`query_positions` must have shape \(length,\) or \(batch, length\)"):
        backend.AttentionBias(Alibi(num_heads=2)).bias(np.zeros((1, 1, 1)), [0])
