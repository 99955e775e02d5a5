"""Rows of real positions: as frameworks compute them, their derivatives and their angular frequencies."""

import numpy as np
import pytest

import posenc_core as p

CONVENTIONS = ("interleaved", "concatenated", "tensor2tensor", "timestep", "column_index")
ROTARY = {"head_dim": 12, "layout": "half", "base": 50}
SCALED = p.YaRN(factor=4.0, original_max_position_embeddings=8)
SMOOTH = [
    p.Integer(dim=3),
    p.Normalized(dim=3, length=9),
    p.Sine(dim=3, frequencies=(0.5, 0.25, 0.125)),
    p.Sine(dim=6, frequencies="powers_of_two"),
    *(p.Sinusoidal(dim=7, base=50, convention=each) for each in CONVENTIONS),
    p.Timestep(dim=6, shift=1.0, scale=0.5),
    p.Timestep(dim=6, order="sin_first"),
    p.GridSinusoidal(dim=8, convention="timm", base=50),
    p.FourierFeatures(dim=6),
    p.FourierFeatures(dim=8, num_axes=2, convention="code"),
    p.RandomFourierFeatures(dim=6, scale=0.2, seed=0),
    p.RandomFourierFeatures(dim=6, scale=0.2, seed=1, order="sin_first"),
    p.LearnedSinusoidal(dim=6, base=50),
    p.Rotary(**ROTARY),
    p.Rotary(**ROTARY, scaling=p.Linear(factor=3.0)),
    p.Rotary(**ROTARY, scaling=SCALED, direction="inverse"),
    p.LearnedRotary(**ROTARY, direction="inverse"),
    p.MixedRotary(**ROTARY, num_heads=2),
    p.MultimodalRotary(**ROTARY, sections=(1, 2, 3)),
    p.AxialRotary(**ROTARY, axes_dims=(4, 8)),
    p.FoPE(**ROTARY, num_terms=3),
    p.PoPE(head_dim=5, num_heads=2, base=50),
]
IN_FRAMEWORKS = [encoding for encoding in SMOOTH if not isinstance(encoding, p.MixedRotary)]
POSITIONS = np.array([[0.5, 1.25, 3.0], [2.75, 0.25, 6.5]])
STEP = 2.0**-10


@pytest.mark.parametrize("encoding", IN_FRAMEWORKS, ids=repr)
@pytest.mark.parametrize(("dtype", "error"), [(np.float32, 1e-5), (np.float64, 1e-6)])
def test_rows_of_traced_positions_are_those_of_known_ones(encoding, dtype, error):
    found = encoding.traced_rows(POSITIONS.astype(dtype))
    for rows, expected in zip(found, encoding.rows(POSITIONS).values(), strict=True):
        assert rows.dtype == dtype
        np.testing.assert_allclose(rows, expected, rtol=error, atol=error)


@pytest.mark.parametrize("convention", ["interleaved", "concatenated"])
def test_learned_frequencies_are_multiplied_by_the_exponential_of_alpha(convention):
    encoding = p.LearnedSinusoidal(dim=4, base=50, convention=convention)
    alpha = np.array([0.5, -0.25])
    (found,) = encoding.rows_of(encoding.constants(8) | {"alpha": alpha}, POSITIONS)
    radians = POSITIONS[..., np.newaxis] * np.array([1, 50**-0.5]) * np.exp(alpha)
    pairs = np.stack((np.sin(radians), np.cos(radians)), axis=-1 if convention == "interleaved" else -2)
    np.testing.assert_allclose(found, pairs.reshape(*POSITIONS.shape, 4), rtol=0, atol=1e-5)


@pytest.mark.parametrize("encoding", SMOOTH, ids=repr)
def test_derivatives_are_the_slopes_of_rows(encoding):
    """A central difference of rows in float64 is off by the third derivative times 1e-7."""
    before, after = (encoding.rows(POSITIONS + step, np.float64) for step in (-STEP, STEP))
    found = encoding.derivatives(POSITIONS)
    assert found.keys() == before.keys()
    for name, slopes in found.items():
        assert slopes.dtype == np.float32
        np.testing.assert_allclose(slopes, (after[name] - before[name]) / (2 * STEP), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("encoding", SMOOTH, ids=repr)
def test_angular_frequencies_are_those_of_the_columns(encoding):
    """The second derivative of a sine is minus the sine, times its frequency twice; other slopes are constant."""
    rows = encoding.rows(POSITIONS, np.float64)
    before, after = (encoding.rows(POSITIONS + step, np.float64) for step in (-STEP, STEP))
    frequencies = encoding.angular_frequencies()
    for name, table in rows.items():
        bent = (after[name] - 2 * table + before[name]) / STEP**2
        np.testing.assert_allclose(bent, -(frequencies**2) * table, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("order", ["cos_first", "sin_first"])
@pytest.mark.parametrize("axes", [2, 3])
def test_mixed_axes_have_a_row_a_slope_and_a_frequency_each(axes, order):
    encoding = p.RandomFourierFeatures(dim=8, scale=0.2, seed=3, num_axes=axes, order=order)
    positions = np.random.default_rng(axes).uniform(-3, 3, size=(axes, 2, 5))
    (expected,) = encoding.rows(positions, np.float64).values()
    (traced,) = encoding.traced_rows(*positions)
    np.testing.assert_allclose(traced, expected, atol=1e-12)
    (slopes,), frequencies = encoding.derivatives(positions).values(), encoding.angular_frequencies()
    assert slopes.shape == (axes, 2, 5, 8)
    assert frequencies.shape == (axes, 8)
    for axis in range(axes):
        step = STEP * np.eye(axes)[axis][:, None, None]
        before, after = (encoding.rows(positions + one, np.float64)["table"] for one in (-step, step))
        np.testing.assert_allclose(slopes[axis], (after - before) / (2 * STEP), atol=1e-4)
        bent = (after - 2 * expected + before) / STEP**2
        np.testing.assert_allclose(bent, -(frequencies[axis] ** 2) * expected, atol=1e-4)


@pytest.mark.parametrize("axes", [2, 3])
@pytest.mark.parametrize("sizes", [(5,), (1, 5), (4, 5)])
def test_mixed_axes_need_positions_on_each(axes, sizes):
    encoding = p.RandomFourierFeatures(dim=8, scale=0.2, seed=3, num_axes=axes)
    with pytest.raises(ValueError, match=rf"`positions` must have shape \({axes}, \.\.\., length\), got"):
        encoding.rows(np.zeros(sizes))
