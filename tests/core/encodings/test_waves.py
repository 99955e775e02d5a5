"""Sines and cosines of grids, coordinates and times, beyond the golden numbers: how settings relate to each other."""

import random
from dataclasses import replace

import mpmath as mp
import numpy as np
import pytest

from posenc_core import (
    FourierFeatures,
    GridSinusoidal,
    Learned,
    Normalized,
    RandomFourierFeatures,
    Rotary,
    Sine,
    Sinusoidal,
    Timestep,
    XPos,
    grid,
)
from posenc_core.encodings.notation import parse

from ...errors import rejects

CELLS = grid(3, 4)
LONG = np.array([0, 1, 7, 2**20, 2**31 - 1, -5])


def test_timesteps_have_two_of_the_sinusoidal_conventions():
    for dim in (2, 5, 12):
        for convention, settings in (("tensor2tensor", {"shift": 1}), ("timestep", {"order": "cos_first"})):
            table = Sinusoidal(dim=dim, convention=convention).table(LONG)
            np.testing.assert_array_equal(Timestep(dim=dim, **settings).table(LONG), table)


def test_a_single_frequency_is_the_scale_and_never_no_number():
    for shift in (1, 0, -3):
        table = Timestep(dim=2, shift=shift, scale=2.0).table([0, 3])
        np.testing.assert_array_equal(table, [[0, 1], [np.float32(mp.sin(6)), np.float32(mp.cos(6))]])


def test_the_scale_of_a_timestep_multiplies_the_times():
    times = np.array([0.5, 3.0, 999.0])
    np.testing.assert_array_equal(Timestep(dim=9, scale=8).table(times), Timestep(dim=9).table(8 * times))


def test_tatp22_with_one_axis_is_the_plain_sinusoid():
    one = GridSinusoidal(dim=7, convention="tatp22", num_axes=1)
    np.testing.assert_array_equal(one.table(LONG), Sinusoidal(dim=8).table(LONG)[:, :7])


def test_the_conventions_of_grids_are_orders_of_the_same_columns():
    height, width = (Sinusoidal(dim=6, convention="concatenated").table(axis) for axis in CELLS)
    sin, cos = slice(3), slice(3, None)
    for convention, parts in {
        "timm": (height[:, sin], width[:, sin], height[:, cos], width[:, cos]),
        "timm_interleaved": (height, width),
        "mae": (width, height),
        "tatp22": (height[:, [0, 3, 1, 4, 2, 5]], width[:, [0, 3, 1, 4, 2, 5]]),
    }.items():
        table = GridSinusoidal(dim=12, convention=convention).table(CELLS)
        np.testing.assert_array_equal(table, np.concatenate(parts, axis=1))


def test_videos_spend_a_quarter_on_time():
    positions = grid(2, 3, 4)
    time = Sinusoidal(dim=8, convention="concatenated").table(positions[0])
    height, width = (Sinusoidal(dim=12, convention="concatenated").table(axis) for axis in positions[1:])
    table = GridSinusoidal(dim=32, convention="diffusers", num_axes=3).table(positions)
    np.testing.assert_array_equal(table, np.concatenate([time, width, height], axis=1))


def test_one_line_of_positions_stands_for_all_axes():
    encoding = GridSinusoidal(dim=8, convention="timm")
    np.testing.assert_array_equal(encoding.table(LONG), encoding.table([LONG, LONG]))
    batch = np.stack([CELLS, CELLS + 1], axis=1)
    np.testing.assert_array_equal(encoding.table(batch)[1], encoding.table(CELLS + 1))


def test_fourier_features_double():
    table = FourierFeatures(dim=8).table([0.125]).astype(float)
    np.testing.assert_allclose(table[0, 0::2], np.sin(np.pi * np.array([1, 2, 4, 8]) / 8), rtol=0, atol=2.0**-24)
    np.testing.assert_array_equal(FourierFeatures(dim=8).table([0, 0.125])[:, -2:], [[0, 1], [0, -1]])
    code = FourierFeatures(dim=12, num_axes=3, convention="code").table([[0.3], [0.0], [-0.1]])
    np.testing.assert_allclose(code[0, :3], np.sin([0.3, 0, -0.1]), rtol=2.0**-23)
    np.testing.assert_allclose(code[0, 9:], np.cos([0.6, 0, -0.2]), rtol=2.0**-23)


def test_random_features_are_drawn_for_good():
    """The stream that the authors of the Mersenne twister publish, and numbers of it that never may change."""
    state = [7]
    for i in range(1, 624):
        state.append((1812433253 * (state[-1] ^ (state[-1] >> 30)) + i) % 2**32)
    twister = random.Random()
    twister.setstate((3, (*state, 624), None))
    with mp.workdps(50):
        drawn = [
            mp.sqrt(-2 * mp.log(1 - mp.mpf(twister.random()))) * mp.cos(2 * mp.pi * mp.mpf(twister.random()))
            for _ in range(6)
        ]
        wanted = [float(3 * number) for number in drawn]
    encoding = RandomFourierFeatures(dim=6, scale=3.0, seed=7, num_axes=2)
    np.testing.assert_array_equal(encoding.mixture().ravel(), wanted)
    np.testing.assert_array_equal(
        encoding.mixture()[:2], RandomFourierFeatures(dim=4, scale=3, seed=7, num_axes=2).mixture()
    )
    assert not np.array_equal(encoding.mixture(), RandomFourierFeatures(dim=6, scale=3.0, seed=8, num_axes=2).mixture())


def test_random_features_are_normal():
    drawn = RandomFourierFeatures(dim=2000, scale=10.0, seed=0).mixture()[:, 0] / 10
    assert abs(drawn.mean()) < 4 / np.sqrt(1000)
    assert abs(drawn.var() - 1) < 4 * np.sqrt(2 / 1000)
    assert 0.63 < np.mean(np.abs(drawn) < 1) < 0.74  # 0.6827, by four standard deviations either way


def test_products_of_random_features_depend_on_the_difference_alone():
    encoding = RandomFourierFeatures(dim=512, scale=0.3, seed=0, num_axes=3)
    p, q, moved = np.random.default_rng(0).normal(size=(3, 3, 5))
    plain = encoding.table(p).astype(float) @ encoding.table(q).astype(float).T
    apart = encoding.table(p + moved[:, :1]).astype(float) @ encoding.table(q + moved[:, :1]).astype(float).T
    np.testing.assert_allclose(plain, apart, rtol=0, atol=256 * 2.0**-22)


@pytest.mark.parametrize(
    "encoding",
    [
        Sine(dim=3, frequencies=(1.0, 0.5, 0.0)),
        Sinusoidal(dim=5),
        Timestep(dim=7, shift=0.5, scale=3),
        RandomFourierFeatures(dim=4, scale=0.3, seed=0),
        GridSinusoidal(dim=8, convention="mae"),
        Normalized(dim=2, length=2000),
        Rotary(head_dim=8, layout="half", direction="inverse"),
    ],
    ids=repr,
)
def test_derivatives_are_what_differences_tend_to(encoding):
    positions, step = np.array([0.25, 17.5, 1234.5]), 2.0**-12
    slopes = encoding.derivatives(positions)
    assert slopes.keys() == encoding.rows(positions).keys()
    for name, slope in slopes.items():
        ahead, behind = (encoding.rows(positions + s)[name].astype(float) for s in (step, -step))
        np.testing.assert_allclose(slope, (ahead - behind) / (2 * step), rtol=0, atol=2.0**-11 + 10 * step**2)


def test_digits_learned_rows_and_fading_rotations_have_no_derivatives():
    for encoding in (Learned(dim=2, length=3), XPos(head_dim=4, layout="half")):
        assert encoding.derivatives(np.array([1.0])) == {}


def test_the_highest_frequencies_are_exact_too():
    """2**63 π, at a real position: 64 bits of the angle are whole turns."""
    table = FourierFeatures(dim=128).table([0.1])
    with mp.workdps(60):
        turned = [mp.mpf(0.1) * 2**k for k in range(64)]
        np.testing.assert_array_equal(table[0, 0::2], [np.float32(float(mp.sinpi(half))) for half in turned])
        np.testing.assert_array_equal(table[0, 1::2], [np.float32(float(mp.cospi(half))) for half in turned])


def test_random_features_take_the_matrix_of_a_checkpoint():
    drawn = RandomFourierFeatures(dim=4, scale=1.0, seed=0, num_axes=2)
    given = RandomFourierFeatures(dim=4, mixture=drawn.mixture(), num_axes=2)
    points = [[0.1, 0.5, -1], [0.2, 0.3, 1]]
    np.testing.assert_array_equal(given.table(points), drawn.table(points))
    assert given == parse(repr(given)) == RandomFourierFeatures.from_dict(given.to_dict()) == replace(given)
    sam = replace(given, order="sin_first")
    np.testing.assert_array_equal(sam.table(points), np.roll(given.table(points), 2, axis=-1))
    for mixture, words in (
        ([[0.5, 1.0]], ("(2, 2)", "(1, 2)")),
        ([["a", "b"]] * 2, ("real numbers",)),
        ([[1.0], [1.0, 2.0]], ("equal rows",)),
    ):
        with rejects((TypeError, ValueError), "mixture", *words):
            RandomFourierFeatures(dim=4, mixture=mixture, num_axes=2)
