"""The exact tables: against mpmath entry by entry, and against their own bytes on other machines."""

import hashlib
import subprocess
import sys
import tracemalloc
from decimal import Decimal
from itertools import product

import mpmath
import numpy as np
import pytest

from posenc_core import Rotary, Sinusoidal
from posenc_core.tables import _angle_addition
from posenc_core.tables._angle_addition import bounds_at_positions, bounds_at_steps, product_errors
from posenc_core.tables._fixed_point import turns_of
from posenc_core.tables._rounding import Envelope, TableSpec
from posenc_core.tables.angles import angles
from posenc_core.tables.frequencies import as_float64, chosen, geometric
from posenc_core.tables.sincos import _remaining_rows, cos_sin, write_cos_sin

from ..errors import rejects

RNG = np.random.default_rng(19680409)
MP = mpmath.mp.clone()
MP.prec = 220  # 31 bits of position, 24 of result, and plenty for cancellation


def true_cos_sin(positions, base, dim, factor="1"):
    """Return cosine and sine of every position and frequency, rounded once to float32 from 220 bits."""
    frequencies = [MP.mpf(base) ** (-MP.mpf(2 * i) / dim) for i in range(dim // 2)]
    both = [[MP.cos_sin(MP.mpf(p) * f) for f in frequencies] for p in positions.tolist()]
    return tuple(
        np.array([[rounded(pair[index] * MP.mpf(factor)) for pair in row] for row in both], np.float32)
        for index in (0, 1)
    )


def rounded(value):
    """Return the nearest float32, ties to even, without rounding to float64 first."""
    if value == 0:
        return 0.0
    _, exponent = MP.frexp(value)
    shift = 24 - max(int(exponent), -125)
    return float(MP.ldexp(MP.nint(MP.ldexp(value, shift)), -shift))


RANDOM = [(base, dim, 26000 // dim) for base, dim in (
    (10000, 128), (500000.0, 128), (10000000, 96), (2, 64), (1.5, 80), (1e12, 256), (10000, 6), (160000.0, 64),
)]  # fmt: skip


@pytest.mark.parametrize(("base", "dim", "count"), RANDOM)
def test_every_entry_is_the_true_number_rounded_once(base, dim, count):
    whole = RNG.integers(-(2**31) + 1, 2**31, count)
    near = np.concatenate([np.arange(16), 2 ** np.arange(4, 31), RNG.integers(0, 2**20, count)])
    for positions in (whole, near):
        got = cos_sin(positions, geometric(dim, base=base))
        for table, wanted in zip(got, true_cos_sin(positions, base, dim), strict=True):
            np.testing.assert_array_equal(table, wanted)


@pytest.mark.parametrize("first", [0, 2**20 - 1500, 2**31 - 3000])
@pytest.mark.parametrize(("base", "dim"), [(10000, 128), (1e12, 40), (2, 6), (160000.0, 2), (500000, 1026)])
def test_rows_of_consecutive_positions_are_as_exact(base, dim, first):
    """Those rows come from angle addition; the first and last rows of blocks are among those that are checked."""
    positions = np.arange(first, first + 3000)
    rows = np.unique([*range(5), *RNG.integers(0, 3000, 2000 // dim + 2), *range(63, 3000, 512), *range(64, 3000, 512)])
    got = cos_sin(positions, geometric(dim, base=base))
    for table, wanted in zip(got, true_cos_sin(positions[rows], base, dim), strict=True):
        np.testing.assert_array_equal(table[rows], wanted)


@pytest.mark.parametrize("pairs", [1, 3, 64, 300])
@pytest.mark.parametrize("factor", ["1", "1.3465735902799727"])
@pytest.mark.parametrize("rate", [0, 2**-9, -(2**-7)])
def test_an_entry_does_not_depend_on_the_other_positions(pairs, factor, rate):
    """Compare consecutive positions, and others, with the same positions in random order."""
    ranges = [range(5000), range(-1000, 3000), range(4000, 0, -1), range(0, 6000, 2), [7] * 100]
    far = [] if rate else [range(2**31 - 3000, 2**31)]
    positions = np.concatenate([np.array(each) for each in ranges + far])
    order = RNG.permutation(len(positions))
    frequencies = (*geometric(2 * pairs, base=1e6, count=pairs - 1), Decimal(0)) if pairs > 1 else geometric(2)
    envelope = Envelope(tuple(Decimal(rate) * i / pairs for i in range(pairs)), center=100.5) if rate else None
    tables = cos_sin(positions, frequencies, factor=Decimal(factor), envelope=envelope)
    others = cos_sin(positions[order], frequencies, factor=Decimal(factor), envelope=envelope)
    for table, other in zip(tables, others, strict=True):
        np.testing.assert_array_equal(table[order].view(np.uint32), other.view(np.uint32))


@pytest.mark.parametrize("center", [0, 1000, -1000])
def test_an_envelope_may_grow_to_the_largest_exponent_and_not_past_it(center):
    """exp(87) fits in float32, and the product with a cosine is rounded once; on both sides of the center."""
    envelope, distances = Envelope((Decimal(1),), center), (0, 87, -87)
    cos, _ = cos_sin(np.array(distances) + center, (Decimal(0),), envelope=envelope)
    np.testing.assert_array_equal(cos[:, 0], np.array([float(mpmath.exp(each)) for each in distances], np.float32))
    for distance in (88, -88):
        with rejects(ValueError, "envelope", "87", "88"):
            cos_sin(np.array([distance + center]), (Decimal(0),), envelope=envelope)


@pytest.mark.parametrize("consecutive", list(product([True, False], repeat=4)))
@pytest.mark.parametrize("rest", [0, 2])
def test_the_rows_outside_of_consecutive_blocks_are_written_once(consecutive, rest):
    remaining = [row for rows in _remaining_rows(list(consecutive), 3, 12 + rest) for row in range(14)[rows]]
    assert sorted(remaining) == [row for row in range(12 + rest) if row >= 12 or not consecutive[row // 3]]


def test_write_only_a_cosine_or_a_sine_or_fewer_columns_than_frequencies():
    positions, frequencies = np.arange(3, 4003), geometric(64, base=10000)
    cos, sin = cos_sin(positions, frequencies)
    table = np.full((4000, 64), 9, np.float32)
    for options in (
        {"cos": table[:, 31::-1]}, {"sin": table[:, :31]}, {"sin": table[:, ::2], "cos": table[:, 1::2]},
        {"cos": table[:, ::2], "sin": table[:, 1::2]}, {"sin": table[:, :62:2], "cos": table[:, 1:62:2]},
    ):  # fmt: skip
        write_cos_sin(positions, frequencies, **options)
        for name, part in options.items():
            np.testing.assert_array_equal(part, {"cos": cos, "sin": sin}[name][:, : part.shape[1]])


@pytest.mark.parametrize("first", [0, 2**31 - 512])
def test_errors_of_angle_addition_are_below_half_their_bound(first):
    """Against 220 bits, at every step of one block: Ziv's test relies on this bound."""
    frequencies = geometric(16, base=1e8)
    spec = TableSpec(np.arange(first, first + 512), None, None, turns_of(frequencies), (Decimal(1),) * 8, None)
    starts, steps = bounds_at_positions(spec.part(slice(1))), bounds_at_steps(spec, 64)
    bound = product_errors(starts, steps)[0]
    sums = starts.sin * steps.cos + starts.cos * steps.sin, starts.cos * steps.cos - starts.sin * steps.sin
    for step in range(64):
        for pair, frequency in enumerate(frequencies):
            angle = MP.mpf(first + step) * MP.mpf(str(frequency))
            for index, true in enumerate((MP.sin(angle), MP.cos(angle))):
                assert abs(MP.mpf(float(sums[index][step, pair])) - true) <= bound[pair, index] / 2


def test_peak_memory_is_little_more_than_the_table():
    positions = np.arange(40000)
    tracemalloc.start()
    tables = cos_sin(positions, geometric(128))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 1.2 * sum(table.nbytes for table in tables)


def test_more_than_200000_entries_are_checked():
    assert sum(dim * 2 * count for _, dim, count in RANDOM) >= 200_000


@pytest.mark.parametrize(
    ("base", "dim", "pair", "position"), [(160000, 512, 3, 1618639191), (1000042, 512, 13, 401963353)]
)
def test_entries_next_to_a_zero_of_the_sine(base, dim, pair, position):
    """Found by continued fractions: position × frequency lies within 1e-9 of a multiple of π."""
    got = cos_sin(np.array([position]), geometric(dim, base=base))
    wanted = true_cos_sin(np.array([position]), base, dim)
    assert abs(got[1][0, pair]) < 1e-9
    np.testing.assert_array_equal(got[1], wanted[1])


def test_the_caller_precision_at_import_does_not_matter(tmp_path):
    program = (
        "import decimal; decimal.getcontext().prec = 6\n"
        "import hashlib, numpy\n"
        "from posenc_core import Rotary\n"
        "cos, sin = Rotary(head_dim=128, layout='half').cos_sin(numpy.arange(131072))\n"
        "print(hashlib.sha256(cos.tobytes() + sin.tobytes()).hexdigest())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.strip() == BIG_TABLES["Rotary, base 10000"][0]


def test_a_factor_halfway_between_two_float32_numbers_rounds_to_the_even_one():
    cos, _ = cos_sin(np.array([0]), geometric(2), factor=1 + Decimal(2) ** -24)
    assert cos[0, 0] == 1
    cos, _ = cos_sin(np.array([0]), geometric(2), factor=1 + 3 * Decimal(2) ** -24)
    assert cos[0, 0] == np.float32(1 + 2.0**-22)


@pytest.mark.parametrize("factor", ["1.3465735902799727", "0.1", "1.0690449676496976"])
def test_the_attention_factor_is_rounded_with_the_entry(factor):
    positions = RNG.integers(0, 2**31, 100)
    got = cos_sin(positions, geometric(64, base=10000), factor=Decimal(factor))
    for table, wanted in zip(got, true_cos_sin(positions, 10000, 64, factor), strict=True):
        np.testing.assert_array_equal(table, wanted)


@pytest.mark.parametrize("size", [1e-40, 1e-20, 1.0, 1e5, 2.0**31])
def test_real_positions_are_exact(size):
    positions = RNG.uniform(-size, size, 60)
    got = cos_sin(positions, geometric(64, base=10000))
    for table, wanted in zip(got, true_cos_sin(positions, 10000, 64), strict=True):
        np.testing.assert_array_equal(table, wanted)


def test_integral_floats_give_the_same_as_integers():
    positions = RNG.integers(-(2**31) + 1, 2**31, 500)
    frequencies = geometric(32, base=10000)
    for exact, real in zip(cos_sin(positions, frequencies), cos_sin(positions.astype(float), frequencies), strict=True):
        np.testing.assert_array_equal(exact, real)


def test_frequencies_above_a_turn_and_of_zero():
    positions = np.array([0, 1, 1000003])
    cos, sin = cos_sin(positions, chosen([100.0, 0.0]))
    np.testing.assert_array_equal(cos[:, 0], [rounded(MP.cos(MP.mpf(p) * 100)) for p in positions.tolist()])
    np.testing.assert_array_equal(sin[:, 0], [rounded(MP.sin(MP.mpf(p) * 100)) for p in positions.tolist()])
    np.testing.assert_array_equal(cos[:, 1], 1)
    np.testing.assert_array_equal(sin[:, 1], 0)


def test_angles_agree_with_the_exact_tables_at_small_positions():
    positions, frequencies = np.arange(2048), geometric(64, base=10000)
    readable = angles(positions.astype(float), as_float64(frequencies))
    for table, function in zip(cos_sin(positions, frequencies), (np.cos, np.sin), strict=True):
        np.testing.assert_allclose(table, function(readable), rtol=0, atol=2.0**-24)


def test_any_shape_of_positions():
    frequencies = geometric(8, base=10000)
    flat = cos_sin(np.arange(24), frequencies)
    for table, cube in zip(flat, cos_sin(np.arange(24).reshape(2, 3, 4), frequencies), strict=True):
        np.testing.assert_array_equal(cube, table.reshape(2, 3, 4, 4))
    assert cos_sin(np.zeros((2, 0), int), frequencies)[0].shape == (2, 0, 4)


BIG_TABLES = {
    "Rotary, base 10000": (
        "6ce6a1304ca05860c721dd34f2b7582e5822dc7844aaffbcb4e6977b030731fa",
        lambda: Rotary(head_dim=128, layout="half").cos_sin(np.arange(131072)),
    ),
    "Rotary, base 500000, at the far end": (
        "b440f1a7484635db23158da9761721f60318d2e33fdfc5cd022f3b9484c6a520",
        lambda: Rotary(head_dim=128, layout="half", base=500000.0).cos_sin(np.arange(2**31 - 65536, 2**31)),
    ),
    "Sinusoidal, tensor2tensor": (
        "267546503fd77b29eb3a62e7b2c58eb670c7cbba86b766c3df654836093435a1",
        lambda: (Sinusoidal(dim=257, convention="tensor2tensor").table(np.arange(-30000, 30000)),),
    ),
}


@pytest.mark.parametrize("name", BIG_TABLES)
def test_big_tables_have_the_same_bytes_everywhere(name):
    wanted, make = BIG_TABLES[name]
    digest = hashlib.sha256()
    for table in make():
        digest.update(np.ascontiguousarray(table, "<f4"))
    assert digest.hexdigest() == wanted


def views(memory, arrangement):
    """Return a cosine and a sine of 600 rows, in memory as named."""
    flat = memory[: 600 * 16].reshape(600, 16)
    return {
        "sine, cosine in turn": lambda: (flat[:, 1::2], flat[:, ::2]),
        "cosine, sine in turn": lambda: (flat[:, ::2], flat[:, 1::2]),
        "a column between them": lambda: (flat[:, 3:15:2], flat[:, :12:2]),
        "every third column": lambda: (flat[:, 1::3], flat[:, ::3][:, :5]),
        "beside each other": lambda: (flat[:, :8], flat[:, 8:]),
        "fewer cosines": lambda: (flat[:, 1:9:2], flat[:, ::2]),
        "fewer sines": lambda: (flat[:, 1::2], flat[:, :8:2]),
        "backward": lambda: (flat[:, 14::-2], flat[:, ::-2]),
        "columns first": lambda: (memory[: 600 * 8].reshape(8, 600).T, memory[600 * 8 : 600 * 16].reshape(8, 600).T),
        "rows in turn": lambda: (memory[: 1200 * 8].reshape(1200, 8)[1::2], memory[: 1200 * 8].reshape(1200, 8)[::2]),
    }[arrangement]()


@pytest.mark.parametrize("first", [5, -3])
@pytest.mark.parametrize(
    "arrangement",
    ["sine, cosine in turn", "cosine, sine in turn", "a column between them", "every third column", "beside each other",
     "fewer cosines", "fewer sines", "backward", "columns first", "rows in turn"],
)  # fmt: skip
def test_tables_may_lie_anyhow_in_memory(arrangement, first):
    """Nothing is written outside of the two, and each row is that of its position alone."""
    positions, frequencies = np.arange(first, first + 600), geometric(16, base=100)
    memory = np.full(600 * 16, 9, np.float32)
    cos, sin = views(memory, arrangement)
    untouched = np.full(600 * 16, True)
    for view in views(untouched, arrangement):
        view[...] = False
    write_cos_sin(positions, frequencies, cos=cos, sin=sin)
    assert np.all(memory[untouched] == 9)
    for row in [*range(0, 600, 37), 599]:
        for found, whole in zip((cos, sin), cos_sin(positions[row : row + 1], frequencies), strict=True):
            np.testing.assert_array_equal(found[row], whole[0, : found.shape[1]])


@pytest.mark.parametrize("products", [1, 7, 8, 9, 100, 2**20])
@pytest.mark.parametrize("length", [600, 1031])
def test_however_many_entries_are_computed_at_a_time(products, length, monkeypatch):
    """Fewer than a row has, about as many, and more than the table has."""
    positions, frequencies = np.arange(length), geometric(16, base=100)
    expected = cos_sin(positions, frequencies)
    written = []
    monkeypatch.setattr(_angle_addition, "_PRODUCTS", products)
    write = _angle_addition._BlockWriter.write
    monkeypatch.setattr(_angle_addition._BlockWriter, "write", lambda *given: (written.append(given), write(*given)))
    for found, table in zip(cos_sin(positions, frequencies), expected, strict=True):
        np.testing.assert_array_equal(found, table)
    assert written  # by angle addition


@pytest.mark.parametrize(
    ("positions", "pairs", "rate", "length"),
    [
        (511, 1, None, 0), (512, 1, None, 64), (1023, 1, None, 64), (1024, 1, None, 128), (2**20, 1, None, 2**15),
        (2**20, 2, None, 2**14), (2**20, 64, None, 512), (2**20, 512, None, 64), (2**20, 1024, None, 64),
        (2**20, 0, None, 0), (0, 4, None, 0), (2**20, 1, 0.0, 2**15), (2**20, 1, 2.0**-7, 128),
        (2**20, 1, -(2.0**-7), 128), (2**20, 2, 2.0**-6, 64), (2**20, 1, 0.016, 0), (2**20, 1, 1.0, 0),
        (2**20, 1, 100.0, 0),
    ],
)  # fmt: skip
def test_the_length_of_blocks(positions, pairs, rate, length):
    """A power of 2 from 64 on, an eighth of the table at most, 32,768 entries or 64 rows; an envelope grows by e."""
    envelope = None if rate is None else Envelope((Decimal(rate), *[Decimal(0)] * (pairs - 1)))
    spec = TableSpec(np.arange(positions), None, None, None, (Decimal(1),) * pairs, envelope)
    assert _angle_addition.block_length(spec) == length
