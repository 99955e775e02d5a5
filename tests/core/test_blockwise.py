"""`attend_by_block` against the plain formula in float64, over blocks that divide nothing evenly."""

import math
import subprocess
import sys

import numpy as np
import pytest

import posenc_core as p
from posenc_core.encodings import Scoring
from posenc_core.encodings.examples import example, examples

from ..catalogue import IN_FLOAT32
from ..errors import rejects

RNG = np.random.default_rng(11)
SIZES = {"num_heads": 4, "head_dim": 8, "window": (7, 8), "threshold": 8}
SCORING = examples(Scoring, **SIZES)
ENCODINGS = [
    None,
    *(encoding for encoding in SCORING if not encoding.needs_all_keys),
    p.Alibi(num_heads=4, sides="past"),
    p.ShawBias(num_heads=4, head_dim=8, max_distance=5, applies_to="keys"),
    p.Rotary(head_dim=8, layout="half"),
    p.XPos(head_dim=8, layout="interleaved", scale_base=8),
]
PLACES = {
    "plain": (range(10, 47), range(53)),
    "given": (RNG.permutation(53)[:37], RNG.permutation(53)),
    "for each row": (RNG.integers(0, 53, (2, 37)), RNG.integers(0, 53, (2, 53))),
}


def tokens(*shapes):
    return [RNG.normal(size=shape) for shape in shapes]


def qkv():
    return tokens((2, 4, 37, 8), (2, 2, 53, 8), (2, 2, 53, 8))


def placed(encoding, places, xp=np):
    if encoding is None:
        return None
    weights = {name: xp.asarray(RNG.normal(size=each.shape)) for name, each in encoding.parameters().items()}
    return p.Placed(encoding, *PLACES[places], weights or None)


def masked(places, **_):
    at_queries, at_keys = (np.asarray(each) for each in PLACES[places])
    return p.causal(at_queries, at_keys)


@pytest.mark.parametrize("places", PLACES)
@pytest.mark.parametrize("encoding", ENCODINGS, ids=repr)
def test_it_is_what_attend_gives(xp, encoding, places):
    q, k, v = map(xp.asarray, qkv())
    position, mask = placed(encoding, places, xp), xp.asarray(masked(places))
    bias = xp.asarray(RNG.normal(size=(4, 37, 1)) + RNG.normal(size=53))
    apart = (
        40 * 10 * 2**-24 if type(encoding).__name__ in IN_FLOAT32 else 2e-14
    )  # forty roundings to float32 of numbers to 10
    for told, blocks in (({"bias": bias}, (10, 37)), ({"mask": mask}, (10, 100))):
        wanted = p.attend(q, k, v, position=position, **told)
        for block in blocks:
            got = p.attend_by_block(q, k, v, position=position, block=block, **told)
            np.testing.assert_allclose(np.asarray(got), np.asarray(wanted), atol=apart, rtol=0, err_msg=f"{block=}")


@pytest.mark.parametrize("encoding", ENCODINGS, ids=repr)
def test_states_of_parts_of_the_keys_merge_to_attention(xp, encoding):
    q, k, v = map(xp.asarray, qkv())
    position, mask = placed(encoding, "given", xp), xp.asarray(masked("given"))
    wanted = p.attend(q, k, v, position=position, mask=mask)
    states = []
    for keys in (slice(0, 9), slice(9, 9), slice(9, 40), slice(40, 53)):
        at = None if position is None else position.part(slice(0, 37), keys)
        part = k[..., keys, :], v[..., keys, :]
        states.append(p.attention_state(q, *part, position=at, mask=mask[:, keys], block=10))
    in_turn = p.merge_states(p.merge_states(*states[:2]), p.merge_states(*states[2:]))
    apart = 40 * 10 * 2**-24 if type(encoding).__name__ in IN_FLOAT32 else 2e-14
    for merged in (p.merge_states(*states), in_turn):
        np.testing.assert_allclose(np.asarray(merged.result), np.asarray(wanted), atol=apart, rtol=0)


def test_the_log_sum_exp_is_of_all_scores_and_stays_in_float32(xp):
    q, k, v = (xp.asarray(x, dtype=xp.float32) for x in tokens((3, 8), (5, 8), (5, 8)))
    mask, scores = np.arange(5) < np.array([[0], [1], [5]]), np.asarray(q) @ np.asarray(k).T / math.sqrt(8)
    state = p.attention_state(q, k, v, mask=xp.asarray(mask), block=2)
    assert np.asarray(state.lse).dtype == np.float32
    with np.errstate(divide="ignore"):
        wanted = np.log(np.sum(np.exp(scores.astype(np.float64)), axis=-1, where=mask))
    np.testing.assert_allclose(np.asarray(state.lse), wanted, atol=1e-6)  # -inf where nothing is seen
    merged = p.merge_states(state, state)
    np.testing.assert_allclose(np.asarray(merged.lse), wanted + math.log(2), atol=1e-6)
    np.testing.assert_allclose(np.asarray(merged.result), np.asarray(state.result), atol=1e-6)
    assert float(np.asarray(p.merge_states(state).lse)[0]) == -math.inf


def test_states_that_cannot_be_merged():
    q, k, v = tokens((1, 2, 3, 8), (1, 2, 5, 8), (1, 2, 5, 8))
    table = {"table": np.zeros((4, 8))}
    at = p.Placed(p.Cope(num_heads=2, head_dim=8, max_position=4), range(3), range(5), table)
    with rejects(ValueError, "position", at.encoding):
        p.attention_state(q, k, v, position=at)
    state = p.attention_state(q, k, v)
    with rejects(ValueError, "states"):
        p.merge_states()
    with rejects(TypeError, "states"):
        p.merge_states(state.result)
    with rejects(ValueError, "states", (1, 2, 2)):
        p.merge_states(state, p.attention_state(q[..., :2, :], k, v))


@pytest.mark.parametrize("places", PLACES)
@pytest.mark.parametrize("encoding", [example("Alibi", **SIZES), example("Rotary")], ids=repr)
def test_a_mask_may_be_a_function_of_positions(xp, encoding, places):
    q, k, v = map(xp.asarray, qkv())
    position = placed(encoding, places, xp)
    got = p.attend_by_block(q, k, v, position=position, mask=p.causal, block=5)
    wanted = p.attend(q, k, v, position=position, mask=xp.asarray(masked(places)))
    np.testing.assert_allclose(np.asarray(got), np.asarray(wanted), atol=1e-14, rtol=0)


def test_blocks_of_one():
    q, k, v = tokens((5, 8), (7, 8), (7, 8))
    np.testing.assert_allclose(p.attend_by_block(q, k, v, block=1), p.attend(q, k, v), atol=1e-14)


def test_without_an_encoding_it_counts_from_0_and_blocks_that_nobody_sees_are_left_out():
    q, k, v = tokens((12, 8), (20, 8), (20, 8))
    k[12:], v[4:8] = np.nan, 1
    asked = []

    def near(queries, keys):
        asked.append((queries[0], keys[0]))
        return p.causal(queries, keys) & (keys > queries[:, None] - 3)

    got = p.attend_by_block(q, k, v, mask=near, block=4)
    wanted = p.attend(q, k[:12], v[:12], mask=near(np.arange(12), np.arange(12)))
    np.testing.assert_allclose(got, wanted, atol=1e-14)  # the keys that are NaN were never multiplied
    assert asked[:-1] == [(i, j) for i in range(0, 12, 4) for j in range(0, 20, 4)]


def test_points_on_several_axes_are_masked_in_the_order_of_the_sequence():
    encoding = p.MultimodalRotary(head_dim=8, layout="half", sections=(2, 1, 1))
    q, k, v = tokens((1, 2, 6, 8), (1, 2, 6, 8), (1, 2, 6, 8))
    at = RNG.integers(0, 9, (3, 6))
    got = p.attend_by_block(q, k, v, position=p.Placed(encoding, at, at), mask=p.causal, block=4)
    wanted = p.attend(q, k, v, position=p.Placed(encoding, at, at), mask=p.causal(np.arange(6), np.arange(6)))
    np.testing.assert_allclose(got, wanted, atol=1e-14)


def test_packed_sequences_by_a_function_that_knows_their_numbers():
    ids, (q,) = np.repeat([0, 1, -1], [5, 4, 2]), tokens((11, 8))
    got = p.attend_by_block(q, q, q, mask=lambda a, b: p.same_sequence(ids[a], ids[b]), block=3)
    np.testing.assert_allclose(got[:5], p.attend(q[:5], q[:5], q[:5]), atol=1e-14)
    np.testing.assert_allclose(got[5:9], p.attend(q[5:9], q[5:9], q[5:9]), atol=1e-14)
    np.testing.assert_array_equal(got[9:], 0)


@pytest.mark.parametrize("hide", [lambda queries, keys: queries[:, None] > 99 + keys, None])
def test_queries_that_see_nothing_give_exact_zeros(xp, hide):
    q, k, v = map(xp.asarray, qkv())
    got = p.attend_by_block(q, k, v, mask=hide or xp.asarray(np.zeros((1, 53), bool)), block=9)
    np.testing.assert_array_equal(np.asarray(got), np.zeros((2, 4, 37, 8)))


def test_no_queries_and_no_keys(xp):
    empty, one = xp.zeros((2, 0, 4)), xp.ones((2, 1, 4))
    assert p.attend_by_block(empty, one, one, block=2).shape == (2, 0, 4)
    np.testing.assert_array_equal(np.asarray(p.attend_by_block(one, empty, empty)), np.zeros((2, 1, 4)))


def test_scores_that_rise_from_block_to_block_do_not_overflow():
    q, k = np.full((1, 1), 1e18, np.float32), np.arange(-8, 8, dtype=np.float32)[:, None] * 1e18
    np.testing.assert_array_equal(p.attend_by_block(q, k, k, block=3), p.attend(q, k, k))


@pytest.mark.parametrize("block", [64, 512])
def test_float32_errs_no_more_than_its_roundings_allow(block):
    """A weight is a product of at most three roundings and an exponential for each block, beside those of `attend`.

    With a largest number V of the values and blocks of b of n keys: a score of s roundings, of numbers to S, is off by
    s·u·S, which its exponential makes a relative error of the weight; the difference to the peak is rounded once,
    u·2S; an exponential promises 4 u. Joining multiplies by an exponential (u·2S + 4u + u) and adds (u), once for each
    block: a peak that does not rise multiplies by 1, and differences of peaks add up to 2S at most, so that all of them
    are 2S·u + 6u·n/b. Sums add b·u. Weights add up to 1, and their sum, which they are divided by, is off by as much:
    twice that, times V.
    """
    n, width, u = 2048, 16, 2.0**-24
    q, k, v = (each.astype(np.float32) for each in tokens((n, width), (n, width), (n, 3)))
    wide = [each.astype(np.float64) for each in (q, k, v)]
    largest = np.abs(wide[0] @ wide[1].T).max() / math.sqrt(width)
    relative = (width + 2 + 2 + 2) * largest + 4 + 6 * n / block + block
    got = p.attend_by_block(q, k, v, block=block)
    assert np.abs(got - p.attend(*wide)).max() <= 2 * relative * u * np.abs(v).max()


def test_memory_grows_with_the_length_and_not_with_its_square():
    grown = """
import resource
import numpy as np
from posenc_core import Alibi, Placed, attend_by_block, causal

def call(n):
    x = np.random.default_rng(0).normal(size=(1, 1, n, 8)).astype(np.float32)
    attend_by_block(x, x, x, position=Placed(Alibi(num_heads=1), range(n), range(n)), mask=causal, block=256)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

before = call(1024)
print(call(8192) - before)
"""
    told = subprocess.run([sys.executable, "-c", grown], check=True, capture_output=True, text=True).stdout
    assert int(told) < 32 * 2**10  # KiB; the scores alone are 256 MiB


@pytest.mark.parametrize("mask", [None, p.causal, "given"])
@pytest.mark.parametrize("block", [1, 3, 5, 16])
def test_forget_gates_add_up_over_blocks(mask, block):
    """Also under a mask that hides keys between others, and with fewer heads of keys."""
    rng, encoding = np.random.default_rng(12), p.ForgettingBias(num_heads=4, head_dim=8, std=1.0)
    q, k, v = (rng.normal(size=(2, heads, 13, 8)) for heads in (4, 2, 2))
    weights = {name: rng.normal(size=each.shape) for name, each in encoding.parameters().items()}
    at = p.Placed(encoding, range(13), range(13), weights)
    mask = rng.random(size=(2, 1, 13, 13)) < 0.5 if mask == "given" else mask
    whole = p.causal(np.arange(13), np.arange(13)) if mask is p.causal else mask
    wanted = p.attend(q, k, v, position=at, mask=whole)
    np.testing.assert_allclose(p.attend_by_block(q, k, v, position=at, mask=mask, block=block), wanted, atol=1e-13)


def test_what_needs_all_keys_is_refused_unless_it_adds_up_over_blocks():
    q, k, v = qkv()
    for encoding in SCORING:
        if encoding.needs_all_keys and not isinstance(encoding, p.ForgettingBias):
            with rejects(ValueError, "position", encoding):
                p.attend_by_block(q, k, v, position=placed(encoding, "plain"))


def test_what_cannot_be_cut_is_an_error():
    x = np.ones((1, 2, 3, 4))
    with rejects(ValueError, "block", 0):
        p.attend_by_block(x, x, x, block=0)
    with rejects(TypeError, "mask", "float64"):
        p.attend_by_block(x, x, x, mask=lambda queries, keys: np.ones((3, 3)))
    with rejects(ValueError, "mask", (3, 3)):
        p.attend_by_block(x, x, x, mask=lambda queries, keys: np.ones((3, 3), bool), block=2)
    with rejects(ValueError, "v", (1, 2, 2, 4), (1, 2, 3, 4)):
        p.attend_by_block(x, x, x[..., :2, :])
    with rejects(ValueError, "bias", (2, 2)):
        p.attend_by_block(x, x, x, bias=np.ones((2, 2)))
