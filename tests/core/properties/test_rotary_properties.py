"""Rotations keep norms, can be undone, and turn scores into functions of how far query and key are apart.

An entry of a table is off by at most 2**-24 of itself, so a turned pair by 2**-24 of its length, and a product of two
by 2**-23 of theirs; tokens are float64, whose own rounding is lost in the hundredth part that is allowed on top.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posenc_core import AxialRotary, Rotary, rotate, unrotate

from . import expected_rope
from .expected_sinusoids import MP, is_nearest
from .numbers import DISTANCES, FAR, POSITIONS, RNGS
from .rotary_strategies import ENTRIES, axial, multimodal, proportional, rotaries, xpos

UNIT = 1.01 * 2.0**-24
ROTARIES = rotaries() | proportional()
OF_AXES = multimodal() | axial()


def words(rotary):
    blocks = rotary.num_axes if isinstance(rotary, AxialRotary) and rotary.arrangement == "blocks" else 1
    return {"layout": rotary.layout, "placement": rotary.placement, "blocks": blocks}


def turned(rotary, x, positions):
    return rotate(x, *rotary.cos_sin(positions), **words(rotary))


def stretched(rotary, x, by):
    """`x`, its turning channels multiplied; which those are is written out here once more."""
    width, turning = rotary.head_dim, rotary.rotary_channels
    channels = np.arange(width)
    turns = {
        "lead": channels < turning,
        "trail": channels >= width - turning,
        "spread": channels % (width // 2) < turning // 2 if rotary.layout == "half" else channels < turning,
    }[rotary.placement]
    return np.where(turns, by * x, x)


def norm(x):
    return np.linalg.norm(x, axis=-1)


def score(rotary, x, y, positions):
    """The product of a query and a key at two positions, or at two on each axis."""
    q, k = np.split(turned(rotary, np.concatenate([x, y]), positions), 2)
    return (q @ k.T).item()


@given(ROTARIES | axial() | multimodal(), POSITIONS, RNGS)
def test_rotation_keeps_norms_but_for_the_attention_factor(rotary, position, rng):
    x = rng.normal(size=(1, rotary.head_dim))
    wanted = norm(stretched(rotary, x, rotary.attention_factor))
    np.testing.assert_allclose(norm(turned(rotary, x, [position])), wanted, rtol=UNIT)


@given(ROTARIES | axial() | multimodal(), POSITIONS, RNGS)
def test_unrotate_undoes_rotate_but_for_the_square_of_the_factor(rotary, position, rng):
    x, (cos, sin) = rng.normal(size=(1, rotary.head_dim)), rotary.cos_sin([position])
    again = unrotate(rotate(x, cos, sin, **words(rotary)), cos, sin, **words(rotary))
    wanted = stretched(rotary, x, rotary.attention_factor**2)
    np.testing.assert_allclose(again, wanted, rtol=2 * UNIT, atol=2.0**-48 * norm(wanted).item())


@given(rotaries().filter(lambda rotary: rotary.layout != "interleaved_to_half"), POSITIONS, RNGS)
def test_the_inverse_direction_undoes_the_other(rotary, position, rng):
    there, back = (replace(rotary, direction=direction) for direction in ("forward", "inverse"))
    x = rng.normal(size=(1, rotary.head_dim))
    wanted = stretched(rotary, x, rotary.attention_factor**2)
    again = turned(back, turned(there, x, [position]), [position])
    np.testing.assert_allclose(again, wanted, rtol=2 * UNIT, atol=2.0**-48 * norm(wanted).item())


@given(ROTARIES, POSITIONS, POSITIONS, DISTANCES, RNGS)
def test_scores_see_only_how_far_query_and_key_are_apart(rotary, query, key, shift, rng):
    x, y = rng.normal(size=(2, 1, rotary.head_dim))
    here, there = (score(rotary, x, y, [query + by, key + by]) for by in (0, shift))
    slack = 4 * UNIT * max(rotary.attention_factor, 1) ** 2 * (norm(x) * norm(y)).item()
    assert abs(here - there) <= slack


@given(OF_AXES, st.data(), RNGS)
def test_scores_see_only_how_far_query_and_key_are_apart_on_each_axis(rotary, data, rng):
    x, y = rng.normal(size=(2, 1, rotary.head_dim))
    cells = np.array(data.draw(st.tuples(*[st.tuples(POSITIONS, POSITIONS)] * rotary.num_axes)))
    shifts = np.array(data.draw(st.tuples(*[st.tuples(DISTANCES)] * rotary.num_axes)))
    here, there = score(rotary, x, y, cells), score(rotary, x, y, cells + shifts)
    assert abs(here - there) <= 4 * UNIT * (norm(x) * norm(y)).item()


@given(xpos(), st.integers(-2000, 2000), st.integers(-2000, 2000), st.integers(-2000, 2000), RNGS)
def test_scores_of_xpos_too_and_they_fade(encoding, query, key, shift, rng):
    x, y = rng.normal(size=(2, 1, encoding.head_dim))
    at = [encoding.center + query, encoding.center + key]
    here, there = (xpos_score(encoding, x, y, [p + by for p in at]) for by in (0, shift))
    fastest = max((0.4 / 1.4) ** ((query - key) / encoding.scale_base), 1)  # keys after their query grow
    slack = 4 * UNIT * fastest * max(encoding.attention_factor, 1) ** 2 * (norm(x) * norm(y)).item()
    assert abs(here - there) <= slack
    assert abs(here - faded(encoding, x, y, at)) <= slack


def xpos_score(encoding, x, y, positions):
    """The product of a query at the first position and a key at the second, by their own tables."""
    rows = encoding.rows(positions)
    q = rotate(x, rows["cos"][:1], rows["sin"][:1], **words(encoding))
    k = rotate(y, rows["key_cos"][1:], rows["key_sin"][1:], **words(encoding))
    return (q @ k.T).item()


def faded(encoding, x, y, positions):
    """The plain rotary score, each pair's share times `z ** (distance / scale_base)`, pair by pair."""
    plain = Rotary(**{name: getattr(encoding, name) for name in ROTARY_FIELDS}, frequencies=encoding.own)
    shares = (2 * np.arange(encoding.pairs) / encoding.rotary_channels + 0.4) / 1.4
    fading = shares ** ((positions[0] - positions[1]) / encoding.scale_base)
    cos, sin = plain.cos_sin(positions)
    q = rotate(x, cos[:1] * fading, sin[:1] * fading, **words(encoding))
    return (q @ rotate(y, cos[1:], sin[1:], **words(encoding)).T).item()


ROTARY_FIELDS = ("head_dim", "layout", "base", "rotary_dim", "placement", "direction", "scaling")


def test_angles_rounded_to_float32_are_no_functions_of_the_distance():
    rotary, x = Rotary(head_dim=64, layout="half", precision="float32"), np.ones((1, 64))
    here, there = (score(rotary, x, x, [by, by + 1]) for by in (0, FAR))
    assert abs(here - there) > 1e-2


@pytest.mark.parametrize("kind", ENTRIES)
@settings(max_examples=12)
@given(st.data())
def test_entries_are_off_by_half_a_last_place_at_most(kind, data):
    rotary = data.draw(ENTRIES[kind])
    factor, sign = expected_rope.attention_factor(rotary), -1 if rotary.direction == "inverse" else 1
    positions = np.array(data.draw(st.tuples(*[st.tuples(DISTANCES, DISTANCES)] * rotary.num_axes)))
    cos, sin = rotary.cos_sin(positions if rotary.num_axes > 1 else positions[0])
    for column, (axis, frequency) in enumerate(expected_rope.frequencies(rotary)):
        for row, position in enumerate(positions[axis].tolist()):
            true = MP.cos_sin(position * frequency)
            assert is_nearest(cos[row, column], factor * true[0])
            assert is_nearest(sin[row, column], sign * factor * true[1])
