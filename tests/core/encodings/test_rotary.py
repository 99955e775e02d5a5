import re

import numpy as np
import pytest

from posenc_core import AxialRotary, LearnedRotary, Linear, MultimodalRotary, Rotary, XPos, rotate


def test_rotary_on_ones_as_printed_in_the_text():
    printed = [[1, 1], [-0.30116868, 1.38177329], [-1.32544426, 0.49315059], [-1.1311125, -0.84887249]]
    cos, sin = Rotary(head_dim=2, layout="interleaved").cos_sin(range(4))
    np.testing.assert_allclose(rotate(np.ones((4, 2)), cos, sin, layout="interleaved"), printed, atol=2e-7)


def test_the_layout_orders_channels_and_not_numbers():
    half, interleaved = (Rotary(head_dim=8, layout=layout) for layout in ("half", "interleaved"))
    for a, b in zip(half.cos_sin([1000]), interleaved.cos_sin([1000]), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (Rotary, {}),
        (XPos, {}),
        (LearnedRotary, {}),
        (AxialRotary, {"axes_dims": (4, 4)}),
        (MultimodalRotary, {"sections": (2, 1, 1)}),
    ],
)
def test_without_a_layout_the_error_says_what_to_choose(kind, fields):
    message = r"^`layout` must be given: \"half\" \(pairs .*Hugging Face.*\) or \"interleaved\" \(pairs .*GPT-J.*\)\.$"
    with pytest.raises(TypeError, match=message):
        kind(head_dim=8, **fields)
    with pytest.raises(ValueError, match=message):
        kind.from_dict({"kind": kind.__name__, "head_dim": 8, **fields})
    assert "layout='half'" in repr(kind(head_dim=8, layout="half", **fields))


def test_an_odd_head_may_turn_in_part():
    assert Rotary(head_dim=7, layout="half", rotary_dim=4).frequencies().shape == (2,)


def test_positions_may_be_stretched():
    """A factor below 1 is the rule that divides positions: the angles of twice the positions."""
    found = Rotary(head_dim=4, layout="half", scaling=Linear(factor=0.5)).cos_sin([1, 2**20])
    np.testing.assert_array_equal(found, Rotary(head_dim=4, layout="half").cos_sin([2, 2**21]))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"frequencies": [1.0, -0.5]}, "got -0.5; to rotate the other way, give `direction='inverse'`."),
        ({"frequencies": [[1.0, 0.5]]}, "`frequencies` must be one number for each pair, got [[1.0, 0.5]]."),
        ({"rotary_dim": 0}, "`rotary_dim` must be at least 1, got 0; without rotation there is no rotary encoding."),
    ],
)
def test_messages_say_what_to_do(fields, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        Rotary(head_dim=4, layout="half", **fields)


@pytest.mark.parametrize(
    ("sections", "words"),
    [((32, 48, 48), "(16, 24, 24) would"), ((16, 24, 20), "(18, 25, 21) would"), ((0, 0, 0), "got (0, 0, 0).")],
)
def test_sections_that_fit_are_named(sections, words):
    with pytest.raises(ValueError, match=re.escape(words)) as caught:
        MultimodalRotary(head_dim=128, layout="half", sections=sections)
    proposed = re.search(r"; \((.*)\) would", str(caught.value))
    if proposed:
        fitting = tuple(map(int, proposed[1].split(",")))
        assert MultimodalRotary(head_dim=128, layout="half", sections=fitting).sections == fitting
