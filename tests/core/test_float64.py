"""Tables of float64 are rounded once, and round once more to those of float32 but for double rounding."""

from decimal import Decimal

import mpmath
import numpy as np
import pytest

from posenc_core import FourierFeatures, Integer, Normalized, RandomFourierFeatures, Rotary, Sinusoidal, XPos
from posenc_core.attention.bias import alibi_slopes
from posenc_core.tables import cos_sin, write_derivatives
from posenc_core.tables.frequencies import geometric
from posenc_core.tables.sincos import cos_sin_of_float32, write_cos_sin


@pytest.mark.parametrize(
    "positions",
    [[*range(40)], [0, -1, -5, 2**20, 2**31 - 1, -(2**31) + 1], [0.25, -1e-3, 12345.678, 2.0**30 + 0.5]],
    ids=["split into parts", "scattered", "real"],
)
def test_every_entry_is_the_nearest_float64(positions):
    cos, sin = cos_sin(np.array(positions), geometric(8), dtype=np.float64)
    with mpmath.workdps(50):
        for row, position in enumerate(positions):
            for column in range(4):
                angle = mpmath.mpf(position) * mpmath.power(10000, -mpmath.mpf(column) / 4)
                assert cos[row, column] == float(mpmath.cos(angle))
                assert sin[row, column] == float(mpmath.sin(angle))


def test_xpos_of_float64():
    encoding = XPos(head_dim=4, layout="half", scale_base=16)
    tables = encoding.rows(np.arange(20), np.float64)
    with mpmath.workdps(50):
        for position in range(20):
            for pair in range(2):
                scale = ((mpmath.mpf(pair) / 2 + mpmath.mpf("0.4")) / mpmath.mpf("1.4")) ** (mpmath.mpf(position) / 16)
                cos = mpmath.cos(position * mpmath.power(10000, -mpmath.mpf(pair) / 2))
                assert tables["cos"][position, pair] == float(cos * scale)
                assert tables["key_cos"][position, pair] == float(cos / scale)


@pytest.mark.parametrize(
    "encoding",
    [
        Sinusoidal(dim=7),
        Sinusoidal(dim=7, convention="tensor2tensor"),
        Sinusoidal(dim=6, convention="column_index"),
        FourierFeatures(dim=6),
        RandomFourierFeatures(dim=6, scale=2, seed=1),
        Integer(dim=2),
        Normalized(dim=2, length=40),
    ],
    ids=repr,
)
def test_additive_tables_of_float64_lie_beside_those_of_float32(encoding):
    wide, narrow = encoding.table(range(40), dtype=np.float64), encoding.table(range(40))
    assert wide.dtype == np.float64
    assert narrow.dtype == np.float32
    np.testing.assert_allclose(wide, narrow, rtol=2**-24, atol=0)


def test_precision_float32_rounds_angles_alone():
    encoding = Rotary(head_dim=4, layout="half", precision="float32")
    _, sin = encoding.cos_sin([12345], dtype="float64")
    angle = np.float32(12345) * np.float32(0.01)
    with mpmath.workdps(50):
        assert sin[0, 1] == float(mpmath.sin(mpmath.mpf(float(angle))))


def test_derivatives_of_float64():
    of_sin, of_cos = np.empty((2, 1, 2))
    write_derivatives(np.array([1]), geometric(4), sin=of_sin, cos=of_cos)
    with mpmath.workdps(50):
        rate = mpmath.mpf("0.01")
        assert of_sin[0].tolist() == [float(mpmath.cos(1)), float(rate * mpmath.cos(rate))]
        assert of_cos[0].tolist() == [float(-mpmath.sin(1)), float(-rate * mpmath.sin(rate))]


def test_the_derivatives_of_rows_of_column_indices():
    """Row 0 is zero at every column, as nothing is added there; column j has the frequency 100 ** (-2j / 4)."""
    rates, positions = 100.0 ** (-2 * np.arange(4) / 4), np.array([0, 1, 130])
    angles = positions[:, None] * rates
    wanted = np.where(np.arange(4) % 2, -rates * np.sin(angles), rates * np.cos(angles))
    encoding = Sinusoidal(dim=4, base=100, convention="column_index")
    found = encoding.derivatives(positions)["table"]
    np.testing.assert_allclose(found, np.where(positions[:, None] == 0, 0, wanted), rtol=0, atol=2.0**-24)


@pytest.mark.parametrize("dtype", [np.float16, "bfloat16", int, None, np.complex128])
def test_other_dtypes_of_tables_are_refused(dtype):
    with pytest.raises(TypeError, match="`dtype`"):
        Rotary(head_dim=4, layout="half").cos_sin([1], dtype=dtype)
    with pytest.raises(TypeError, match="`dtype`"):
        Sinusoidal(dim=4).table([1], dtype=dtype)


def test_one_table_may_be_written_alone():
    """In float64 as in float32; the other is None."""
    positions, frequencies = np.arange(5), geometric(6)
    for dtype in (np.float32, np.float64):
        wanted = cos_sin(positions, frequencies, dtype=dtype)
        for index, name in enumerate(("cos", "sin")):
            found = np.empty((5, 3), dtype)
            write_cos_sin(positions, frequencies, **{name: found})
            np.testing.assert_array_equal(found, wanted[index])


TIE = 1 + Decimal(2) ** -24  # between two float32 numbers, of which 1 is even


def test_numbers_between_two_of_float32_are_rounded_to_even():
    """Known numbers have no error that could leave two answers."""
    positions = np.array([0, 1])
    exact, given = (cos_sin_of_float32(positions, (frequency,)) for frequency in (Decimal(1), TIE))
    np.testing.assert_array_equal(given, exact)
    cos, sin = cos_sin(positions, (Decimal(1),), factor=TIE)
    assert (cos[0, 0], sin[0, 0]) == (1, 0)
    assert cos_sin(positions, (Decimal(1),), factor=TIE + Decimal(2) ** -23)[0][0, 0] == np.float32(1 + 2.0**-22)
    np.testing.assert_array_equal(alibi_slopes(1, max_bias=149), np.float32([2.0**-149]))
    np.testing.assert_array_equal(alibi_slopes(1, max_bias=150), [0])
