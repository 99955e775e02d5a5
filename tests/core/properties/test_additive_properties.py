"""Rows of sines and cosines: products depend only on the distance, and one matrix maps a row to any shifted row.

The error of an entry is at most 2**-25, half an ulp of a number below 1, so that of a pair is at most `ERROR`.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posenc_core import Sinusoidal, combine

from .expected_sinusoids import MP, is_nearest, pairs_of
from .numbers import DISTANCES, POSITIONS, RNGS
from .strategies import ADDITIVE, SINUSOIDAL, sinusoids

ERROR = 1.01 * 2.0**-24.5
few = settings(max_examples=10)
each = pytest.mark.parametrize("kind", SINUSOIDAL)


@st.composite
def positions_on_axes(draw, encoding, count=1, values=POSITIONS):
    """Draw `count` positions, one number for each axis: `(count, axes)`."""
    rows = [[draw(values) for _ in range(encoding.num_axes)] for _ in range(count)]
    return np.array(rows)


def whole_pairs(encoding):
    return [pair for pair in pairs_of(encoding) if pair.cosine is not None]


def rows_of(encoding, positions):
    """Return sines and cosines of pairs at positions `(length, axes)`, float64, `(length, pairs)` each."""
    table = encoding.table(positions.T if encoding.num_axes > 1 else positions[:, 0]).astype(np.float64)
    found = whole_pairs(encoding)
    return table[:, [pair.sine for pair in found]], table[:, [pair.cosine for pair in found]]


def rotation_by(encoding, distance):
    """Return the cosines and sines that rotate the pairs by a distance on each axis."""
    both = [MP.cos_sin(pair.angle(distance.tolist())) for pair in whole_pairs(encoding)]
    return (np.array([float(entry[index]) for entry in both]) for index in (0, 1))


@each
@few
@given(st.data())
def test_products_of_rows_depend_only_on_the_distance(kind, data):
    encoding = data.draw(SINUSOIDAL[kind])
    (position,), (distance,) = (
        data.draw(positions_on_axes(encoding)),
        data.draw(positions_on_axes(encoding, values=DISTANCES)),
    )
    sin, cos = rows_of(encoding, np.stack([position, position + distance]))
    alike, _ = rotation_by(encoding, distance)
    assert abs((sin[0] * sin[1] + cos[0] * cos[1]).sum() - alike.sum()) <= 2 * ERROR * len(alike)


@each
@few
@given(st.data())
def test_one_matrix_maps_every_row_to_the_row_at_a_distance(kind, data):
    encoding = data.draw(SINUSOIDAL[kind])
    positions, (distance,) = (
        data.draw(positions_on_axes(encoding, 3)),
        data.draw(positions_on_axes(encoding, values=DISTANCES)),
    )
    (sin, cos), (sin_on, cos_on) = rows_of(encoding, positions), rows_of(encoding, positions + distance)
    alike, across = rotation_by(encoding, distance)
    np.testing.assert_allclose(sin * alike + cos * across, sin_on, rtol=0, atol=2 * ERROR)
    np.testing.assert_allclose(cos * alike - sin * across, cos_on, rtol=0, atol=2 * ERROR)


@given(st.integers(2, 12), st.floats(100, 1e6))
def test_products_of_rows_by_the_column_index_depend_on_more_than_the_distance(dim, base):
    """The two columns of a pair have different frequencies, so even the norm of a row changes."""
    rows = Sinusoidal(dim=dim, base=base, convention="column_index").table([1, 2]).astype(np.float64)
    lengths = (rows**2).sum(axis=-1)
    assert abs(lengths[0] - lengths[1]) > 1000 * ERROR * dim


@pytest.mark.parametrize("kind", [*SINUSOIDAL, "Sine"])
@few
@given(st.data())
def test_entries_are_correctly_rounded(kind, data):
    encoding = data.draw((SINUSOIDAL | ADDITIVE)[kind])
    positions = data.draw(positions_on_axes(encoding, 2, DISTANCES))
    table = encoding.table(positions.T if encoding.num_axes > 1 else positions[:, 0])
    wanted = {}
    for pair in pairs_of(encoding):
        for row, position in enumerate(positions.tolist()):
            cos, sin = MP.cos_sin(pair.angle(position))
            wanted |= {(row, pair.sine): sin, (row, pair.cosine): cos}
    for index, entry in np.ndenumerate(table):
        assert is_nearest(entry, wanted.get(index, MP.mpf(0))), index


@given(sinusoids(), st.integers(1, 7), st.integers(1, 5), st.integers(1, 6), RNGS)
def test_a_projection_of_concatenated_rows_is_the_sum_of_projections(encoding, width, outputs, length, rng):
    x, matrix = rng.normal(size=(2, length, width)), rng.normal(size=(width + encoding.dim, outputs))
    rows = encoding.table(np.arange(length))
    got = combine(x, rows, how="concat") @ matrix
    wanted = x @ matrix[:width] + rows.astype(np.float64) @ matrix[width:]
    terms = np.abs(x) @ np.abs(matrix[:width]) + np.abs(rows) @ np.abs(matrix[width:])
    assert (np.abs(got - wanted) <= 2 * len(matrix) * 2.0**-53 * terms).all()
