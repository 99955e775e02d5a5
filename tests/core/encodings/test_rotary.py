import re

import numpy as np
import pytest

from posenc_core import (
    AxialRotary,
    LearnedRotary,
    Linear,
    LongRoPE,
    MultimodalRotary,
    Proportional,
    Rotary,
    XPos,
    rotate,
)

LAYOUTS = ("interleaved", "half")


def test_rotary_on_ones_as_printed_in_the_text():
    printed = [[1, 1], [-0.30116868, 1.38177329], [-1.32544426, 0.49315059], [-1.1311125, -0.84887249]]
    cos, sin = Rotary(head_dim=2, layout="interleaved").cos_sin(range(4))
    np.testing.assert_allclose(rotate(np.ones((4, 2)), cos, sin, layout="interleaved"), printed, atol=2e-7)


def test_the_layout_orders_channels_and_not_numbers():
    half, interleaved = (Rotary(head_dim=8, layout=layout) for layout in ("half", "interleaved"))
    for a, b in zip(half.cos_sin([1000]), interleaved.cos_sin([1000]), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("fields", "kind", "message"),
    [
        ({"head_dim": 7}, ValueError, "`head_dim` must be even, got 7."),
        ({"head_dim": 0}, ValueError, "`head_dim` must be at least 1, got 0."),
        ({"head_dim": "8"}, TypeError, "`head_dim` must be an integer, got '8'."),
        (
            {"head_dim": 8, "layout": "neox"},
            ValueError,
            "`layout` must be one of 'interleaved', 'half', 'interleaved_to_half', got 'neox'.",
        ),
        ({"head_dim": 8, "base": 1}, ValueError, "`base` must be a finite number greater than 1, got 1."),
        ({"head_dim": 8, "base": -5.0}, ValueError, "`base` must be a finite number greater than 1, got -5.0."),
        ({"head_dim": 8, "base": None}, TypeError, "`base` must be a number, got None."),
        ({"head_dim": 8, "rotary_dim": 3}, ValueError, "`rotary_dim` must be even, got 3."),
        ({"head_dim": 8, "rotary_dim": 10}, ValueError, "`rotary_dim` must not exceed `head_dim` 8, got 10."),
        ({"head_dim": 8, "scaling": "yarn"}, TypeError, "`scaling` must be a scaling or None, got 'yarn'."),
        (
            {"head_dim": 8, "placement": "tail"},
            ValueError,
            "`placement` must be one of 'lead', 'trail', 'spread', got 'ta",
        ),
        ({"head_dim": 8, "direction": -1}, ValueError, "`direction` must be one of 'forward', 'inverse', got -1."),
        (
            {"head_dim": 8, "precision": "bf16"},
            ValueError,
            "`precision` must be one of 'exact', 'float32', got 'bf16'.",
        ),
        (
            {"head_dim": 8, "frequencies": [1.0]},
            ValueError,
            "`frequencies` must be 4 numbers, one for each pair, got 1.",
        ),
        ({"head_dim": 2, "frequencies": [-1.0]}, ValueError, "`frequencies` must be from 0 up to 2**31"),
        ({"head_dim": 2, "frequencies": ["1"]}, TypeError, "`frequencies` must be a number, got '1'."),
        (
            {"head_dim": 2, "frequencies": [1], "base": 500},
            ValueError,
            "`base` must be left out where `frequencies` are",
        ),
        (
            {"head_dim": 2, "frequencies": [1], "scaling": Linear(factor=2)},
            ValueError,
            "`scaling` must be an AttentionFactor or None where `frequencies` are given, got Linear(factor=2).",
        ),
        (
            {"head_dim": 8, "placement": "trail", "scaling": Proportional(partial_rotary_factor=0.5)},
            ValueError,
            "`placement` must be one of 'lead', 'spread' with Proportional(partial_rotary_factor=0.5), got 'trail'.",
        ),
        (
            {"head_dim": 8, "layout": "interleaved_to_half", "scaling": Proportional(partial_rotary_factor=0.5)},
            ValueError,
            "`layout` must be one of 'interleaved', 'half' with Proportional(partial_rotary_factor=0.5), got",
        ),
        (
            {"head_dim": 8, "scaling": Proportional(partial_rotary_factor=0.1)},
            ValueError,
            "`scaling` must leave a pair that turns, got Proportional(partial_rotary_factor=0.1) for 8 channels.",
        ),
        (
            {"head_dim": 8, "rotary_dim": 4, "scaling": Proportional(partial_rotary_factor=0.5)},
            ValueError,
            "`rotary_dim` must be left out with Proportional(partial_rotary_factor=0.5), got 4.",
        ),
        (
            {
                "head_dim": 8,
                "scaling": LongRoPE(
                    short_factor=[1] * 4, long_factor=[1, 2], original_max_position_embeddings=8, factor=2
                ),
            },
            ValueError,
            "`long_factor` must have 4 numbers, one for each frequency, got 2.",
        ),
    ],
)
def test_bad_input(fields, kind, message):
    with pytest.raises(kind, match=re.escape(message)):
        Rotary(**{"layout": "half"} | fields)


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
    with pytest.raises(ValueError, match=f"^{kind.__name__} cannot be made of .*: {message[1:]}"):
        kind.from_dict({"kind": kind.__name__, "head_dim": 8, **fields})
    assert "layout='half'" in repr(kind(head_dim=8, layout="half", **fields))


def test_an_odd_head_may_turn_in_part():
    assert Rotary(head_dim=7, layout="half", rotary_dim=4).frequencies().shape == (2,)
