"""Attention with positions gives the same results however tokens are chunked, packed, padded, shifted or grouped."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posenc_core import attend, from_cu_seqlens, from_mask
from posenc_core.attention.attend import AttentionInputs
from posenc_core.encodings import Placed, RotaryEncoding, Scoring
from posenc_core.encodings.examples import example, examples

from .numbers import DISTANCES, RNGS
from .random_attention import causal_mask, close, tokens, weights_of
from .strategies import IN_ATTENTION, SCORING

LENGTHS = st.integers(2, 9)

few = settings(max_examples=10)
each = pytest.mark.parametrize("kind", IN_ATTENTION)


@each
@few
@given(st.data(), RNGS, LENGTHS)
def test_a_cache_does_not_change_results_wherever_the_sequence_is_split(kind, data, rng, length):
    encoding = data.draw(IN_ATTENTION[kind])
    (q, k, v), weights = tokens(rng, encoding, length), weights_of(encoding, rng)
    every = range(length)
    whole = attend(q, k, v, position=Placed(encoding, every, every, weights), mask=causal_mask(every, every))
    split = data.draw(st.integers(1, length - 1))
    for part in (range(split), range(split, length)):
        known = range(part.stop)
        placed = Placed(encoding, part, known, weights)
        rows = slice(part.start, part.stop)
        got = attend(q[:, :, rows], k[:, :, known], v[:, :, known], position=placed, mask=causal_mask(part, known))
        close(got, whole[:, :, rows], encoding)


@each
@few
@given(st.data(), RNGS, st.lists(st.integers(1, 5), min_size=1, max_size=3))
def test_packed_sequences_equal_separate_ones(kind, data, rng, lengths):
    encoding = data.draw(IN_ATTENTION[kind])
    (q, k, v), weights = tokens(rng, encoding, sum(lengths), batch=1), weights_of(encoding, rng)
    bounds = np.cumsum([0, *lengths])
    positions, sequence = from_cu_seqlens(bounds), np.repeat(np.arange(len(lengths)), lengths)
    mask = causal_mask(positions, positions) & (sequence[:, None] == sequence)
    packed = attend(q, k, v, position=Placed(encoding, positions, positions, weights), mask=mask)
    for begin, end in pairwise(bounds):
        one = slice(begin, end)
        alone, own = range(end - begin), (x[:, :, one] for x in (q, k, v))
        separate = attend(*own, position=Placed(encoding, alone, alone, weights), mask=causal_mask(alone, alone))
        close(packed[:, :, one], separate, encoding)


@each
@few
@given(st.data(), RNGS, LENGTHS)
def test_padding_on_the_left_does_not_change_results(kind, data, rng, length):
    encoding = data.draw(IN_ATTENTION[kind])
    (q, k, v), weights = tokens(rng, encoding, length), weights_of(encoding, rng)
    counts = np.ones((2, length), bool)
    counts[1, : data.draw(st.integers(1, length - 1))] = False
    positions = from_mask(counts)
    mask = causal_mask(positions, positions) & counts[:, None, None, :] & counts[:, None, :, None]
    padded = attend(q, k, v, position=Placed(encoding, *at(encoding, positions), weights), mask=mask)
    for row, first in enumerate(length - counts.sum(axis=-1)):
        alone, own = range(length - first), (x[row : row + 1, :, first:] for x in (q, k, v))
        separate = attend(*own, position=Placed(encoding, alone, alone, weights), mask=causal_mask(alone, alone))
        close(padded[row : row + 1, :, first:], separate, encoding)


def at(encoding, positions):
    """Return positions for queries and keys, repeated on each axis if there are several."""
    axes = getattr(encoding, "num_axes", 1)
    on_axes = positions if axes == 1 else np.stack([positions] * axes)
    return on_axes, on_axes


@each
@few
@given(st.data(), RNGS, LENGTHS)
def test_masked_tokens_do_not_change_results(kind, data, rng, length):
    encoding = data.draw(IN_ATTENTION[kind])
    (q, k, v), weights = tokens(rng, encoding, length), weights_of(encoding, rng)
    every, hidden = range(length), slice(data.draw(st.integers(1, length - 1)), length)
    placed, mask = Placed(encoding, every, every, weights), causal_mask(every, every)
    before = attend(q, k, v, position=placed, mask=mask)
    k[:, :, hidden], v[:, :, hidden] = -k[:, :, hidden], 7.0
    after = attend(q, k, v, position=placed, mask=mask)
    close(after[:, :, : hidden.start], before[:, :, : hidden.start], encoding)


def needs_all_keys(name):
    """Return whether an encoding counts keys by their index."""
    return name in SCORING and example(name).needs_all_keys


@pytest.mark.parametrize("kind", [name for name in IN_ATTENTION if not needs_all_keys(name)])
@few
@given(st.data(), RNGS, LENGTHS)
def test_tokens_may_be_permuted_with_their_positions(kind, data, rng, length):
    encoding = data.draw(IN_ATTENTION[kind])
    (q, k, v), weights = tokens(rng, encoding, length), weights_of(encoding, rng)
    every, order = range(length), rng.permutation(length)
    wanted = attend(q, k, v, position=Placed(encoding, every, every, weights))
    mixed = (x[:, :, order] for x in (q, k, v))
    got = attend(*mixed, position=Placed(encoding, order, order, weights))
    close(got, wanted[:, :, order], encoding)


@each
@few
@given(st.data(), RNGS, st.integers(1, 6), st.integers(1, 6))
def test_ranges_and_arrays_of_the_same_positions_give_equal_results(kind, data, rng, queries, keys):
    encoding = data.draw(IN_ATTENTION[kind])
    start = data.draw(st.integers(0 if hasattr(encoding, "window") else -20, 20))
    (q, k, v), weights = tokens(rng, encoding, queries, keys), weights_of(encoding, rng)
    ranges = range(start, start + queries), range(keys)
    arrays = map(np.array, ranges)
    got = attend(q, k, v, position=Placed(encoding, *arrays, weights))
    close(got, attend(q, k, v, position=Placed(encoding, *ranges, weights)), encoding)


@given(RNGS, st.integers(3, 9))
def test_attention_without_positions_is_permutation_equivariant(rng, length):
    x, order = rng.normal(size=(length, 4)), rng.permutation(length)
    close(attend(x[order], x[order], x[order]), attend(x, x, x)[order])


ORDERED = [*examples(RotaryEncoding, head_dim=4), *examples(Scoring, head_dim=4, window=(3, 3), std=1)]


@pytest.mark.parametrize("encoding", ORDERED, ids=str)
@few
@given(RNGS, st.integers(3, 9))
def test_attention_with_positions_is_not_permutation_equivariant(encoding, rng, length):
    (q, k, v), weights = tokens(rng, encoding, length), weights_of(encoding, rng)
    order = np.roll(np.arange(length), 1)
    placed = Placed(encoding, range(length), range(length), weights)
    result, mixed = attend(q, k, v, position=placed), (x[:, :, order] for x in (q, k, v))
    assert np.abs(attend(*mixed, position=placed) - result[:, :, order]).max() > 2.0**-12


@given(RNGS, st.integers(1, 3), st.integers(1, 4), LENGTHS)
def test_heads_of_a_group_share_their_keys(rng, shared, groups, length):
    q, k, v = rng.normal(size=(3, 2, shared * groups, length, 4))
    k, v = k[:, :shared], v[:, :shared]
    repeated = (np.repeat(x, groups, axis=1) for x in (k, v))
    close(attend(q, k, v), attend(q, *repeated))


# those that look at content say nothing of it; of these, a window and a count of keys are not relative
NOT_RELATIVE = ("Cope", "DecomposedBias")
RELATIVE = [
    name
    for name in SCORING
    if name not in NOT_RELATIVE and getattr(example(name), "is_relative", example(name).uses_content)
]


@pytest.mark.parametrize("kind", RELATIVE)
@few
@given(st.data(), RNGS, LENGTHS, DISTANCES)
def test_only_distances_matter(kind, data, rng, length, shift):
    encoding = data.draw(IN_ATTENTION[kind])
    (q, k, v), weights = tokens(rng, encoding, length), weights_of(encoding, rng)
    wanted = attend(q, k, v, position=Placed(encoding, range(length), range(length), weights))
    there = np.arange(length) + shift
    close(attend(q, k, v, position=Placed(encoding, there, there, weights)), wanted, encoding)
    moved = range(shift, shift + length)
    close(attend(q, k, v, position=Placed(encoding, moved, moved, weights)), wanted, encoding)


@pytest.mark.parametrize("kind", ["Rotary", "Proportional", "XPos"])
@few
@given(st.data(), RNGS, LENGTHS, st.integers(-2000, 2000))
def test_only_distances_matter_with_rounded_tables(kind, data, rng, length, shift):
    """The error of scores is that of `test_rotary_properties.py`; the relative error of results is twice as large."""
    encoding = data.draw(IN_ATTENTION[kind])
    q, k, v = tokens(rng, encoding, length)
    here = np.arange(length) + round(getattr(encoding, "center", 0))
    got, wanted = (attend(q, k, v, position=Placed(encoding, at, at)) for at in (here + shift, here))
    products = encoding.attention_factor**2 * norm(q).max() * norm(k).max() / encoding.head_dim**0.5
    off = 1.1 * 4 * 2.0**-24 * products  # keys of XPos grow by less than a tenth
    np.testing.assert_allclose(got, wanted, rtol=0, atol=np.abs(v).max() * np.expm1(2 * off) + 2.0**-32)


def norm(x):
    return np.linalg.norm(x, axis=-1)


@few
@given(IN_ATTENTION["Cope"], RNGS, LENGTHS, st.data())
def test_contextual_positions_count_back_from_the_query(encoding, rng, length, data):
    (q, k, _), weights = tokens(rng, encoding, length), weights_of(encoding, rng)
    before, every = data.draw(st.integers(1, length - 1)), range(length)
    scores = rng.normal(size=(*q.shape[:-1], length))
    others = np.concatenate([scores[..., :before] + 3, scores[..., before:]], axis=-1)
    here, there = (encoding.scores(weights, every, every, AttentionInputs(q, k, seen)) for seen in (scores, others))
    close(here[..., before:], there[..., before:])
