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

from ...errors import rejects

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
    ("fields", "kind", "names"),
    [
        ({"head_dim": 7}, ValueError, ("head_dim", "7")),
        ({"head_dim": 0}, ValueError, ("head_dim", "0")),
        ({"head_dim": "8"}, TypeError, ("head_dim", "'8'")),
        (
            {"head_dim": 8, "layout": "neox"},
            ValueError,
            ("layout", "'neox'"),
        ),
        ({"head_dim": 8, "base": 1}, ValueError, ("base", "1")),
        ({"head_dim": 8, "base": -5.0}, ValueError, ("base", "-5.0")),
        ({"head_dim": 8, "base": None}, TypeError, ("base", "None")),
        ({"head_dim": 8, "rotary_dim": 3}, ValueError, ("rotary_dim", "3")),
        ({"head_dim": 8, "rotary_dim": 10}, ValueError, ("rotary_dim", "10")),
        ({"head_dim": 8, "scaling": "yarn"}, TypeError, ("scaling", "'yarn'")),
        (
            {"head_dim": 8, "placement": "tail"},
            ValueError,
            ("placement", "'tail'"),
        ),
        ({"head_dim": 8, "direction": -1}, ValueError, ("direction", "-1")),
        (
            {"head_dim": 8, "precision": "bf16"},
            ValueError,
            ("precision", "'bf16'"),
        ),
        (
            {"head_dim": 8, "frequencies": [1.0]},
            ValueError,
            ("frequencies", "1"),
        ),
        ({"head_dim": 2, "frequencies": [-1.0]}, ValueError, ("frequencies", "-1.0")),
        ({"head_dim": 2, "frequencies": ["1"]}, TypeError, ("frequencies", "'1'")),
        (
            {"head_dim": 2, "frequencies": [1], "base": 500},
            ValueError,
            ("base", "500"),
        ),
        (
            {"head_dim": 2, "frequencies": [1], "scaling": Linear(factor=2)},
            ValueError,
            ("scaling", "Linear(factor=2)"),
        ),
        (
            {"head_dim": 8, "placement": "trail", "scaling": Proportional(partial_rotary_factor=0.5)},
            ValueError,
            ("placement", "'trail'"),
        ),
        (
            {"head_dim": 8, "layout": "interleaved_to_half", "scaling": Proportional(partial_rotary_factor=0.5)},
            ValueError,
            ("layout", "'interleaved_to_half'"),
        ),
        (
            {"head_dim": 8, "scaling": Proportional(partial_rotary_factor=0.1)},
            ValueError,
            ("scaling", "Proportional(partial_rotary_factor=0.1)"),
        ),
        (
            {"head_dim": 8, "rotary_dim": 4, "scaling": Proportional(partial_rotary_factor=0.5)},
            ValueError,
            ("rotary_dim", "4"),
        ),
        (
            {
                "head_dim": 8,
                "scaling": LongRoPE(
                    short_factor=[1] * 4, long_factor=[1, 2], original_max_position_embeddings=8, factor=2
                ),
            },
            ValueError,
            ("long_factor", "2"),
        ),
    ],
)
def test_bad_input(fields, kind, names):
    with rejects(kind, *names):
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
    with pytest.raises(ValueError, match=message):
        kind.from_dict({"kind": kind.__name__, "head_dim": 8, **fields})
    assert "layout='half'" in repr(kind(head_dim=8, layout="half", **fields))


def test_an_odd_head_may_turn_in_part():
    assert Rotary(head_dim=7, layout="half", rotary_dim=4).frequencies().shape == (2,)
