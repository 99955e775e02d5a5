import json
from pathlib import Path

import numpy as np
import pytest

from posenc_core import Binary, Integer, Learned, Normalized, Sine, Sinusoidal
from posenc_core.encodings import Encoding

from ...errors import rejects

SEEDS = json.loads((Path(__file__).parents[2] / "golden" / "seeds.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("seed", [seed for seed in SEEDS if "printed" in seed], ids=lambda seed: seed["name"])
def test_the_numbers_printed_in_the_texts(seed):
    table = Encoding.from_dict(seed["encoding"]).table(seed["positions"])
    np.testing.assert_allclose(table, seed["printed"], rtol=0, atol=6e-8)


def test_the_dot_product_with_the_middle_row_is_the_cosine_of_the_offset():
    table = Sinusoidal(dim=2).table(range(9)).astype(float)
    np.testing.assert_allclose(table @ table[4], np.cos(np.arange(9) - 4.0), atol=1e-7)


@pytest.mark.parametrize("convention", ["interleaved", "concatenated", "timestep"])
def test_an_even_width_has_the_same_numbers_in_three_orders(convention):
    table = Sinusoidal(dim=6, convention=convention).table([5, 77])
    interleaved = Sinusoidal(dim=6).table([5, 77])
    order = {"interleaved": range(6), "concatenated": [0, 2, 4, 1, 3, 5], "timestep": [1, 3, 5, 0, 2, 4]}[convention]
    np.testing.assert_array_equal(table, interleaved[:, list(order)])


def test_odd_widths_end_as_their_convention_says():
    np.testing.assert_array_equal(
        Sinusoidal(dim=5, convention="concatenated").table([9]), Sinusoidal(dim=5).table([9])[:, [0, 2, 4, 1, 3]]
    )
    for convention in ("tensor2tensor", "timestep"):
        table = Sinusoidal(dim=5, convention=convention).table([9])
        np.testing.assert_array_equal(table[:, :4], Sinusoidal(dim=4, convention=convention).table([9]))
        np.testing.assert_array_equal(table[:, 4], 0)


def test_the_offset_projection_does_not_depend_on_the_row():
    table = Sinusoidal(dim=8).table(range(1000)).astype(float)
    frequencies, delta = 10000.0 ** (-np.arange(0, 8, 2) / 8), 13
    cos, sin = np.cos(delta * frequencies), np.sin(delta * frequencies)
    moved = np.stack([cos * table[:, 0::2] + sin * table[:, 1::2], cos * table[:, 1::2] - sin * table[:, 0::2]], -1)
    np.testing.assert_allclose(moved.reshape(1000, 8)[:-delta], table[delta:], atol=2e-7)


def test_the_text_with_the_column_index_starts_with_zeros():
    table = Sinusoidal(dim=6, convention="column_index").table([0, 1])
    np.testing.assert_array_equal(table[0], 0)
    assert table[1, 1] == np.float32(0.9989229760406304)


def test_a_wave_as_slow_as_float32_has():
    assert Sine(dim=150, frequencies="powers_of_two").table(range(3))[1:, -1].tolist() == [2.0**-149, 2.0**-148]


def test_one_column_by_its_index_is_a_sine_however_long():
    table = Sinusoidal(dim=1, convention="column_index").table(range(600))
    np.testing.assert_array_equal(table, Sinusoidal(dim=1).table(range(600)))


def test_real_positions():
    np.testing.assert_array_equal(Integer(dim=1).table([0.5, -2.25]), [[0.5], [-2.25]])
    np.testing.assert_array_equal(Normalized(dim=1, length=4).table([0.5]), [[0.125]])
    np.testing.assert_allclose(Sinusoidal(dim=2).table([0.5]), [[np.sin(0.5), np.cos(0.5)]], rtol=1e-7)
    with rejects(TypeError, "positions"):
        Binary(dim=3).table([0.5])


def test_wide_binary_codes():
    table = Binary(dim=100).table([5, 2**31 - 1])
    np.testing.assert_array_equal(table[0, -3:], [1, 0, 1])
    np.testing.assert_array_equal(table.sum(axis=1), [2, 31])


@pytest.mark.parametrize(
    ("encoding", "position"),
    [(Binary(dim=2), 4), (Binary(dim=2), -1), (Normalized(dim=2, length=4), 4), (Learned(dim=2, length=4), 5)],
)
def test_positions_that_have_no_row(encoding, position):
    with rejects(ValueError, "positions", position):
        encoding.table([position])
