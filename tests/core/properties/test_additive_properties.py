"""Rows of sines and cosines: their products see only the distance, and one matrix leads from each to any other.

An entry is off by at most 2**-25, half a last place of a number below 1, and so a pair of sine and cosine by `OFF`.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posenc_core import Sinusoidal, combine

from .expected_sinusoids import MP, is_nearest, waves
from .numbers import DISTANCES, POSITIONS, RNGS
from .strategies import ADDITIVE, SINUSOIDAL, sinusoids

OFF = 1.01 * 2.0**-24.5
few = settings(max_examples=10)
each = pytest.mark.parametrize("kind", SINUSOIDAL)


@st.composite
def spots(draw, encoding, count=1, values=POSITIONS):
    """So many positions, one number for each axis: `(count, axes)`."""
    rows = [[draw(values) for _ in range(encoding.num_axes)] for _ in range(count)]
    return np.array(rows)


def pairs(encoding):
    return [wave for wave in waves(encoding) if wave.cosine is not None]


def rows_of(encoding, positions):
    """Sines and cosines of pairs at positions `(length, axes)`, float64, `(length, pairs)` each."""
    table = encoding.table(positions.T if encoding.num_axes > 1 else positions[:, 0]).astype(np.float64)
    found = pairs(encoding)
    return table[:, [wave.sine for wave in found]], table[:, [wave.cosine for wave in found]]


def turn(encoding, distance):
    """Cosine and sine by which one step of a distance on each axis turns the pairs."""
    both = [MP.cos_sin(wave.angle(distance.tolist())) for wave in pairs(encoding)]
    return (np.array([float(pair[kind]) for pair in both]) for kind in (0, 1))


@each
@few
@given(st.data())
def test_products_of_rows_see_only_the_distance(kind, data):
    encoding = data.draw(SINUSOIDAL[kind])
    (position,), (distance,) = data.draw(spots(encoding)), data.draw(spots(encoding, values=DISTANCES))
    sin, cos = rows_of(encoding, np.stack([position, position + distance]))
    alike, _ = turn(encoding, distance)
    assert abs((sin[0] * sin[1] + cos[0] * cos[1]).sum() - alike.sum()) <= 2 * OFF * len(alike)


@each
@few
@given(st.data())
def test_one_matrix_leads_from_every_row_to_the_one_so_far_on(kind, data):
    encoding = data.draw(SINUSOIDAL[kind])
    positions, (distance,) = data.draw(spots(encoding, 3)), data.draw(spots(encoding, values=DISTANCES))
    (sin, cos), (sin_on, cos_on) = rows_of(encoding, positions), rows_of(encoding, positions + distance)
    alike, across = turn(encoding, distance)
    np.testing.assert_allclose(sin * alike + cos * across, sin_on, rtol=0, atol=2 * OFF)
    np.testing.assert_allclose(cos * alike - sin * across, cos_on, rtol=0, atol=2 * OFF)


@given(st.integers(2, 12), st.floats(100, 1e6))
def test_products_of_rows_by_the_column_index_see_more_than_the_distance(dim, base):
    """Columns two by two have different frequencies, so that not even the length of a row stays."""
    rows = Sinusoidal(dim=dim, base=base, convention="column_index").table([1, 2]).astype(np.float64)
    lengths = (rows**2).sum(axis=-1)
    assert abs(lengths[0] - lengths[1]) > 1000 * OFF * dim


@pytest.mark.parametrize("kind", [*SINUSOIDAL, "Sine"])
@few
@given(st.data())
def test_entries_are_off_by_half_a_last_place_at_most(kind, data):
    encoding = data.draw((SINUSOIDAL | ADDITIVE)[kind])
    positions = data.draw(spots(encoding, 2, DISTANCES))
    table = encoding.table(positions.T if encoding.num_axes > 1 else positions[:, 0])
    wanted = {}
    for wave in waves(encoding):
        for row, position in enumerate(positions.tolist()):
            cos, sin = MP.cos_sin(wave.angle(position))
            wanted |= {(row, wave.sine): sin, (row, wave.cosine): cos}
    for place, golden_case in np.ndenumerate(table):
        assert is_nearest(golden_case, wanted.get(place, MP.mpf(0))), place


@given(sinusoids(), st.integers(1, 7), st.integers(1, 5), st.integers(1, 6), RNGS)
def test_a_projection_of_tokens_and_rows_is_the_sum_of_their_projections(encoding, width, outputs, length, rng):
    x, matrix = rng.normal(size=(2, length, width)), rng.normal(size=(width + encoding.dim, outputs))
    rows = encoding.table(np.arange(length))
    got = combine(x, rows, how="concat") @ matrix
    wanted = x @ matrix[:width] + rows.astype(np.float64) @ matrix[width:]
    terms = np.abs(x) @ np.abs(matrix[:width]) + np.abs(rows) @ np.abs(matrix[width:])
    assert (np.abs(got - wanted) <= 2 * len(matrix) * 2.0**-53 * terms).all()
