"""Rotations keep norms, have an inverse, and make scores functions of the distance between query and key.

The relative error of a table entry is at most 2**-24, so that of the norm of a rotated pair is 2**-24, and that of the
product of two pairs 2**-23. Tokens are float64, whose rounding the extra hundredth covers.
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
from .rotary_strategies import TABLES, axial, multimodal, proportional, rotaries, xpos

UNIT = 1.01 * 2.0**-24
ROTARIES = rotaries() | proportional()
OF_AXES = multimodal() | axial()


def options(rotary):
    blocks = rotary.num_axes if isinstance(rotary, AxialRotary) and rotary.arrangement == "blocks" else 1
    return {"layout": rotary.layout, "placement": rotary.placement, "blocks": blocks}


def rotated(rotary, x, positions):
    return rotate(x, *rotary.cos_sin(positions), **options(rotary))


def with_scaled_channels(rotary, x, by):
    """Return `x` with its rotated channels multiplied by a number; this repeats the placements independently."""
    width, rotary_dim = rotary.head_dim, rotary.rotary_channels
    channels = np.arange(width)
    is_rotated = {
        "lead": channels < rotary_dim,
        "trail": channels >= width - rotary_dim,
        "spread": channels % (width // 2) < rotary_dim // 2 if rotary.layout == "half" else channels < rotary_dim,
    }[rotary.placement]
    return np.where(is_rotated, by * x, x)


def norm(x):
    return np.linalg.norm(x, axis=-1)


def score(rotary, x, y, positions):
    """Return the product of a query and a key at two positions, or at two on each axis."""
    q, k = np.split(rotated(rotary, np.concatenate([x, y]), positions), 2)
    return (q @ k.T).item()


@given(ROTARIES | axial() | multimodal(), POSITIONS, RNGS)
def test_rotation_keeps_norms_except_for_the_attention_factor(rotary, position, rng):
    x = rng.normal(size=(1, rotary.head_dim))
    wanted = norm(with_scaled_channels(rotary, x, rotary.attention_factor))
    np.testing.assert_allclose(norm(rotated(rotary, x, [position])), wanted, rtol=UNIT)


@given(ROTARIES | axial() | multimodal(), POSITIONS, RNGS)
def test_unrotate_inverts_rotate_except_for_the_square_of_the_factor(rotary, position, rng):
    x, (cos, sin) = rng.normal(size=(1, rotary.head_dim)), rotary.cos_sin([position])
    again = unrotate(rotate(x, cos, sin, **options(rotary)), cos, sin, **options(rotary))
    wanted = with_scaled_channels(rotary, x, rotary.attention_factor**2)
    np.testing.assert_allclose(again, wanted, rtol=2 * UNIT, atol=2.0**-48 * norm(wanted).item())


@given(rotaries().filter(lambda rotary: rotary.layout != "interleaved_to_half"), POSITIONS, RNGS)
def test_the_inverse_direction_inverts_the_other(rotary, position, rng):
    there, back = (replace(rotary, direction=direction) for direction in ("forward", "inverse"))
    x = rng.normal(size=(1, rotary.head_dim))
    wanted = with_scaled_channels(rotary, x, rotary.attention_factor**2)
    again = rotated(back, rotated(there, x, [position]), [position])
    np.testing.assert_allclose(again, wanted, rtol=2 * UNIT, atol=2.0**-48 * norm(wanted).item())


@given(ROTARIES, POSITIONS, POSITIONS, DISTANCES, RNGS)
def test_scores_depend_only_on_the_distance(rotary, query, key, shift, rng):
    x, y = rng.normal(size=(2, 1, rotary.head_dim))
    here, there = (score(rotary, x, y, [query + by, key + by]) for by in (0, shift))
    tolerance = 4 * UNIT * max(rotary.attention_factor, 1) ** 2 * (norm(x) * norm(y)).item()
    assert abs(here - there) <= tolerance


@given(OF_AXES, st.data(), RNGS)
def test_scores_depend_only_on_the_distance_on_each_axis(rotary, data, rng):
    x, y = rng.normal(size=(2, 1, rotary.head_dim))
    cells = np.array(data.draw(st.tuples(*[st.tuples(POSITIONS, POSITIONS)] * rotary.num_axes)))
    shifts = np.array(data.draw(st.tuples(*[st.tuples(DISTANCES)] * rotary.num_axes)))
    here, there = score(rotary, x, y, cells), score(rotary, x, y, cells + shifts)
    assert abs(here - there) <= 4 * UNIT * (norm(x) * norm(y)).item()


@given(xpos(), st.integers(-2000, 2000), st.integers(-2000, 2000), st.integers(-2000, 2000), RNGS)
def test_scores_of_xpos_depend_only_on_the_distance_and_decay(encoding, query, key, shift, rng):
    x, y = rng.normal(size=(2, 1, encoding.head_dim))
    at = [encoding.center + query, encoding.center + key]
    here, there = (xpos_score(encoding, x, y, [p + by for p in at]) for by in (0, shift))
    fastest = max((0.4 / 1.4) ** ((query - key) / encoding.scale_base), 1)  # scores of keys after their query grow
    tolerance = 4 * UNIT * fastest * max(encoding.attention_factor, 1) ** 2 * (norm(x) * norm(y)).item()
    assert abs(here - there) <= tolerance
    assert abs(here - decayed_score(encoding, x, y, at)) <= tolerance


def xpos_score(encoding, x, y, positions):
    """Return the product of a query at the first position and a key at the second, each with its own tables."""
    rows = encoding.rows(positions)
    q = rotate(x, rows["cos"][:1], rows["sin"][:1], **options(encoding))
    k = rotate(y, rows["key_cos"][1:], rows["key_sin"][1:], **options(encoding))
    return (q @ k.T).item()


def decayed_score(encoding, x, y, positions):
    """Return the plain RoPE score with each pair multiplied by `z ** (distance / scale_base)`."""
    plain = Rotary(**{name: getattr(encoding, name) for name in ROTARY_FIELDS}, frequencies=encoding.own)
    z = (2 * np.arange(encoding.pairs) / encoding.rotary_channels + 0.4) / 1.4
    decay = z ** ((positions[0] - positions[1]) / encoding.scale_base)
    cos, sin = plain.cos_sin(positions)
    q = rotate(x, cos[:1] * decay, sin[:1] * decay, **options(encoding))
    return (q @ rotate(y, cos[1:], sin[1:], **options(encoding)).T).item()


ROTARY_FIELDS = ("head_dim", "layout", "base", "rotary_dim", "placement", "direction", "scaling")


def test_scores_of_float32_angles_depend_on_more_than_the_distance():
    rotary, x = Rotary(head_dim=64, layout="half", precision="float32"), np.ones((1, 64))
    here, there = (score(rotary, x, x, [by, by + 1]) for by in (0, FAR))
    assert abs(here - there) > 1e-2


@pytest.mark.parametrize("kind", TABLES)
@settings(max_examples=12)
@given(st.data())
def test_entries_are_correctly_rounded(kind, data):
    rotary = data.draw(TABLES[kind])
    factor, sign = expected_rope.attention_factor(rotary), -1 if rotary.direction == "inverse" else 1
    positions = np.array(data.draw(st.tuples(*[st.tuples(DISTANCES, DISTANCES)] * rotary.num_axes)))
    cos, sin = rotary.cos_sin(positions if rotary.num_axes > 1 else positions[0])
    for column, (axis, frequency) in enumerate(expected_rope.frequencies(rotary)):
        for row, position in enumerate(positions[axis].tolist()):
            true = MP.cos_sin(position * frequency)
            assert is_nearest(cos[row, column], factor * true[0])
            assert is_nearest(sin[row, column], sign * factor * true[1])
