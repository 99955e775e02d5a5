"""The compiled library on bare memory, at every level of this processor: bits, rounding, strides, no fused products."""

import os
import re
import shutil
import subprocess
from itertools import product

import numpy as np
import pytest

from posenc_backends._kernels import library
from posenc_backends._kernels.adapter import NORM
from posenc_backends._kernels.plan import plan_of
from posenc_core.normalization import Norm, normalize_and_rotate_reference
from posenc_core.rotation import pairing_of, rotate_reference

if os.environ.get(library.VARIABLE) == "off":
    pytest.skip("The kernel is switched off.", allow_module_level=True)
assert library.LIBRARY is not None, "The tests need the compiled kernel: `python hatch_build.py`."
CHOSEN = library.LIBRARY.posenc_level()
BEST = library.LIBRARY.posenc_choose_level(len(library.LEVELS))
library.LIBRARY.posenc_choose_level(CHOSEN)
STORED = {"float64": np.float64, "float32": np.float32, "bfloat16": np.uint16, "float16": np.float16}
HALF_PRECISION = ("bfloat16", "float16")
PAIRINGS = [
    *(
        pairing_of(layout, placement, blocks)
        for layout, placement, blocks in product(
            ("half", "interleaved", "interleaved_to_half"), ("lead", "trail"), (1, 2)
        )
    ),
    *(pairing_of(layout, "spread") for layout in ("half", "interleaved")),
]
PAIRINGS += [pairing.inverse for pairing in PAIRINGS if pairing.inverse not in PAIRINGS]
SPECIAL = [np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-42, -6e-8, 3e-5, 65519.0, 65520.0, 3.3e38, 1e-45]
RNG = np.random.default_rng(5)


def in_step_of_two(x):
    return np.repeat(x, 2, -1)[..., ::2]


def channels_first(x):
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(x, -1, 0)), 0, -1)


def backwards(x):
    return x[::-1, ::-1, ::-1, ::-1].copy()[::-1, ::-1, ::-1, ::-1]


def heads_last(x):
    return x.swapaxes(1, 2).copy().swapaxes(1, 2)


def at_an_odd_address(x):
    memory = np.zeros(x.nbytes + 1, np.uint8)
    moved = memory[1:].view(x.dtype).reshape(x.shape)
    moved[...] = x
    return moved


ARRANGED = [np.ascontiguousarray, in_step_of_two, channels_first, backwards, heads_last, at_an_odd_address]


@pytest.fixture(params=library.LEVELS[: BEST + 1])
def level(request):
    library.LIBRARY.posenc_choose_level(library.LEVELS.index(request.param))
    assert library.level() == request.param
    yield request.param
    library.LIBRARY.posenc_choose_level(CHOSEN)


@pytest.fixture(params=STORED)
def dtype(request):
    return request.param


def stored(dtype, numbers):
    """Return float32 or float64 numbers rounded once to the dtype, bfloat16 as its bits."""
    with np.errstate(all="ignore"):
        if dtype != "bfloat16":
            return numbers.astype(STORED[dtype])
        bits = numbers.astype(np.float32).view(np.uint32).astype(np.uint64)
    rounded = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(numbers), np.uint16(0x7FC0), rounded)


def widened(dtype, numbers):
    if dtype == "bfloat16":
        return (numbers.astype(np.uint32) << 16).view(np.float32)
    return numbers if dtype == "float64" else numbers.astype(np.float32)


def strided(array):
    return array.shape, tuple(stride // array.itemsize for stride in array.strides)


def rotated(dtype, x, cos, sin, pairing, out):
    """Rotate by the library, into `out`."""
    plan = plan_of(dtype, strided(x), strided(out)[1], strided(cos), strided(sin), pairing)
    library.LIBRARY.posenc_rotate(plan.address, *(array.ctypes.data for array in (x, out, cos, sin)))
    return out


def expected(dtype, x, cos, sin, pairing):
    with np.errstate(all="ignore"):
        return stored(dtype, rotate_reference(np.ascontiguousarray(widened(dtype, x)), cos, sin, pairing))


def tables_of(dtype, *shape):
    return RNG.normal(size=(2, *shape)).astype(np.float64 if dtype == "float64" else np.float32)


def tokens(dtype, *shape):
    numbers = RNG.normal(size=shape)
    numbers.reshape(-1)[::7] = np.resize(SPECIAL, numbers.reshape(-1)[::7].shape)
    return stored(dtype, numbers.astype(np.float64 if dtype == "float64" else np.float32))


def assert_same_bits(dtype, found, wanted):
    nan = np.isnan(widened(dtype, wanted))
    np.testing.assert_array_equal(np.isnan(widened(dtype, found)), nan)
    bits = f"u{found.itemsize}"
    np.testing.assert_array_equal(
        np.ascontiguousarray(found).view(bits)[~nan], np.ascontiguousarray(wanted).view(bits)[~nan]
    )


@pytest.mark.parametrize("pairing", PAIRINGS, ids=str)
@pytest.mark.parametrize("pairs", [2, 6, 32, 44])
def test_bits_are_those_of_the_formula(level, dtype, pairing, pairs):
    for width in (2 * pairs, 2 * pairs + 3):
        x, (cos, sin) = tokens(dtype, 2, 3, 5, width), tables_of(dtype, 5, pairs)
        wanted = expected(dtype, x, cos, sin, pairing)
        assert_same_bits(dtype, rotated(dtype, x, cos, sin, pairing, np.zeros_like(x)), wanted)
        if pairing.split == pairing.join:
            assert_same_bits(dtype, rotated(dtype, x, cos, sin, pairing, x), wanted)


@pytest.mark.parametrize("arranged", ARRANGED)
@pytest.mark.parametrize("layout", ["half", "interleaved", "interleaved_to_half"])
def test_arrays_lie_in_memory_as_they_like(level, dtype, layout, arranged):
    pairing, x, tables = pairing_of(layout), tokens(dtype, 2, 3, 5, 41), tables_of(dtype, 2, 3, 5, 19)
    wanted = expected(dtype, x, *tables, pairing)
    for given, out in ((arranged(x), np.zeros_like(x)), (x, arranged(np.zeros_like(x)))):
        assert_same_bits(dtype, rotated(dtype, given, *tables, pairing, out), wanted)
    cos, sin = map(arranged, tables)
    assert_same_bits(dtype, rotated(dtype, arranged(x), cos, sin, pairing, arranged(np.zeros_like(x))), wanted)


def test_nothing_else_is_written(level, dtype):
    for layout, pairs in product(("half", "interleaved", "interleaved_to_half"), (1, 3, 8, 13)):
        (cos, sin), memory = tables_of(dtype, 5, pairs), tokens(dtype, 5, 2 * pairs + 40)
        x, before = tokens(dtype, 5, 2 * pairs), memory.copy()
        rotated(dtype, x, cos, sin, pairing_of(layout), memory[:, 20:-20])
        for untouched in (np.s_[:, :20], np.s_[:, -20:]):
            assert memory[untouched].tobytes() == before[untouched].tobytes()


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_large_arrays(level, dtype, layout):
    x = stored(dtype, RNG.normal(size=(16 << 20) // (np.dtype(STORED[dtype]).itemsize * 33 * 128) * 33 * 128))
    x, tables, pairing = x.reshape(-1, 33, 128), tables_of(dtype, 33, 64), pairing_of(layout)
    wanted = expected(dtype, x, *tables, pairing)
    assert_same_bits(dtype, rotated(dtype, x, *tables, pairing, np.zeros_like(x)), wanted)


@pytest.mark.parametrize("dtype", HALF_PRECISION)
@pytest.mark.parametrize("layout", ["half", "interleaved", "interleaved_to_half"])
def test_all_numbers_of_16_bits_are_read_and_written_exactly(level, dtype, layout):
    pairing, one, zero = pairing_of(layout), np.ones((1, 64), np.float32), np.zeros((1, 64), np.float32)
    every = np.arange(1 << 16, dtype=np.uint16).view(STORED[dtype]).reshape(-1, 64)
    x = np.zeros((len(every), 128), STORED[dtype])
    x[np.s_[:, :64] if pairing.split == "half" else np.s_[:, ::2]] = every
    found = rotated(dtype, x, one, zero, pairing, np.zeros_like(x))
    assert_same_bits(dtype, found[np.s_[:, :64] if pairing.join == "half" else np.s_[:, ::2]], every)
    assert_same_bits(dtype, found, expected(dtype, x, one, zero, pairing))


@pytest.mark.parametrize("dtype", HALF_PRECISION)
@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize("sign", [1, -1])
def test_results_between_two_numbers_of_16_bits_are_rounded_to_the_nearest(level, dtype, layout, sign):
    infinity = {"bfloat16": 0x7F80, "float16": 0x7C00}[dtype]
    below = np.arange(infinity, dtype=np.uint16)
    exact = widened(dtype, below.view(STORED[dtype])).astype(np.float64)
    above = np.append(exact[1:], 2 * exact[-1] - exact[-2])
    middle = ((exact + above) / 2).astype(np.float32)
    for table, wanted in (
        (np.nextafter(middle, np.float32(0)), below),
        (middle, below + below % 2),
        (np.nextafter(middle, np.float32(np.inf)), below + 1),
    ):
        cos = np.float32(sign) * table.reshape(-1, 64)
        x = np.zeros((len(cos), 128), STORED[dtype])
        first = np.s_[:, :64] if layout == "half" else np.s_[:, ::2]
        x[first] = stored(dtype, np.ones(1))
        found = rotated(dtype, x, cos, np.zeros_like(cos), pairing_of(layout), np.zeros_like(x))[first]
        np.testing.assert_array_equal(found.view(np.uint16) & 0x7FFF, wanted.reshape(-1, 64))
        np.testing.assert_array_equal(found.view(np.uint16) >> 15, int(sign < 0))


@pytest.mark.parametrize("payload", [0x7F800001, 0x7FFFFFFF, 0xFFFFFFFF, 0x7FFF8000, 0xFF800001])
def test_every_nan_stays_one(level, dtype, payload):
    x, cos = stored(dtype, np.ones((3, 64))), tables_of("float32", 1, 32)[0]
    cos.view(np.uint32)[0, ::5] = payload
    with np.errstate(invalid="ignore"):  # a signalling NaN
        cos = cos.astype(np.float64 if dtype == "float64" else np.float32)
    found = rotated(dtype, x, cos, np.zeros_like(cos), pairing_of("half"), np.zeros_like(x))
    wanted = np.tile(np.isnan(cos), (3, 2))
    np.testing.assert_array_equal(np.isnan(widened(dtype, found)), wanted)


@pytest.mark.parametrize("layout", ["half", "interleaved", "interleaved_to_half"])
def test_products_are_rounded_before_they_are_added(level, dtype, layout):
    """Equal products cancel to 0; a fused one would leave its rounding error."""
    x = np.repeat(RNG.normal(size=(99, 44)), 2, -1)
    x = stored(dtype, x if layout != "half" else np.concatenate([x[:, ::2]] * 2, -1))
    cos, _ = tables_of(dtype, 99, 44)
    half = np.s_[:, :44] if layout != "interleaved" else np.s_[:, ::2]
    rest = np.s_[:, 44:] if layout != "interleaved" else np.s_[:, 1::2]
    for sin, zeros, others in ((cos, half, rest), (-cos, rest, half)):
        found = widened(dtype, rotated(dtype, x, cos, sin, pairing_of(layout), np.zeros_like(x)))
        assert not found[zeros].any()
        assert found[others].all()


@pytest.mark.parametrize("dtype", ["float32", *HALF_PRECISION])
@pytest.mark.parametrize("pairing", PAIRINGS[:4] + PAIRINGS[-2:], ids=str)
@pytest.mark.parametrize("order", ["norm_first", "rope_first"])
def test_a_norm_is_that_of_the_formula_with_the_same_bits_at_all_levels(dtype, pairing, order):
    for width, pairs in ((48, 20), (4, 2), (77, 36)):
        x, (cos, sin), weight = tokens(dtype, 2, 3, 5, width), tables_of(dtype, 5, pairs), tables_of(dtype, width)[0]
        norm, wide = Norm(0.5, 1.0, order), np.ascontiguousarray(widened(dtype, x))
        with np.errstate(all="ignore"):
            wanted = stored(dtype, normalize_and_rotate_reference(wide, cos, sin, weight, pairing, norm))
        plan = plan_of(dtype, strided(x), strided(x)[1], strided(cos), strided(sin), pairing)
        how, found = NORM(0.5, 1.0, weight.ctypes.data, order == "rope_first", width), []
        for level in range(BEST + 1):
            library.LIBRARY.posenc_choose_level(level)
            found.append(np.zeros_like(x))
            places = [array.ctypes.data for array in (x, found[-1], cos, sin)]
            library.LIBRARY.posenc_rotate_part(plan.address, *places, how, 0, plan.units)
        library.LIBRARY.posenc_choose_level(CHOSEN)
        error = {"float32": 2e-6, "float16": 2**-10, "bfloat16": 2**-7}[dtype]
        np.testing.assert_allclose(widened(dtype, found[0]), widened(dtype, wanted), rtol=error, atol=2e-6)
        for one in found:
            assert_same_bits(dtype, one, found[0])


OBJDUMP = shutil.which("objdump") or shutil.which("llvm-objdump")


@pytest.mark.skipif(OBJDUMP is None, reason="needs objdump; other tests compare the sums of products")
def test_the_library_has_no_fused_instruction():
    code = subprocess.run([OBJDUMP, "-d", library.PATH], capture_output=True, text=True, check=True).stdout
    assert re.search(r"\bv?f?mul", code)
    assert not re.findall(r"\b(?:vfn?m(?:add|sub)\w*|fn?m(?:add|sub)|fml[as])\b", code)


def test_no_level_is_above_the_best(level):
    assert library.LIBRARY.posenc_choose_level(99) == BEST
    assert library.level() == library.LEVELS[BEST]
