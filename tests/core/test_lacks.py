"""What models have and posenc lacks: it exists under no name, and no function of positions, queries and keys is it."""

import numpy as np
import pytest

from posenc_core import encodings
from posenc_core.huggingface.facts.kinds import FourAxes, Lack
from posenc_core.huggingface.load_position import FACTS

RANDOM = np.random.default_rng(0)
FRAMES, TABLE, MATRIX = RANDOM.normal(size=(2, 6)), RANDOM.normal(size=(4, 9)), RANDOM.normal(size=(9, 4))


def lacks(facts):
    """Yield each lack in facts."""
    if isinstance(facts, Lack):
        yield facts
    elif isinstance(facts, tuple | dict):
        for one in facts.values() if isinstance(facts, dict) else facts:
            yield from lacks(one)


LACKS = dict.fromkeys(lacks(FACTS))


@pytest.mark.parametrize("lack", LACKS, ids=lambda lack: lack.text[:40])
def test_what_a_model_lacks_does_not_exist(lack):
    """Fail once there is a class of that name, or a field of a class: then the facts say it instead."""
    name, _, field = (lack.ends_with or "").partition(".")
    assert name not in encodings.NAMES or field not in {"", *vars(getattr(encodings, name))["__dataclass_fields__"]}


def test_few_configs_do_not_say_which_encoding_it_is():
    assert sum(lack.ends_with is None for lack in LACKS) == 5


def perceptron(x):
    return np.tanh(MATRIX @ np.resize(x, 4))


def sinusoids(x):
    return np.concatenate([np.sin(np.outer(x, [1, 0.1])), np.cos(np.outer(x, [1, 0.1]))]).ravel()


# What the code of a model adds at one position or pair of positions, for two values, 0 and 1, of what it reads besides
# positions, queries and keys. Every encoding is a function of those and of what it has learned.
WITNESSES = {
    "ConvolutionalEncoding": lambda other: np.convolve(FRAMES[other], [1, 2, 1], mode="same")[3:4],  # frames beside it
    "KeypointEncoding": lambda other: perceptron([0.5, 0.25, other]),  # the score of the keypoint
    "SegmentBias": lambda other: TABLE[0, 5] if other else TABLE[0, 2],  # whether the key has the segment of the query
    "ResiduePairs": lambda other: TABLE[1, 8 if other else 3],  # whether two residues have the same chain
    "ProjectedSinusoidBias": lambda other: sinusoids([0.5, other]) @ TABLE[:2].ravel()[:8],  # the height of a box
    "TileEncoding": lambda other: TABLE[other, 5],  # whether the image is as wide as it is high
    "BoxBias": lambda other: perceptron([0.5 - other, 0.5 + other]),  # the width of a box
}


@pytest.mark.parametrize("name", WITNESSES)
def test_no_function_of_positions_queries_and_keys_is_what_is_lacking(name):
    assert not np.allclose(WITNESSES[name](0), WITNESSES[name](1))


def test_each_lack_is_proved():
    assert {lack.ends_with for lack in LACKS} - {None} == {*WITNESSES, "T5Bias.gate"}


def test_a_gate_of_the_query_is_linear_in_none():
    """WavLM multiplies T5's bias by it; what encodings multiply by a number of the query is linear in the query."""
    a, b = 1 / (1 + np.exp(-TABLE[:2, :4] @ FRAMES[0][:4]))
    twice = 1 / (1 + np.exp(-2 * TABLE[:2, :4] @ FRAMES[0][:4]))
    none, gate, of_twice = 0.5 * (0.5 - 1) + 2, a * (b - 1) + 2, twice[0] * (twice[1] - 1) + 2
    assert abs(of_twice - none - 2 * (gate - none)) > 0.01


def test_two_angles_in_a_pair_are_no_rotation():
    """HunYuan-VL in transformers: the first channel has the angle of one axis, the second that of another."""
    assert FourAxes().lack.endswith("which is not a rotation")
    first, second = 0.3, 1.1
    matrix = np.array([[np.cos(first), -np.sin(first)], [np.sin(second), np.cos(second)]])
    assert np.abs(matrix @ matrix.T - np.eye(2)).max() > 0.1
