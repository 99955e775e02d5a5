import json

import mpmath as mp
import numpy as np
import pytest

from posenc_core import AxialRotary, MultimodalRotary, Rotary, XPos
from posenc_core.analysis.pairs import pairs_of
from posenc_core.encodings.notation import parse

from ...errors import rejects

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
        ({"arrangement": [3, 0, 1, 2, 1, 0]}, (3, 0, 1, 2, 1, 0)),
    ],
)
def test_sections_deal_pairs_to_axes(fields, axes):
    assert MultimodalRotary(**MULTIMODAL | fields).axes == axes


def test_axes_of_pairs_that_are_given_count_the_sections():
    encoding = MultimodalRotary(**MULTIMODAL, arrangement=(3, 0, 1, 1, 1, 0))
    assert (encoding.sections, encoding.num_axes) == ((2, 3, 0, 1), 4)
    assert encoding == MultimodalRotary(**MULTIMODAL, sections=(2, 3, 0, 1), arrangement=(3, 0, 1, 1, 1, 0))
    assert MultimodalRotary(**MULTIMODAL, sections=(3, 3, 0), arrangement=(0, 1) * 3).num_axes == 3
    for one in (encoding, AxialRotary(**AXIAL | {"axes_dims": (6, 4, 2)}, arrangement=(1, 0, 2, 0, 0, 1))):
        assert parse(repr(one)) == type(one).from_dict(json.loads(json.dumps(one.to_dict()))) == one


def test_axes_of_pairs_in_order_are_the_named_arrangements():
    positions = np.arange(15).reshape(3, 5)
    for sections, arrangement in (((2, 2, 2), "ernie"), ((3, 2, 1), "chunked"), ((2, 2, 2), "interleaved")):
        named = MultimodalRotary(**MULTIMODAL, sections=sections, arrangement=arrangement)
        given = MultimodalRotary(**MULTIMODAL, arrangement=named.axes)
        np.testing.assert_array_equal(named.cos_sin(positions), given.cos_sin(positions))
    for arrangement in ("concat", "alternating"):
        named = AxialRotary(**AXIAL, arrangement=arrangement, base=(10, 100, 1000))
        given = AxialRotary(**AXIAL, arrangement=named.axes, base=(10, 100, 1000))
        np.testing.assert_array_equal(named.cos_sin(positions), given.cos_sin(positions))


def test_pairs_of_other_axes_are_numbered():
    assert [pair.axis for pair in pairs_of(MultimodalRotary(**MULTIMODAL, sections=(4, 1, 1)))][-2:] == [
        "height",
        "width",
    ]
    four = MultimodalRotary(**MULTIMODAL, arrangement=(3, 0, 1, 1, 1, 0))
    assert [pair.axis for pair in pairs_of(four)][:3] == ["axis 3", "axis 0", "axis 1"]


def test_published_sections_are_dealt_as_their_models_do():
    qwen3 = MultimodalRotary(head_dim=128, layout="half", sections=(24, 20, 20), arrangement="interleaved").axes
    assert qwen3 == (0, 1, 2) * 20 + (0,) * 4
    qwen35 = MultimodalRotary(
        head_dim=256, layout="half", rotary_dim=64, sections=(11, 11, 10), arrangement="interleaved"
    )
    assert qwen35.axes == (0, 1, 2) * 10 + (0, 1)


def test_positions_have_as_many_axes_as_the_encoding():
    with rejects(ValueError, "positions", "(2, 5)"):
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
    with rejects(ValueError, "positions", "40000"):
        XPos(**XPOS).rows([-40000])
    assert XPos(**XPOS).limit == 35557


@pytest.mark.parametrize("series", ["own", "dealt"])
@pytest.mark.parametrize("arrangement", ["concat", "alternating", "blocks"])
def test_one_axis_alone_has_the_frequencies_of_a_sequence(arrangement, series):
    one = AxialRotary(head_dim=8, layout="half", axes_dims=(8,), arrangement=arrangement, series=series, base=500)
    rotary = Rotary(head_dim=8, layout="half", base=500)
    assert one.axes == (0,) * 4
    np.testing.assert_array_equal(one.frequencies(), rotary.frequencies())
    for found, expected in zip(one.cos_sin([3, 5]), rotary.cos_sin([3, 5]), strict=True):
        np.testing.assert_array_equal(found, expected)
