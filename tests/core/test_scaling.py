import warnings
from dataclasses import replace
from decimal import Decimal

import mpmath as mp
import numpy as np
import pytest

import posenc_core as p
from posenc_core.encodings.notation import parse

from ..errors import rejects

LENGTH = {"original_max_position_embeddings": 4096}
LISTS = {"short_factor": [1.0, 2.0], "long_factor": [4.0, 8.0]} | LENGTH


def rotary(scaling, head_dim=64):
    return p.Rotary(head_dim=head_dim, layout="half", base=10000, scaling=scaling)


def test_the_ends_of_the_spectrum():
    plain = rotary(None).frequencies()
    for scaling, fastest, slowest in (
        (p.Linear(factor=8), 8, 8),
        (p.NTK(factor=8), 1, 8),
        (p.NTKAlpha(alpha=8), 1, 8),
        (p.DynamicNTK(factor=8, **LENGTH), 1, 1),
        (p.YaRN(factor=8, **LENGTH), 1, 8),
        (p.Llama3(factor=8, low_freq_factor=1, high_freq_factor=4, **LENGTH), 1, 8),
        (p.AttentionFactor(attention_factor=2.0), 1, 1),
        (p.RIFLEx(k=31, length=4096), 1, 1),
        (p.DyPE(factor=8, **LENGTH), 1, 8),
        (p.DyPE(factor=8, kappa=0, **LENGTH), 1, 1),
    ):
        scaled = rotary(scaling).frequencies()
        assert plain[0] / scaled[0] == pytest.approx(fastest, rel=1e-15), scaling
        assert plain[-1] / scaled[-1] == pytest.approx(slowest, rel=1e-12), scaling


def test_dynamic_ntk_depends_on_the_given_length_and_keeps_no_state():
    dynamic = rotary(p.DynamicNTK(factor=2, **LENGTH))
    plain = rotary(None).frequencies()
    np.testing.assert_array_equal(dynamic.frequencies(4096), plain)
    longer = dynamic.frequencies(8192)
    assert plain[-1] / longer[-1] == pytest.approx(3, rel=1e-12)  # 2 * 8192 / 4096 - 1
    np.testing.assert_array_equal(dynamic.frequencies(), plain)
    assert dynamic.at(8192).at(100) == dynamic
    assert dynamic.at(8192).max_seq_len == 8192


def test_longrope_switches_strictly_above_the_original_length():
    longrope = rotary(p.LongRoPE(**LISTS, factor=2), head_dim=4)
    np.testing.assert_array_equal(longrope.frequencies(4096), [1.0, 0.005])
    np.testing.assert_array_equal(longrope.frequencies(4097), [0.25, 0.00125])
    assert longrope.at(5000) == longrope.at(4097) != longrope
    assert longrope.max_seq_len == 4096
    assert longrope.at(4097).max_seq_len is None


def test_lengths_that_share_frequencies_are_one_value():
    lists = LISTS | {"factor": 2}
    assert (
        p.LongRoPE(**lists, seq_len=9000) == p.LongRoPE(**lists, seq_len=4097) == p.LongRoPE(**lists).at(np.int64(5000))
    )
    assert p.LongRoPE(**lists, seq_len=4096) == p.LongRoPE(**lists)
    assert p.DynamicNTK(factor=2, **LENGTH, seq_len=4096) == p.DynamicNTK(factor=2, **LENGTH)
    long = rotary(p.LongRoPE(**lists), head_dim=4).at(4097)
    assert long.at(70000) is long


def test_each_list_of_longrope_may_have_its_own_attention_factor():
    both = rotary(p.LongRoPE(**LISTS, short_mscale=1.1, long_mscale=1.3), head_dim=4)
    assert (both.attention_factor, both.at(4097).attention_factor) == (1.1, 1.3)


@pytest.mark.parametrize("position", [1, 4097, 2**20 + 1, 2**31 - 1])
def test_tables_have_the_factor_rounded_once(position):
    yarn = rotary(p.YaRN(factor=40, **LENGTH), head_dim=2)
    with mp.workdps(50):
        wanted = [(mp.log(40) / 10 + 1) * f(position) for f in (mp.cos, mp.sin)]
    got = [table.item() for table in yarn.cos_sin([position])]
    assert got == [np.float32(float(value)).item() for value in wanted]


def test_yarn_bounds_are_clamped_to_the_channels_and_not_to_the_pairs():
    wide = p.YaRN(factor=4, original_max_position_embeddings=2**40, beta_slow=1e-30)
    low, high = wide.ramp(4, 10000)
    assert low == 9  # floor(8 * ln(2**40 / 64π) / (2 * ln(10000)))
    assert high == 7  # 2 * 4 - 1, though the pairs end at 3
    narrow = p.YaRN(factor=4, **LENGTH, beta_fast=32, beta_slow=32, truncate=False).ramp(32, 10000)
    assert narrow[1] - narrow[0] == Decimal("0.001")


@pytest.mark.parametrize("seq_len", [0, -1, 2.5, "8"])
def test_a_length_is_a_positive_integer(seq_len):
    for scaling in (p.Linear(factor=2), p.DynamicNTK(factor=2, **LENGTH), p.LongRoPE(**LISTS, factor=2)):
        with pytest.raises((TypeError, ValueError), match="`seq_len` must be"):
            scaling.at(seq_len)


def test_without_a_length_positions_past_it_have_the_short_frequencies_and_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cos, _ = rotary(p.LongRoPE(**LISTS, attention_factor=1.0, factor=2), head_dim=4).cos_sin([5000])
    assert cos.tolist() == [[np.float32(mp.cos(5000)), np.float32(mp.cos(mp.mpf(5000) / 200))]]


AXES = {"head_dim": 24, "layout": "half", "axes_dims": (8, 8, 8)}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"scaling": ("yarn", None, None)}, ("scaling", ("yarn", None, None))),
        ({"scaling": (p.NTK(factor=2),) * 2}, ("scaling", (p.NTK(factor=2),) * 2)),
        ({"scaling": (p.NTK(factor=2),) * 3, "series": "dealt"}, ("scaling", (p.NTK(factor=2),) * 3)),
        ({"scaling": p.NTK(factor=2), "unit": "turn"}, ("unit", "turn")),
        ({"scaling": (None, None, p.RIFLEx(k=5, length=9))}, ("k", 5)),
        ({"scaling": p.DynamicNTK(factor=2, **LENGTH)}, ("scaling", p.DynamicNTK(factor=2, **LENGTH))),
        (
            {"scaling": p.Proportional(partial_rotary_factor=0.5)},
            ("scaling", p.Proportional(partial_rotary_factor=0.5)),
        ),
    ],
)
def test_scalings_of_axes_that_do_not_fit(fields, words):
    with rejects((TypeError, ValueError), *words):
        p.AxialRotary(**AXES | fields)


def test_each_axis_has_its_own_attention_factor():
    yarn = p.YaRN(factor=np.e, **LENGTH)
    axial = p.AxialRotary(**AXES, scaling=(None, yarn, p.DyPE(factor=np.e**2, **LENGTH)))
    factors = np.repeat([1, 1.1, 1.2], 4)
    np.testing.assert_allclose(axial.attention_factors, factors, rtol=1e-15)
    assert axial.attention_factor == axial.attention_factors[-1]
    for precision in ("exact", "float32"):
        cos, sin = replace(axial, precision=precision).cos_sin([[3, 70], [5, 900], [7, -2]])
        np.testing.assert_allclose(np.hypot(cos, sin), np.broadcast_to(factors, (2, 12)), rtol=2e-7)
    traced = axial.traced_rows(np.array([3.0, 70.0]))
    np.testing.assert_allclose(traced, [*axial.rows([3, 70]).values()], atol=1e-6)
    keys = np.ones((2, 24), np.float32)
    moved = p.rerotate(p.rerotate(keys, [3, 70], [0, 1], rotary=axial), [0, 1], [3, 70], rotary=axial)
    np.testing.assert_allclose(moved, keys, atol=1e-6)
    assert axial.unscaled() == p.AxialRotary(**AXES)
    assert parse(repr(axial)) == p.AxialRotary.from_dict(axial.to_dict()) == axial
