import re

import numpy as np
import pytest

from posenc_core import attend, causal
from posenc_core.attention import merge_heads, split_heads, weigh

RNG = np.random.default_rng(3)


def plain(q, k, v, bias=0, mask=True):
    scores = np.where(mask, q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1]) + bias, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


def test_it_is_the_softmax_of_scores_times_values(xp):
    q, k, v = RNG.normal(size=(2, 3, 4, 8)), RNG.normal(size=(2, 3, 6, 8)), RNG.normal(size=(2, 3, 6, 5))
    bias, mask = RNG.normal(size=(3, 4, 6)), causal(np.arange(2, 6), np.arange(6))
    got = attend(*map(xp.asarray, (q, k, v)), bias=xp.asarray(bias), mask=xp.asarray(mask))
    np.testing.assert_allclose(np.asarray(got), plain(q, k, v, bias, mask), atol=1e-14)


def test_a_query_that_sees_nothing_gives_zeros(xp):
    q = xp.asarray(RNG.normal(size=(2, 4)))
    mask = xp.asarray([[True, False], [False, False]])
    got = np.asarray(attend(q, q, q, mask=mask))
    np.testing.assert_array_equal(got[1], 0)
    np.testing.assert_array_equal(got[0], np.asarray(q)[0])
    np.testing.assert_array_equal(np.asarray(weigh(q, q, scale=1.0, mask=mask)), [[1, 0], [0, 0]])


def test_huge_scores_do_not_overflow():
    q = np.array([[1e18], [-1e18]], np.float32)
    np.testing.assert_array_equal(attend(q, q, np.array([[1.0], [2.0]], np.float32)), [[1], [2]])


def test_half_precision_is_computed_in_float32():
    q = RNG.normal(size=(4, 8)).astype(np.float16)
    got = attend(q, q, q)
    assert got.dtype == np.float16
    np.testing.assert_array_equal(got, attend(*(x.astype(np.float32) for x in (q, q, q))).astype(np.float16))


def test_no_queries_and_no_keys(xp):
    empty, one = xp.zeros((2, 0, 4)), xp.ones((2, 1, 4))
    assert attend(empty, one, one).shape == (2, 0, 4)
    np.testing.assert_array_equal(np.asarray(attend(one, empty, empty)), np.zeros((2, 1, 4)))


def test_dropout_acts_on_the_weights():
    q = RNG.normal(size=(2, 4))
    np.testing.assert_array_equal(attend(q, q, q, dropout=lambda weights: weights * 0), np.zeros((2, 4)))


def test_permuting_the_tokens_permutes_the_result():
    x, order = RNG.normal(size=(6, 4)), RNG.permutation(6)
    np.testing.assert_allclose(attend(x[order], x[order], x[order]), attend(x, x, x)[order], atol=1e-14)


def test_heads_are_split_and_merged(xp):
    x = RNG.normal(size=(2, 3, 8))
    heads = split_heads(xp.asarray(x), 4)
    assert heads.shape == (2, 4, 3, 2)
    np.testing.assert_array_equal(np.asarray(heads)[1, 3, 2], x[1, 2, 6:])
    np.testing.assert_array_equal(np.asarray(merge_heads(heads)), x)


@pytest.mark.parametrize("shapes", [((2, 4), (3, 5), (3, 5)), ((2, 4), (3, 4), (2, 4))])
def test_shapes_that_do_not_fit_are_refused(shapes):
    with pytest.raises(ValueError, match=re.escape(f"got shapes {shapes[0]}, {shapes[1]} and {shapes[2]}.")):
        attend(*(np.zeros(shape) for shape in shapes))
