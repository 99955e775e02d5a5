"""Attention of dask.array: cut along batch, heads, queries and keys, and no two arrays alike."""

import dask
import dask.array as da
import numpy as np
import pytest

from posenc_core import FoPE, Rotary, attend, attention_weights, causal
from posenc_core.attention.attend import AttentionInputs
from posenc_core.encodings import Placed, RotaryEncoding, Scoring
from posenc_core.encodings.examples import examples

from .formulas import attended, slack
from .test_dask import untouched

HEADS, WIDTH, QUERIES, KEYS = 4, 8, 30, 33
SIZES = {"num_heads": HEADS, "head_dim": WIDTH, "window": (6, 6), "std": 0.5}
ENCODINGS = [
    *examples(RotaryEncoding, **SIZES),
    *examples(Scoring, **SIZES),
    Rotary(head_dim=WIDTH, layout="half", rotary_dim=6),
    FoPE(head_dim=WIDTH, layout="half", num_terms=3, std=0.5),
]


@pytest.fixture
def qkv(rng):
    return tuple(rng.normal(size=(2, HEADS, n, WIDTH)).astype(np.float32) for n in (QUERIES, KEYS, KEYS))


def cut(q, k, v):
    """Each array cut in another way."""
    chunks = (1, 3, 16, WIDTH), (2, 2, 20, 5), (1, HEADS, 22, 3)
    return [da.from_array(x, chunks=each) for x, each in zip((q, k, v), chunks, strict=True)]


def test_it_is_the_softmax_of_scores_times_values(qkv, rng):
    bias = rng.normal(size=(HEADS, QUERIES, KEYS)).astype(np.float32)
    mask = causal(np.arange(QUERIES) - 2, np.arange(KEYS))  # the first two queries see no key
    with untouched():
        lazy = attend(*cut(*qkv), bias=da.from_array(bias, chunks=(2, 18, 20)), mask=da.from_array(mask, chunks=16))
        same = attend(*cut(*qkv), bias=bias, mask=mask)
        weights = attention_weights(*cut(*qkv)[:2], mask=mask)
    expected, limit = attended(*qkv, bias, mask), slack(*qkv, bias)
    result, again, weights = dask.compute(lazy, same, weights, scheduler="synchronous")
    assert (result.dtype, result[:, :, :2].any()) == (np.float32, False)
    np.testing.assert_allclose(result, expected, rtol=0, atol=limit)
    np.testing.assert_allclose(again, expected, rtol=0, atol=limit)
    np.testing.assert_allclose(weights.sum(axis=-1)[0, 0], np.arange(QUERIES) > 1, rtol=0, atol=KEYS * 2.0**-24)


def test_heads_of_keys_serve_neighbouring_heads_of_queries(qkv):
    q, k, v = qkv
    few = [da.from_array(x[:, :2], chunks=(1, 1, 10, WIDTH)) for x in (k, v)]
    with untouched():
        lazy = attend(cut(*qkv)[0], *few)
    expected = attended(q, *(x[:, :2].repeat(2, axis=1) for x in (k, v)))
    np.testing.assert_allclose(lazy.compute(scheduler="synchronous"), expected, rtol=0, atol=slack(*qkv))


def test_half_precision_is_rounded_once(qkv):
    half = [x.astype(np.float16) for x in qkv]
    with untouched():
        lazy = attend(*cut(*half))
    result = lazy.compute(scheduler="synchronous")
    last_place = np.spacing(np.abs(result), dtype=np.float16) / 2
    assert result.dtype == np.float16
    assert (np.abs(result - attended(*half)) <= last_place + slack(*half)).all()


def test_queries_of_unknown_number_have_as_many_results(qkv):
    q, k, v = (da.from_array(x, chunks=(1, 2, 16, WIDTH)) for x in qkv)
    odd = da.arange(QUERIES, chunks=16) % 2 == 1
    with untouched():
        lazy = attend(q[:, :, odd], k, v)
    expected = attended(qkv[0][:, :, 1::2], *qkv[1:])
    np.testing.assert_allclose(lazy.compute(scheduler="synchronous"), expected, rtol=0, atol=slack(*qkv))


@pytest.mark.parametrize("given", ["ranges", "lazy"])
@pytest.mark.parametrize("encoding", ENCODINGS, ids=repr)
@pytest.mark.filterwarnings("ignore:Increasing number of chunks:dask.array.core.PerformanceWarning")
def test_every_encoding_is_as_on_numpy(encoding, given, qkv, rng):
    weights = {name: rng.normal(size=each.shape).astype(np.float32) for name, each in encoding.parameters().items()}
    where = range(3, 3 + QUERIES), range(KEYS)
    lazy = [da.from_array(np.asarray(each), chunks=20) for each in where] if given == "lazy" else where
    tokens = [da.from_array(x, chunks=(1, HEADS, 20, WIDTH)) for x in qkv]
    with untouched():
        held = {name: da.from_array(array) for name, array in weights.items()}
        result = attend(*tokens, position=Placed(encoding, *lazy, held)).compute
    placed = Placed(encoding, *where, weights)
    rotated = (*placed.rotate(*qkv[:2]), qkv[2])
    limit = 2 * slack(*rotated, sizes(encoding, where, weights, *rotated[:2]))  # either is off by as much
    expected = attend(*qkv, position=placed)
    np.testing.assert_allclose(result(scheduler="synchronous"), expected, rtol=0, atol=limit)


def sizes(encoding, where, weights, q, k):
    """The scores that are added, if all terms had the same sign."""
    q, k = np.abs(q), np.abs(k)
    placed = Placed(encoding, *where, {name: np.abs(array) for name, array in weights.items()})
    added = placed.scores(AttentionInputs(q, k, q @ np.swapaxes(k, -1, -2) / np.sqrt(WIDTH)))
    return 0.0 if added is None else np.abs(added)
