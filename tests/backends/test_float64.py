"""Tokens of float64 meet tables of float64: golden numbers of mpmath, rounded once."""

import importlib

import mpmath
import numpy as np
import pytest

from posenc_core import Placed, RandomFourierFeatures, Rotary, rotate

NEAR, FAR = [3, 4, 5, 6], [0, 9, 70000, 2**31 - 1]
ROTARY = Rotary(head_dim=8, layout="half")


@pytest.fixture
def in_float64(on):
    """A framework that holds float64, and its layers asked for it."""
    name = on.backend.__name__.rpartition(".")[2]
    options = {"dtype": "float64"} if name == "keras" else {}
    if name == "jax" or (name == "keras" and importlib.import_module("keras").backend.backend() == "jax"):
        import jax

        with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
            yield on.backend, options
        return
    yield on.backend, options


def angles(positions):
    """The angles of `ROTARY` and of a sinusoidal encoding with 8 columns, 50 digits."""
    with mpmath.workdps(50):
        frequencies = [mpmath.power(10000, -mpmath.mpf(i) / 4) for i in range(4)]
        return [[mpmath.mpf(position) * frequency for frequency in frequencies] for position in positions]


def rounded(function, rows):
    with mpmath.workdps(50):
        return np.array([[float(function(angle)) for angle in row] for row in rows])


def exactly_rotated(x, positions):
    """Tokens rotated with 50 digits, half layout."""
    result = np.empty_like(x)
    with mpmath.workdps(50):
        for row, (token, row_angles) in enumerate(zip(x, angles(positions), strict=True)):
            for i, angle in enumerate(row_angles):
                a, b = mpmath.mpf(token[i]), mpmath.mpf(token[i + 4])
                result[row, i] = a * mpmath.cos(angle) - b * mpmath.sin(angle)
                result[row, i + 4] = b * mpmath.cos(angle) + a * mpmath.sin(angle)
    return result


@pytest.mark.parametrize("positions", [NEAR, FAR, [0.25, 1.5, -3.125, 1e-3]], ids=["near", "far", "real"])
def test_layers_rotate_tokens_of_float64_by_tables_of_float64(in_float64, positions):
    """Two products and a sum of float64 numbers are off by less than 2 ulp of the larger one, here below 4."""
    backend, options = in_float64
    x = np.random.default_rng(0).normal(size=(4, 8))
    layer = backend.RotaryEmbedding(ROTARY, **options)
    given = backend.from_numpy(x)
    rotated = layer(given, start=3) if positions is NEAR else layer(given, positions=np.array(positions))
    result = backend.to_numpy(rotated)
    assert result.dtype == np.float64
    np.testing.assert_allclose(result, exactly_rotated(x, positions), rtol=0, atol=2**-51)


@pytest.mark.parametrize("positions", [NEAR, FAR], ids=["near", "far"])
def test_layers_add_rows_of_float64_to_tokens_of_float64(in_float64, positions):
    backend, options = in_float64
    layer = backend.PositionalEncoding(8, **options)
    zeros = backend.from_numpy(np.zeros((4, 8)))
    added = layer(zeros, start=3) if positions is NEAR else layer(zeros, positions=np.array(positions))
    result = backend.to_numpy(added)
    assert np.array_equal(result[:, ::2], rounded(mpmath.sin, angles(positions)))
    assert np.array_equal(result[:, 1::2], rounded(mpmath.cos, angles(positions)))


def test_rows_of_several_axes_are_of_float64(in_float64):
    backend, options = in_float64
    encoding = RandomFourierFeatures(dim=6, scale=2, seed=1, num_axes=2)
    layer = backend.PositionalEncoding(6, encoding=encoding, **options)
    zeros = backend.from_numpy(np.zeros((3, 6)))
    for positions in (np.array([[0.5, 0.1, 3.0], [2.0, 0.0, 0.7]]), np.array([[0, 1, 2], [2, 1, 0]])):
        result = backend.to_numpy(layer(zeros, positions=positions))
        assert np.array_equal(result, encoding.table(positions, dtype=np.float64))


def test_each_batch_row_begins_at_its_own_start(in_float64):
    backend, options = in_float64
    x = np.random.default_rng(0).normal(size=(2, 4, 8))
    result = backend.to_numpy(backend.RotaryEmbedding(ROTARY, **options)(backend.from_numpy(x), start=[3, 5]))
    for row, start in enumerate((3, 5)):
        expected = exactly_rotated(x[row], range(start, start + 4))
        np.testing.assert_allclose(result[row], expected, rtol=0, atol=2**-51)


def test_placed_rotates_by_float64(in_float64):
    backend, _ = in_float64
    x = np.random.default_rng(0).normal(size=(1, 1, 4, 8))
    given = backend.from_numpy(x)
    result = backend.to_numpy(Placed(ROTARY, range(3, 7), range(3, 7)).rotate(given, given)[0])
    np.testing.assert_allclose(result[0, 0], exactly_rotated(x[0, 0], NEAR), rtol=0, atol=2**-51)


def test_float32_tokens_keep_tables_of_float32(backend, to_backend):
    layer = backend.RotaryEmbedding(ROTARY)
    x = np.random.default_rng(0).normal(size=(4, 8)).astype(np.float32)
    expected = rotate(x, *ROTARY.cos_sin(range(4)), layout="half")
    assert np.array_equal(backend.to_numpy(layer(to_backend(x))), expected)


@pytest.mark.parametrize("positions", [FAR, [0.25, 1.5]], ids=["integers", "real"])
def test_cos_sin_of_a_layer_follows_the_dtype_that_is_asked_for(in_float64, positions):
    backend, options = in_float64
    layer = backend.RotaryEmbedding(ROTARY, **options)
    for given in (positions, backend.from_numpy(np.array(positions))):
        for dtype in (np.float64, np.float32):
            cos, sin = (backend.to_numpy(table) for table in layer.cos_sin(given, dtype=dtype.__name__))
            expected_cos, expected_sin = ROTARY.cos_sin(positions, dtype=dtype)
            assert cos.dtype == dtype
            assert np.array_equal(cos, expected_cos)
            assert np.array_equal(sin, expected_sin)
