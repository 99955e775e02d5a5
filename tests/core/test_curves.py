"""Curves against formulas written anew here."""

import cmath
import math
from dataclasses import replace

import numpy as np
import pytest

from posenc_core import Alibi, AxialRotary, MixedRotary, Rotary, Sinusoidal, XPos, YaRN
from posenc_core.analysis.curves import bounds_by_distance, plain_rope, products, rows, scores_by_distance
from posenc_core.encodings import FourierFeatures, GridSinusoidal, Learned, Sine, T5Bias
from posenc_core.encodings.additive.sinusoidal import CONVENTIONS
from posenc_core.positions.grids import grid, normalized_grid

from ..errors import rejects

YARN = YaRN(factor=8, original_max_position_embeddings=64)


def frequencies(dim, base):
    return [base ** (-2 * i / dim) for i in range(dim // 2)]


def test_rows_of_a_rotary_encoding_are_rotated_unit_vectors():
    values = rows(Rotary(head_dim=6, layout="half", base=100), 40)
    wanted = [[f(p * w) for w in frequencies(6, 100) for f in (math.cos, math.sin)] for p in range(40)]
    np.testing.assert_allclose(values, wanted, atol=1e-7)


def test_rows_of_several_axes_are_those_of_a_square():
    mae = GridSinusoidal(dim=8, convention="mae")
    np.testing.assert_array_equal(rows(mae, 9), mae.table(grid(3, 3)))
    assert len(rows(mae, 1)) == 1
    np.testing.assert_array_equal(rows(mae, 7), rows(mae, 9))  # about as many
    line, plane = FourierFeatures(dim=8), FourierFeatures(dim=8, num_axes=2)
    np.testing.assert_array_equal(rows(line, 5), line.table(normalized_grid(5)[0]))
    np.testing.assert_array_equal(rows(plane, 16), plane.table(normalized_grid(4, 4)))


def test_rows_of_rotations_by_several_axes_are_those_of_a_square():
    axial = AxialRotary(head_dim=8, layout="half", axes_dims=(4, 4), base=10)
    mixed = MixedRotary(head_dim=8, layout="half", num_heads=2)  # before its random rotation
    in_turns = replace(axial, unit="turn")
    for encoding, positions in ((axial, grid(3, 3)), (mixed, grid(3, 3)), (in_turns, normalized_grid(3, 3))):
        wanted = np.stack(encoding.cos_sin(positions), axis=-1).reshape(9, -1)
        np.testing.assert_array_equal(rows(encoding, 10), wanted)


def test_rows_of_a_sequence_are_those_of_its_first_positions():
    sinusoidal = Sinusoidal(dim=4)
    np.testing.assert_array_equal(rows(sinusoidal, 5), sinusoidal.table(range(5)))


def test_pictures_have_up_to_2_to_the_20_positions():
    """The number that the docstrings promise."""
    alibi = Alibi(num_heads=1)
    assert scores_by_distance(alibi, 2**20).shape == (1, 2**20)
    with rejects(ValueError, "length", 2**20 + 1):
        scores_by_distance(alibi, 2**20 + 1)


def test_learned_encodings_have_no_rows():
    with rejects(TypeError, "encoding", "Learned(dim=4, length=9)"):
        rows(Learned(dim=4, length=9), 9)


def test_products_are_with_the_middle_row():
    table = np.array([[1, 0], [2, 3], [0, 5]], np.float32)
    assert products(table).tolist() == [2, 13, 15]


@pytest.mark.parametrize("convention", ["interleaved", "concatenated"])
def test_the_plain_rope_of_a_sinusoidal_encoding_has_its_frequencies(convention):
    rotary = plain_rope(Sinusoidal(dim=8, base=500, convention=convention))
    np.testing.assert_allclose(rotary.frequencies(), frequencies(8, 500), rtol=1e-15)


def test_the_plain_rope_of_xpos_keeps_its_options():
    rotary = plain_rope(XPos(head_dim=16, layout="half", base=500, rotary_dim=8, direction="inverse", scaling=YARN))
    assert rotary == Rotary(head_dim=16, layout="half", base=500, rotary_dim=8, direction="inverse", scaling=YARN)
    own = Rotary(head_dim=4, layout="half", frequencies=[0.5, 0.25])
    assert plain_rope(own) == own


def test_encodings_without_frequencies_on_one_axis_have_no_plain_rope():
    assert plain_rope(Alibi(num_heads=2)) is None
    assert plain_rope(GridSinusoidal(dim=8, convention="mae")) is None
    assert plain_rope(Sine(dim=3, frequencies=(2.0, 0.5, 1.0))).frequencies().tolist() == [2.0, 1.0, 0.5]


def test_scores_of_ones_are_the_mean_of_the_cosines():
    (scores,) = scores_by_distance(Rotary(head_dim=8, layout="interleaved", base=100), 50)
    wanted = [sum(math.cos(d * w) for w in frequencies(8, 100)) / 4 for d in range(50)]
    np.testing.assert_allclose(scores, wanted, atol=3e-7)


def test_scores_include_unrotated_channels_and_the_attention_factor():
    (scores,) = scores_by_distance(Rotary(head_dim=8, rotary_dim=4, layout="half"), 5)
    wanted = [(4 + 2 * sum(math.cos(d * w) for w in frequencies(4, 10000))) / 8 for d in range(5)]
    np.testing.assert_allclose(scores, wanted, atol=3e-7)
    (scores,) = scores_by_distance(Rotary(head_dim=8, layout="half", scaling=YARN), 1)
    assert scores[0] == pytest.approx((0.1 * math.log(8) + 1) ** 2, rel=1e-6)


def test_scores_of_xpos_fade():
    (scores,) = scores_by_distance(XPos(head_dim=4, layout="half", base=100, scale_base=20), 30)
    shrinking = [((i / 2) + 0.4) / 1.4 for i in range(2)]
    wanted = [
        sum(z ** (d / 20) * math.cos(d * w) for z, w in zip(shrinking, frequencies(4, 100), strict=True)) / 2
        for d in range(30)
    ]
    np.testing.assert_allclose(scores, wanted, atol=3e-7)


def test_scores_of_scoring_encodings_are_their_biases():
    scores = scores_by_distance(Alibi(num_heads=4), 5)
    np.testing.assert_array_equal(scores, -np.outer([2**-2, 2**-4, 2**-6, 2**-8], range(5)))
    with rejects(TypeError, "bias", "T5Bias(num_heads=2)"):
        scores_by_distance(T5Bias(num_heads=2), 5)


def test_bounds_are_the_means_of_sums_of_rotations():
    bounds = bounds_by_distance(Rotary(head_dim=10, layout="half", base=100), 40)
    for distance in (0, 1, 7, 39):
        rotations = [cmath.exp(1j * distance * w) for w in frequencies(10, 100)]
        sums = [abs(sum(rotations[: count + 1])) for count in range(5)]
        assert bounds[distance] == pytest.approx(sum(sums) / 5 / 3, rel=1e-6)  # (1 + 2 + 3 + 4 + 5) / 5 at distance 0


def test_columns_of_zeros_have_no_pair_in_the_plain_rope():
    assert plain_rope(Sinusoidal(dim=7, convention="tensor2tensor")).pairs == 3


@pytest.mark.parametrize("shape", [(3,), (2, 2, 2), (0, 2)])
def test_products_are_those_of_a_table_with_rows(shape):
    with rejects(ValueError, "table", str(shape)):
        products(np.ones(shape, np.float32))


@pytest.mark.parametrize("convention", CONVENTIONS)
@pytest.mark.parametrize("dim", [2, 5])
def test_rows_of_traced_positions_are_those_of_the_table(convention, dim):
    encoding, positions = Sinusoidal(dim=dim, convention=convention), np.arange(-3, 9)
    (rows,) = encoding.traced_rows(positions.astype(np.float32))
    np.testing.assert_allclose(rows, encoding.table(positions), atol=2e-6)
