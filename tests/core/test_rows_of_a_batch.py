"""Attention of a batch is that of each of its rows alone, with and without the axis of the batch."""

import numpy as np
import pytest

import posenc_core as p
from posenc_backends.numpy import AttentionBias
from posenc_core.encodings import ContentScoring, Scoring

from .test_blockwise import ENCODINGS

RNG = np.random.default_rng(29)
BATCH, HEADS, KEY_HEADS, QUERIES, KEYS, WIDTH = 3, 4, 2, 5, 6, 8
ROTARY = p.Rotary(head_dim=WIDTH, layout="half")
ALL = [
    *ENCODINGS[1:],
    p.MultimodalRotary(head_dim=WIDTH, layout="half", sections=(2, 1, 1)),
    p.MixedRotary(head_dim=WIDTH, layout="half", num_heads=2),
    p.PoPE(head_dim=WIDTH, num_heads=KEY_HEADS),
    p.SelfExtend(rotary=ROTARY, window=3, group_size=2),
    p.LeakyReRoPE(rotary=ROTARY, window=3, factor=4.0),
    p.DualChunk(rotary=ROTARY, chunk_size=5, local_size=2),
]
SCALES = [p.QueryScale(length=2, scale=0.5), p.LearnedQueryScale(num_heads=HEADS)]


def tokens():
    sizes = ((HEADS, QUERIES, WIDTH), (KEY_HEADS, KEYS, WIDTH), (KEY_HEADS, KEYS, WIDTH))
    return [RNG.normal(size=(BATCH, *size)) for size in sizes]


def places(encoding):
    axes = () if encoding.num_axes == 1 else (encoding.num_axes,)
    at_keys = RNG.integers(0, 9, (*axes, BATCH, KEYS))
    at_queries = RNG.integers(0, 9, (*axes, BATCH, QUERIES))
    at_queries[..., 0] = 9  # after all keys, where attention is causal
    return at_queries, at_keys


def drawn(encoding):
    return {name: RNG.normal(size=each.shape) for name, each in encoding.parameters().items()} or None


@pytest.mark.parametrize("encoding", [*ALL, *SCALES], ids=repr)
def test_attention_of_a_batch_is_that_of_each_row(encoding):
    q, k, v = tokens()
    (at_queries, at_keys), weights = places(encoding), drawn(encoding)
    is_scale = encoding in SCALES

    def position(at_queries, at_keys):
        if is_scale:
            return p.Placed(None, at_queries, at_keys, query_scale=encoding, scale_weights=weights)
        return p.Placed(encoding, at_queries, at_keys, weights)

    together, at = (q, k, v), position(at_queries, at_keys)
    results = p.attend(*together, position=at), p.attend_by_block(*together, position=at, block=2)
    shares = p.attention_weights(q, k, position=at)
    apart = 1e-5 if encoding.parameters() or isinstance(encoding, p.PoPE) else 1e-6
    for row in range(BATCH):
        alone, at_row = (q[row], k[row], v[row]), position(at_queries[..., row, :], at_keys[..., row, :])
        for result in results:
            np.testing.assert_allclose(result[row], p.attend(*alone, position=at_row), atol=apart)
        np.testing.assert_allclose(shares[row], p.attention_weights(*alone[:2], position=at_row), atol=apart)


@pytest.mark.parametrize("encoding", [one for one in ALL if isinstance(one, Scoring)], ids=repr)
def test_biases_of_a_batch_are_those_of_each_row(encoding):
    layer, (at_queries, at_keys) = AttentionBias(encoding), places(encoding)
    scores, q = RNG.normal(size=(BATCH, HEADS, QUERIES, KEYS)), RNG.normal(size=(BATCH, HEADS, QUERIES, WIDTH))
    content = (
        {"q": q, "k": RNG.normal(size=(BATCH, HEADS, KEYS, WIDTH))} if isinstance(encoding, ContentScoring) else {}
    )
    biased, values = layer(scores, 0, at_queries, at_keys, **content), layer.values(scores, 0, at_queries, at_keys)
    assert (values is None) is not encoding.adds_values
    for row in range(BATCH):
        at, one = (0, at_queries[row], at_keys[row]), {name: x[row] for name, x in content.items()}
        np.testing.assert_allclose(biased[row], layer(scores[row], *at, **one), atol=1e-5)
        if encoding.adds_values:
            np.testing.assert_allclose(values[row], layer.values(scores[row], *at), atol=1e-5)
    for name, x in content.items():
        wrong = f"`{name}` must be {x.shape[-2]} long, as `scores` say, got shape"
        with pytest.raises(ValueError, match=f"^{wrong}"):
            layer(scores, **content | {name: x[..., :1, :]})
        with pytest.raises(ValueError, match=f"^`{name}` must broadcast to shape"):
            layer(scores, **content | {name: x[:, :2]})
