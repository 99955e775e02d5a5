"""`check` names two mistakes made at once, and gives no name that is not true."""

import random

import pytest

from posenc_backends.check import check

from .corpus import MISTAKES, SPEC, function_of, pairs_of_mistakes

PAIRS = random.Random(0).sample(pairs_of_mistakes(), len(pairs_of_mistakes()))
SAMPLE = 5


def fully_named(pairs):
    """Return how many pairs have both names; fail at a name that is not true."""
    count = 0
    for one, other in pairs:
        names = {name for name in check(function_of(one, other), SPEC).names if "unknown" not in name}
        assert names <= {one, other}, (one, other)
        count += names == {one, other}
    return count


def test_the_corpus_is_right_without_a_mistake():
    assert check(function_of(), SPEC).precision == "exact"


@pytest.mark.parametrize("name", sorted(MISTAKES)[::4])
def test_a_mistake_alone_is_named(name):
    assert check(function_of(name), SPEC).names == (name,)


def test_pairs_are_fully_named():
    assert fully_named(PAIRS[:SAMPLE]) == SAMPLE


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("layout swapped", "table and rotation of different layouts"),
        ("table and rotation of different layouts", "rotated twice"),
        ("positions off by one", "positions ignored"),
        ("bfloat16 frequencies", "bfloat16 positions"),
        ("float16 frequencies", "bfloat16 positions"),
    ],
)
def test_a_mistake_that_changes_what_another_does_is_named(one, other):
    assert set(check(function_of(one, other), SPEC).names) == {one, other}


def test_a_mistake_of_one_array_is_named_for_it():
    result = check(function_of("sign flipped", keys=("layout swapped", "positions off by one")), SPEC)
    assert set(result.names) == {"sign flipped", "layout swapped", "positions off by one"}
    assert {one.outputs for one in result.mistakes} == {("queries",), ("keys",)}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(MISTAKES))
def test_every_mistake_alone_is_named(name):
    assert check(function_of(name), SPEC).names == (name,)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_all_pairs_are_fully_named():
    assert fully_named(PAIRS) == len(PAIRS)
