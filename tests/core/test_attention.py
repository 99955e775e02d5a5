import sys
from types import ModuleType

import numpy as np
import pytest

from posenc_core import Alibi, Placed, Rotary, ShawBias, attend, attention_weights, causal, namespace_of
from posenc_core.attention.attend import Additions, AttentionInputs, merge_heads, split_heads, weigh

from ..errors import rejects

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
    np.testing.assert_array_equal(np.asarray(weigh(q, q, 1.0, Additions(mask=mask))), [[1, 0], [0, 0]])


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


def test_keys_need_a_head():
    q, k = np.zeros((1, 2, 3, 4), np.float32), np.zeros((1, 0, 3, 4), np.float32)
    with rejects(ValueError, None, "the 2 of `q`, got 0"):
        attend(q, k, k)


def test_heads_of_keys_serve_neighbouring_heads_of_queries(xp):
    q, k, v = RNG.normal(size=(2, 6, 4, 8)), RNG.normal(size=(2, 2, 5, 8)), RNG.normal(size=(2, 2, 5, 3))
    got = np.asarray(attend(*map(xp.asarray, (q, k, v))))
    for head in range(6):
        np.testing.assert_allclose(got[:, head], plain(q[:, head], k[:, head // 3], v[:, head // 3]), atol=1e-14)
    weights = np.asarray(attention_weights(xp.asarray(q), xp.asarray(k)))
    np.testing.assert_allclose(weights @ np.repeat(v, 3, axis=1), got, atol=1e-14)


def test_weights_add_up_to_one_or_to_nothing(xp):
    q, k = RNG.normal(size=(3, 4)).astype(np.float32), RNG.normal(size=(5, 4)).astype(np.float32)
    mask = np.array([[True] * 5, [False] * 5, [False, True, False, True, False]])
    weights = np.asarray(attention_weights(xp.asarray(q), xp.asarray(k), mask=xp.asarray(mask)))
    np.testing.assert_allclose(weights.sum(-1), [1, 0, 1], atol=1e-6)
    assert (weights[~mask] == 0).all()
    np.testing.assert_allclose(weights[[0, 2]], plain(q[[0, 2]], k, np.eye(5), mask=mask[[0, 2]]), atol=1e-6)
    assert attention_weights(xp.asarray(q), xp.asarray(k[:0])).shape == (3, 0)


def test_a_rotary_encoding_turns_queries_and_keys_by_their_positions(xp):
    q, k, v = RNG.normal(size=(2, 1, 3, 2)), RNG.normal(size=(2, 1, 4, 2)), RNG.normal(size=(2, 1, 4, 5))
    at, of_keys = np.array([[2, 3, 4], [7, 7, -1]]), np.array([0, 1, 2, 9])

    def turned(x, p):
        p = np.broadcast_to(p, (2, p.shape[-1]))[:, None]
        return np.stack(
            [x[..., 0] * np.cos(p) - x[..., 1] * np.sin(p), x[..., 1] * np.cos(p) + x[..., 0] * np.sin(p)], -1
        )

    position = Placed(Rotary(head_dim=2, layout="half"), xp.asarray(at), of_keys)
    got = attend(*map(xp.asarray, (q, k, v)), position=position)
    np.testing.assert_allclose(
        np.asarray(got), plain(turned(q, at), turned(k, of_keys), v), atol=2e-6
    )  # a float32 table


def test_causal_positions_with_a_bias_and_a_query_that_sees_nothing(xp):
    q, k, v = RNG.normal(size=(2, 2, 3, 4)), RNG.normal(size=(2, 2, 4, 4)), RNG.normal(size=(2, 2, 4, 4))
    at, of_keys = np.array([3, -1, 1]), np.arange(4)
    position = Placed(Alibi(num_heads=2), at, of_keys)
    mask = causal(xp.asarray(at), xp.asarray(of_keys))
    got = np.asarray(attend(*map(xp.asarray, (q, k, v)), position=position, mask=mask))
    slopes = 2.0 ** -np.array([4, 8])[:, None, None]
    bias, rows = -slopes * np.abs(at[:, None] - of_keys), [0, 2]
    wanted = plain(q[:, :, rows], k, v, bias[:, rows], (at[:, None] >= of_keys)[rows])
    np.testing.assert_allclose(got[:, :, rows], wanted, atol=1e-14)
    np.testing.assert_array_equal(got[:, :, 1], 0)


def kernel_of(calls):
    """A kernel that gives NaN where a query sees no key, and remembers what it was called with."""

    def fused(q, k, v, bias, mask, is_causal):
        assert not (is_causal and mask is not None)
        calls.append((q.dtype, k.shape, None if bias is None else bias.ndim, None if mask is None else mask.ndim))
        k, v = (np.repeat(x, q.shape[1] // x.shape[1], axis=1) for x in (k, v))
        with np.errstate(invalid="ignore"):
            mask = np.tri(q.shape[2], dtype=bool) if is_causal else True if mask is None else mask
            return plain(q, k, v, 0 if bias is None else bias, mask).astype(q.dtype)

    return fused


@pytest.fixture
def calls(monkeypatch):
    made = []
    namespace = ModuleType("namespace")
    vars(namespace).update(vars(namespace_of(np.zeros(1))), fused_attention=kernel_of(made))
    monkeypatch.setattr(sys.modules["posenc_core.attention.attend"], "namespace_of", lambda x: namespace)
    return made


def test_a_kernel_is_used_where_it_gives_the_same(calls):
    q, k = RNG.normal(size=(2, 4, 3, 4)).astype(np.float16), RNG.normal(size=(2, 2, 5, 4)).astype(np.float16)
    mask = RNG.random((3, 5)) < 0.5
    mask[1] = False
    alibi = Placed(Alibi(num_heads=4), range(2, 5), range(5))
    got = attend(q, k, k, position=alibi, mask=mask)
    assert calls == [(np.float32, (2, 2, 5, 4), 4, 4)]
    assert got.dtype == np.float16
    by_core = attend(q, k, k, bias=alibi.scores(AttentionInputs(q, k, q.astype(np.float32))), mask=mask)
    np.testing.assert_allclose(got.astype(float), by_core.astype(float), atol=2**-11)
    np.testing.assert_array_equal(got[:, :, 1], 0)
    assert len(calls) == 1


@pytest.mark.parametrize("heads", [4, 2])
def test_causal_attention_asks_a_kernel_for_no_mask(calls, heads):
    q, k = RNG.normal(size=(2, 4, 5, 4)).astype(np.float32), RNG.normal(size=(2, heads, 5, 4)).astype(np.float32)
    triangle, alibi = np.tri(5, dtype=bool), Placed(Alibi(num_heads=4), range(5), range(5))
    got = attend(q, k, k, is_causal=True), attend(q, k, k, position=alibi, is_causal=True)
    wanted = attend(q, k, k, mask=triangle), attend(q, k, k, position=alibi, mask=triangle)
    assert [made[2:] for made in calls] == [(None, None), (4, 4), (None, 4), (4, 4)]
    np.testing.assert_allclose(got, wanted, atol=1e-6)


def test_causal_attention_is_a_mask_without_a_kernel():
    q, mask = RNG.normal(size=(2, 4, 5, 4)), RNG.random((5, 5)) < 0.5
    got = attend(q, q, q, mask=mask, is_causal=True)
    np.testing.assert_array_equal(got, attend(q, q, q, mask=mask & np.tri(5, dtype=bool)))
    with pytest.raises(ValueError, match=r"`is_causal` must be False for 2 queries and 5 keys; give `mask=causal"):
        attend(q[:, :, :2], q, q, is_causal=True)


def test_a_kernel_is_not_used_where_it_does_not_do(calls):
    q, v = (RNG.normal(size=(2, 2, 3, width)).astype(np.float32) for width in (4, 5))
    shaw = ShawBias(num_heads=2, head_dim=4, max_distance=1, applies_to="keys")
    shaw = Placed(shaw, range(3), range(3), {"key_table": np.ones((3, 4))})
    attend(q, q, q, dropout=lambda weights: weights)
    attend(q, q, q, bias=np.zeros((3, 3)))
    attend(q, q, q, position=shaw)
    attend(q, q, v)
    attend(q[0], q[0], q[0])
    attend(q[:, :, :0], q, q)
    attend(q, q[:1], q[:1])
    attend(*(x.astype(np.float64) for x in (q, q, q)))
    attention_weights(q, q)
    assert not calls
    attend(q, q, q)
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("shapes", "names"),
    [
        (((2, 4), (3, 5), (3, 5)), ("k", "(3, 5)", "(2, 4)")),
        (((2, 4), (3, 4), (2, 4)), ("v", "(2, 4)", "(3, 4)")),
        (((1, 4, 2, 4), (1, 3, 2, 4), (1, 3, 2, 4)), ("k", "3")),
    ],
)
def test_shapes_that_do_not_fit_are_refused(shapes, names):
    with rejects(ValueError, *names):
        attend(*(np.zeros(shape) for shape in shapes))


def test_masks_and_biases_that_do_not_fit_are_refused():
    q = np.zeros((2, 3, 4))
    with rejects(TypeError, "mask", "float64"):
        attend(q, q, q, mask=np.zeros((3, 3)))
    with rejects(ValueError, "mask", "(2, 3)"):
        attend(q, q, q, mask=np.ones((2, 3), bool))
    with rejects(ValueError, "bias", "(4,)"):
        attend(q, q, q, bias=np.zeros(4))
    with rejects(TypeError, "q", "int64"):
        attend(q.astype(int), q, q)


def test_a_row_of_alibi_for_each_head_is_enough_under_a_causal_mask():
    (q,), n = RNG.normal(size=(1, 1, 4, 50, 8)), 50
    alibi, order = Alibi(num_heads=4), causal(np.arange(n), np.arange(n))
    row = alibi.bias([n - 1], range(n))
    assert row.shape == (4, 1, n)
    wanted = attend(q, q, q, position=Placed(alibi, range(n), range(n)), mask=order)
    np.testing.assert_allclose(attend(q, q, q, bias=row, mask=order), wanted, atol=1e-13)
