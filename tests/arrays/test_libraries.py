"""Arrays of libraries without a backend: the standard, or array-api-compat, is all there is."""

import sys
from importlib import import_module

import numpy as np
import pytest

import posenc_core as p
from posenc_core.encodings.placed import Placed

from .formulas import UNIT, attended, rotated, slack

LIBRARIES = ("array_api_strict", "dask.array", "jax.numpy", "ndonnx", "numpy", "torch")
READERS = {"array_api_strict": np.from_dlpack, "ndonnx": lambda array: array.unwrap_numpy()}


@pytest.fixture(params=LIBRARIES)
def name(request):
    assert not {f"posenc_backends.{backend}" for backend in ("jax", "torch")} & set(sys.modules)
    return request.param


@pytest.fixture
def xp(name):
    return import_module(name)


@pytest.fixture
def read(name, xp):
    """Makes NumPy arrays of those of the library, and of no others."""

    def reader(array):
        assert isinstance(array, type(xp.asarray(np.zeros(1))))
        return READERS.get(name, np.asarray)(array)

    return reader


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_rotation_is_a_complex_multiplication(name, xp, read, rng, dtype):
    if (name, dtype) in {("array_api_strict", "float16"), ("jax.numpy", "float64")}:
        pytest.skip("The library has no such numbers by default.")
    x = rng.normal(size=(2, 3, 53, 8)).astype(dtype)
    rotary = p.Rotary(head_dim=8, layout="interleaved")
    tables = [xp.asarray(table) for table in rotary.cos_sin(range(53))]
    forward = p.rotate(xp.asarray(x), *tables, layout="interleaved")
    back = p.unrotate(forward, *tables, layout="interleaved")
    limit = 8 * UNIT * np.abs(x).max() + (np.spacing(np.abs(x).max()) if dtype == "float16" else 0)
    assert read(forward).dtype == x.dtype
    np.testing.assert_allclose(read(forward), rotated(x, np.arange(53)), rtol=0, atol=limit)
    np.testing.assert_allclose(read(back), x, rtol=0, atol=2 * limit)


def test_attention_with_a_bias_and_queries_that_see_nothing(xp, read, rng):
    q, k, v = (rng.normal(size=(2, 4, n, 8)).astype(np.float32) for n in (7, 9, 9))
    bias = rng.normal(size=(4, 7, 9)).astype(np.float32)
    visible = np.arange(9) <= np.arange(7)[:, None] - 2
    mask = p.causal(xp.asarray(np.arange(7) - 2), xp.asarray(np.arange(9)))
    result = read(p.attend(*map(xp.asarray, (q, k, v)), bias=xp.asarray(bias), mask=mask))
    assert not result[:, :, :2].any()
    np.testing.assert_array_equal(read(mask), visible)
    np.testing.assert_allclose(result, attended(q, k, v, bias, visible), rtol=0, atol=slack(q, k, v, bias))


def test_attention_with_groups_and_positions(xp, read, rng):
    q, k, v = (rng.normal(size=(2, heads, 9, 8)).astype(np.float32) for heads in (4, 2, 2))
    rotary = Placed(p.Rotary(head_dim=8, layout="interleaved"), range(9), range(9))
    result = p.attend(*map(xp.asarray, (q, k, v)), position=rotary)
    k, v = (x.repeat(2, axis=1) for x in (k, v))
    tokens = rotated(q, np.arange(9)), rotated(k, np.arange(9)), v
    np.testing.assert_allclose(read(result), attended(*tokens), rtol=0, atol=2 * slack(*tokens))


@pytest.mark.parametrize("given", ["ranges", "arrays"])
def test_attention_with_linear_biases(xp, read, rng, given):
    q, k, v = (rng.normal(size=(2, 4, n, 8)).astype(np.float32) for n in (7, 9, 9))
    where = [range(2, 9), range(9)]
    positions = where if given == "ranges" else [xp.asarray(np.asarray(each)) for each in where]
    result = p.attend(*map(xp.asarray, (q, k, v)), position=Placed(p.Alibi(num_heads=4), *positions))
    slopes = np.array([2.0**-2, 2.0**-4, 2.0**-6, 2.0**-8])[:, None, None]
    bias = -slopes * np.abs(np.arange(2, 9)[:, None] - np.arange(9))
    np.testing.assert_allclose(read(result), attended(q, k, v, bias), rtol=0, atol=slack(q, k, v, bias))


def test_attention_with_vectors_of_offsets(xp, read, rng):
    q, k, v = (rng.normal(size=(2, 4, n, 8)).astype(np.float32) for n in (7, 9, 9))
    vectors = rng.normal(size=(7, 8)).astype(np.float32)
    shaw = p.ShawBias(num_heads=4, head_dim=8, max_distance=3, applies_to="keys")
    result = p.attend(
        *map(xp.asarray, (q, k, v)), position=Placed(shaw, range(7), range(9), {"key_table": xp.asarray(vectors)})
    )
    rows = vectors[np.clip(np.arange(9) - np.arange(7)[:, None], -3, 3) + 3]
    bias = np.einsum("bhqd,qkd->bhqk", q.astype(float), rows) / np.sqrt(8)
    largest = np.einsum("bhqd,qkd->bhqk", np.abs(q), np.abs(rows)) / np.sqrt(8)
    np.testing.assert_allclose(read(result), attended(q, k, v, bias), rtol=0, atol=slack(q, k, v, largest))


def test_positions_and_masks(xp, read):
    mask = np.array([[0, 0, 1, 1, 1], [1, 1, 1, 1, 0]])
    np.testing.assert_array_equal(read(p.from_mask(xp.asarray(mask))), [[0, 0, 0, 1, 2], [0, 1, 2, 3, 0]])
    np.testing.assert_array_equal(read(p.counted_from(xp.asarray(np.array([3, 9])), 3)), [[3, 4, 5], [9, 10, 11]])
    part = p.shard(xp.asarray(np.arange(16)), 1, 2, order="zigzag")
    np.testing.assert_array_equal(read(part), [4, 5, 6, 7, 8, 9, 10, 11])
    shown = p.valid_lengths(xp.asarray(np.array([1, 3])), xp.asarray(np.arange(4)))
    np.testing.assert_array_equal(read(shown)[:, 0, 0], [[1, 0, 0, 0], [1, 1, 1, 0]])


def test_rows_are_added_to_tokens(xp, read, rng):
    x, rows = rng.normal(size=(2, 5, 4)).astype(np.float32), p.Sinusoidal(dim=4).table(range(5))
    np.testing.assert_array_equal(read(p.combine(xp.asarray(x), xp.asarray(rows), how="add")), x + rows)


def test_positions_of_any_library_that_numpy_can_read(name, xp):
    positions = xp.asarray(np.array([0, 1, 2**20]))
    if name == "ndonnx":
        with pytest.raises(TypeError, match="`positions` must be integers or real numbers, got <class 'ndonnx"):
            p.Sinusoidal(dim=4).table(positions)
        return
    table = np.asarray(p.Sinusoidal(dim=4).table(positions))
    np.testing.assert_array_equal(table, p.Sinusoidal(dim=4).table([0, 1, 2**20]), strict=True)


def test_what_is_no_array_is_named():
    with pytest.raises(TypeError, match="No array library is known for Frame; pass arrays, or import"):
        p.attend(*[Frame()] * 3)


class Frame:
    """An object with a shape, a dtype and items, of no array library."""

    shape, dtype = (1, 2, 4), np.dtype("float32")

    def __getitem__(self, index):
        """Return nothing that is an array."""
