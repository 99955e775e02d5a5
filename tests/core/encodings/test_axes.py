import re

import mpmath as mp
import numpy as np
import pytest

from posenc_core import AxialRotary, DynamicNTK, LearnedRotary, MultimodalRotary, Proportional, XPos

MULTIMODAL = {"head_dim": 12, "layout": "half"}
AXIAL = {"head_dim": 12, "layout": "half", "axes_dims": (4, 4, 4)}
XPOS = {"head_dim": 8, "layout": "half"}


@pytest.mark.parametrize(
    ("fields", "axes"),
    [
        ({"sections": (3, 2, 1)}, (0, 0, 0, 1, 1, 2)),
        ({"sections": (1, 1, 1, 1, 1, 1)}, (0, 1, 2, 0, 1, 2)),
        ({"sections": (2, 2, 2), "arrangement": "interleaved"}, (0, 1, 2, 0, 1, 2)),
        ({"sections": (4, 1, 1), "arrangement": "interleaved"}, (0, 1, 2, 0, 0, 0)),
        ({"sections": (2, 2, 2), "arrangement": "ernie"}, (1, 2, 1, 2, 0, 0)),
    ],
)
def test_sections_deal_pairs_to_axes(fields, axes):
    assert MultimodalRotary(**MULTIMODAL | fields).axes == axes


def test_published_sections_are_dealt_as_their_models_do():
    qwen3 = MultimodalRotary(head_dim=128, layout="half", sections=(24, 20, 20), arrangement="interleaved").axes
    assert qwen3 == (0, 1, 2) * 20 + (0,) * 4
    qwen35 = MultimodalRotary(
        head_dim=256, layout="half", rotary_dim=64, sections=(11, 11, 10), arrangement="interleaved"
    )
    assert qwen35.axes == (0, 1, 2) * 10 + (0, 1)


@pytest.mark.parametrize(
    ("make", "fields", "kind", "message"),
    [
        (
            MultimodalRotary,
            {"sections": (2, 2, 1)},
            ValueError,
            "`sections` must add up to the 6 pairs that turn, got (2,",
        ),
        (MultimodalRotary, {"sections": 6}, TypeError, "`sections` must be a list of numbers of pairs, got 6."),
        (
            MultimodalRotary,
            {"sections": (3, 3), "arrangement": "interleaved"},
            ValueError,
            "`sections` must be three unless they are chunked, got (3, 3).",
        ),
        (
            MultimodalRotary,
            {"sections": (1, 4, 1), "arrangement": "interleaved"},
            ValueError,
            "`sections` cannot be 'interleaved': (1, 4, 1) pairs would become (3, 2, 1).",
        ),
        (
            MultimodalRotary,
            {"sections": (1, 2, 3), "arrangement": "ernie"},
            ValueError,
            "`sections` cannot be 'ernie'",
        ),
        (
            MultimodalRotary,
            {"sections": (2, 2, 2), "arrangement": "random"},
            ValueError,
            "`arrangement` must be one of",
        ),
        (
            MultimodalRotary,
            {"sections": (2, 2, 2), "scaling": Proportional(partial_rotary_factor=0.5)},
            ValueError,
            "`scaling` must leave no pair standing still",
        ),
        (AxialRotary, {"axes_dims": (4, 3)}, ValueError, "`axes_dims` must be even, got 3."),
        (
            AxialRotary,
            {"axes_dims": (8, 8)},
            ValueError,
            "`axes_dims` must add up to at most `head_dim` 12, got (8, 8).",
        ),
        (AxialRotary, {"axes_dims": 4}, TypeError, "`axes_dims` must be a list of numbers of channels, got 4."),
        (AxialRotary, {"axes_dims": (2, 4), "series": "dealt"}, ValueError, "`axes_dims` must all be equal where axes"),
        (AxialRotary, AXIAL | {"base": (10, 20)}, ValueError, "`base` must be one number, or one for each of 3 axes"),
        (AxialRotary, AXIAL | {"base": None}, TypeError, "`base` must be a number, got None."),
        (
            AxialRotary,
            AXIAL | {"base": (2, 3, 4), "series": "dealt"},
            ValueError,
            "`base` must be one number where its",
        ),
        (
            AxialRotary,
            AXIAL | {"placement": "spread", "arrangement": "blocks"},
            ValueError,
            "`placement` 'spread' goes",
        ),
        (AxialRotary, AXIAL | {"unit": "degree"}, ValueError, "`unit` must be one of 'radian', 'turn', got 'degree'."),
        (XPos, {"scale_base": 0}, ValueError, "`scale_base` must be a finite number greater than 0, got 0."),
        (XPos, {"center": 40000}, ValueError, "`center` must lie within 35556 of 0, got 40000; a larger `scale_base`"),
        (XPos, {"precision": "float32"}, ValueError, "`precision` of XPos must be 'exact', got 'float32'."),
        (
            XPos,
            {"scaling": Proportional(partial_rotary_factor=0.5)},
            ValueError,
            "`scaling` of XPos must leave no pair",
        ),
        (LearnedRotary, {"std": -1}, ValueError, "`std` must be a finite number of at least 0, got -1."),
        (
            LearnedRotary,
            {"scaling": DynamicNTK(factor=2, original_max_position_embeddings=8)},
            ValueError,
            "`scaling` must not depend on the length where frequencies are learned",
        ),
    ],
)
def test_bad_input(make, fields, kind, message):
    with pytest.raises(kind, match=re.escape(message)):
        make(**{"head_dim": 12, "layout": "half"} | fields)


def test_positions_have_as_many_axes_as_the_encoding():
    with pytest.raises(ValueError, match=re.escape("`positions` must have shape (3, ..., length), got (2, 5).")):
        AxialRotary(**AXIAL).cos_sin(np.zeros((2, 5)))


@pytest.mark.parametrize("center", [0, 9000, -9000, 16384.5])
def test_xpos_is_exact_around_any_center(center):
    positions = [0, 1, int(center) + 3, int(center) - 500]
    rows = XPos(**XPOS, center=center).rows(positions)
    for j in (0, 3):
        zeta = (mp.mpf(2 * j) / 8 + mp.mpf("0.4")) / mp.mpf("1.4")
        for i, p in enumerate(positions):
            with mp.workdps(50):
                grown = mp.power(zeta, (p - mp.mpf(center)) / 512)
                angle = p * mp.power(10000, -mp.mpf(j) / 4)
                wanted = (grown * mp.cos(angle), grown * mp.sin(angle), mp.cos(angle) / grown, mp.sin(angle) / grown)
            got = [rows[name][i, j] for name in ("cos", "sin", "key_cos", "key_sin")]
            assert got == [np.float32(float(value)) for value in wanted]


def test_xpos_tells_how_far_it_reaches():
    with pytest.raises(
        ValueError, match=re.escape("`positions` must lie within 35556 of `center` 0, got one 40000 away")
    ):
        XPos(**XPOS).rows([-40000])
    assert XPos(**XPOS).limit == 35557
