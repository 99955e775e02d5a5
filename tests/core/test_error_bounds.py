"""The bounds that decide which entries of a table are computed again by big integers: they hold, and are close.

Each leaves room for a library whose cosine and sine err by 4 ulp. The true numbers are mpmath's, at 220 bits.
"""

from decimal import Decimal
from fractions import Fraction
from functools import partial
from itertools import product

import mpmath
import numpy as np
import pytest

from posenc_core.tables import _angle_addition, _rounding, cosine_sums, multi_axis, query_factors, sincos
from posenc_core.tables import wrapped_angles as wrapped
from posenc_core.tables._angle_addition import CosSinBounds
from posenc_core.tables._fixed_point import cos_sin_to_bits, exact_cos_sin, nearest_float32, turns_of, wrapped_angles
from posenc_core.tables.frequencies import chosen, geometric

MP = mpmath.mp.clone()
MP.prec = 320
COUNTS = np.array([0, 1, 47, 48, 49, 300, 2**31 - 1])
POSITIONS = [0, 1, -1, 7, 2**20 + 1, 2**31 - 1, -(2**31) + 1, 0.5, -1e-3, 123456.789, 1e-30]


def mpf(number):
    fraction = Fraction(number)
    return MP.mpf(fraction.numerator) / fraction.denominator


def true_cos_sin(position, frequency):
    return MP.cos_sin(mpf(position) * mpf(frequency))


@pytest.mark.parametrize("position", POSITIONS)
def test_big_integers_are_within_their_bound(position):
    """In units of 2**-200, below 2**20, in all eighths of a turn."""
    frequencies = geometric(16, base=100) + chosen([0.0, 3.0, 100.0])
    for turn, frequency in zip(turns_of(frequencies).exact, frequencies, strict=True):
        true = [number * 2**200 for number in true_cos_sin(position, frequency)]
        assert np.abs(np.subtract(exact_cos_sin(position, turn), true)).max() < 2**20
        assert np.abs(np.subtract(cos_sin_to_bits(Fraction(position) * Fraction(frequency), 200), true)).max() < 2


def test_a_number_is_rounded_once_and_a_tie_to_the_even_number():
    """Half an ulp of 1 is 2**-24, and that of subnormal numbers 2**-150."""
    for even, half in ((1, Fraction(1, 2**24)), (Fraction(1, 2**126), Fraction(1, 2**150)), (0, Fraction(1, 2**150))):
        first, second = float(even), np.nextafter(np.float32(even), np.float32(2))
        third = np.nextafter(second, np.float32(2))
        for sign, near in product((1, -1), (Fraction(1, 2**1200), Fraction(1, 2**200))):
            for number, nearest in (
                (even + half - near, first), (even + half, first), (even + half + near, second),
                (even + 3 * half - near, second), (even + 3 * half, third), (even + 3 * half + near, third),
            ):  # fmt: skip
                found = nearest_float32(sign * number)
                assert (found, np.signbit(found)) == (sign * np.float32(nearest), sign < 0)


def entries(module, monkeypatch, make):
    """Return value and error of each block that goes to `round_or_recompute`, and how many entries it recomputes."""
    blocks, again = [], []
    rounding = module.round_or_recompute

    def noted(out, value, error, exact):
        blocks.append((value.copy(), np.broadcast_to(error, value.shape).copy()))
        rounding(out, value, error, lambda row, column: (again.append(1), exact(row, column))[1])

    monkeypatch.setattr(module, "round_or_recompute", noted)
    make()
    return blocks, len(again)


def check(value, error, true, most=2.0**-40):
    """Raise unless the error covers that of the value, and 3 ulp more of a library; and is small."""
    off = np.array(
        [[abs(float(mpf(v) - t)) for v, t in zip(*rows, strict=True)] for rows in zip(value, true, strict=True)]
    )
    is_computed = (value != 0) & (error != 0)  # 0 and a factor are exact at position 0
    assert np.all(off + 3 * np.spacing(np.nextafter(np.abs(value), 0)) * is_computed <= error)
    assert np.all(error <= most)


@pytest.mark.parametrize("factor", ["1", "12.5"])
@pytest.mark.parametrize("positions", [[1, 9, 2**20 + 3], [2**31 - 1, -(2**31) + 1], [0.37, 1e5 + 0.1, 2.0**31 - 0.5]])
def test_bounds_of_any_positions(positions, factor, monkeypatch):
    frequencies, positions = geometric(24, base=1e6) + chosen([1e-12, 3.0]), np.array(positions)
    factor = sincos.Decimal(factor)
    blocks, again = entries(sincos, monkeypatch, lambda: sincos.cos_sin(positions, frequencies, factor=factor))
    for (value, error), index in zip(blocks, (0, 1), strict=True):
        true = [[true_cos_sin(p, f)[index] * mpf(factor) for f in frequencies] for p in positions.tolist()]
        check(value, error, true, most=2.0**-40 * float(factor))
    assert again == 0


def test_bounds_of_blocks_of_consecutive_positions():
    frequencies = geometric(16, base=1e6) + chosen([1e-12, 3.0])
    positions = np.array([0, 1, 1000, 2**31 - 1])
    spec = sincos.TableSpec(positions, None, None, turns_of(frequencies), (sincos._ONE,) * len(frequencies), None)
    bounds = _angle_addition.bounds_at_positions(spec)
    for index, (value, error) in enumerate(((bounds.cos, bounds.cos_error), (bounds.sin, bounds.sin_error))):
        check(value, error, [[true_cos_sin(p, f)[index] for f in frequencies] for p in positions.tolist()])


def test_the_bound_of_an_angle_that_is_almost_a_whole_turn():
    """Its float64 number has no rounding to speak of, so that the steps of 2**-64 turn alone count."""
    worst, position = 0.0, 2**31 - 1
    for count in range(1, 400):
        frequency = sincos.Decimal(str((2 * MP.pi * count + MP.sqrt(2) * count / 2**40) / position))
        angles, sizes, floor = wrapped_angles(np.array([[position]]), turns_of((frequency,)))
        off = abs(mpf(float(angles[0, 0])) - (mpf(position) * mpf(frequency) - 2 * MP.pi * count))
        worst = max(worst, float(off / (mpf(float(sizes[0, 0])) * 2**-51 + mpf(float(floor[0])))))
    assert 0.5 < worst <= 1


def perturbed(generator, shape):
    """Return cosines and sines of random angles, some of them 0, and errors of similar sizes."""
    values = [np.where(generator.random(shape) < 0.2, 0, generator.uniform(-1, 1, shape)) for _ in range(2)]
    return CosSinBounds(*values, *(2.0**-50 * generator.random(shape) for _ in range(2)))


def corners(bounds):
    """Yield cosine and sine moved by their errors, up or down."""
    for up, right in product((-1, 1), repeat=2):
        yield bounds.cos + up * bounds.cos_error, bounds.sin + right * bounds.sin_error


def test_the_bounds_of_scaled_numbers_cover_every_corner():
    generator, error = np.random.default_rng(3), 2.0**-50
    bounds, scales = perturbed(generator, (50, 7)), generator.uniform(0, 5, 7)
    scaled = _angle_addition._scale(bounds, scales, error)
    worst = np.zeros((2, 50, 7))
    for at, sign in product(corners(bounds), (-1, 1)):
        moved = [one * scales * (1 + sign * error) for one in at]
        worst = np.maximum(worst, np.abs(np.stack(moved) - [bounds.cos * scales, bounds.sin * scales]))
    claimed = np.stack([scaled.cos_error, scaled.sin_error])
    assert np.all(worst <= claimed + 2.0**-52 * 5)
    assert np.all(claimed <= worst + 2.0**-52 * 5)


def test_the_bounds_of_sums_of_angles_cover_every_corner():
    """Half of a bound covers the first order and the rounding of the two products and of their sum."""
    generator = np.random.default_rng(4)
    starts, steps = perturbed(generator, (9, 5)), perturbed(generator, (6, 5))
    worst = np.zeros((9, 5, 2))
    for (cos, sin), (by_cos, by_sin) in product(corners(starts), corners(steps)):
        sines = sin[:, None] * by_cos + cos[:, None] * by_sin
        cosines = cos[:, None] * by_cos - sin[:, None] * by_sin
        right = (
            starts.sin[:, None] * steps.cos + starts.cos[:, None] * steps.sin,
            starts.cos[:, None] * steps.cos - starts.sin[:, None] * steps.sin,
        )
        off = np.stack([np.abs(one - true).max(axis=1) for one, true in zip((sines, cosines), right, strict=True)], -1)
        worst = np.maximum(worst, off)
    sizes = np.stack([np.abs(starts.cos) + np.abs(starts.sin)] * 2, axis=-1)
    rounding = sizes * 2.0**-52 * np.maximum(np.abs(steps.cos).max(axis=0), np.abs(steps.sin).max(axis=0))[:, None]
    half = _angle_addition.product_errors(starts, steps) / 2
    assert np.all(worst <= half)
    assert np.all(half <= sizes * 2.0**-50 * 2 + rounding + 2.0**-49)


@pytest.mark.parametrize("size", [1e4, 1e-4])
def test_bounds_of_sums(size, monkeypatch):
    generator = np.random.default_rng(0)
    positions, turns = generator.normal(size=(3, 5)) * size, generator.normal(size=(3, 6))
    blocks, again = entries(multi_axis, monkeypatch, lambda: multi_axis.cos_sin_of_sums(positions, turns))
    exact = [
        [sum(mpf(p) * mpf(t) for p, t in zip(row, column, strict=True)) for column in turns.T] for row in positions.T
    ]
    for (value, error), index in zip(blocks, (0, 1), strict=True):
        check(value, error, [[MP.cos_sin(2 * MP.pi * sum_)[index] for sum_ in row] for row in exact], most=2.0**-28)
    assert again <= 1


def off_by_4_ulp(function, sign):
    """Return a function of NumPy as a library may have it that errs by the 4 ulp that it promises."""

    def changed(given):
        value = function(given)
        return value + sign * 4 * np.spacing(np.nextafter(np.abs(value), 0))

    return changed


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("count", [1, 2, 32])
def test_bounds_of_sums_of_cosines(count, sign, monkeypatch):
    distances, frequencies = np.array([0, 1, 2, 1000, 2**31 - 1]), geometric(2 * count, base=1e12)
    with monkeypatch.context() as patch:
        patch.setattr(np, "cos", off_by_4_ulp(np.cos, sign))
        ((value, error),), _ = entries(cosine_sums, patch, lambda: cosine_sums.cosine_sums(distances, frequencies))
    true = [sum(true_cos_sin(d, f)[0] for f in frequencies) for d in distances.tolist()]
    off = np.array([abs(float(mpf(v) - t)) for v, t in zip(value[:, 0], true, strict=True)])
    assert np.all(off <= error[:, 0])
    assert error[0, 0] <= count * 2.0**-50 + count**2 * 2.0**-52
    assert error.max() <= count * 2.0**-48 + count**2 * 2.0**-52


@pytest.mark.parametrize("module", [_angle_addition, cosine_sums])
@pytest.mark.parametrize(("size", "floor"), [(2.0**51, 0.0), (0.0, 0.5), (2.0**51, 0.5)])
def test_bounds_cover_what_the_angle_may_be_off(module, size, floor, monkeypatch):
    """An angle is off by less than `size * 2**-51 + floor`, as `wrapped_angles` says, and so are sine and cosine."""
    wrapped = np.full((1, 3), 0.25), np.full((1, 3), size), np.full(3, floor)
    monkeypatch.setattr(module, "wrapped_angles", lambda *_: wrapped)
    frequencies, position, promised = geometric(6), np.array([5]), size * 2.0**-51 + floor
    if module is cosine_sums:
        ((_, error),), _ = entries(module, monkeypatch, lambda: cosine_sums.cosine_sums(position, frequencies))
        errors, promised = [error], 3 * promised
    else:
        spec = sincos.TableSpec(position, None, None, turns_of(frequencies), (sincos._ONE,) * 3, None)
        bounds = module.bounds_at_positions(spec)
        errors = [bounds.cos_error, bounds.sin_error]
    for error in errors:
        assert np.all(promised < error)
        assert np.all(error < promised + 2.0**-40)


def test_bounds_of_blocks_leave_4_ulp_for_cosine_and_sine(monkeypatch):
    """Where the angle is exact, the library alone errs: cosines near 1 and sines near a power of 2 by most."""
    angles = np.array([[0.0, 2.0**-20, 2.0**-3, 0.5236, 1.4]])
    wrapped = angles, np.zeros_like(angles), np.zeros(5)
    monkeypatch.setattr(_angle_addition, "wrapped_angles", lambda *_: wrapped)
    frequencies = geometric(10)
    spec = sincos.TableSpec(np.array([1]), None, None, turns_of(frequencies), (sincos._ONE,) * 5, None)
    bounds = _angle_addition.bounds_at_positions(spec)
    below_1 = np.spacing(np.nextafter(1, 0))
    assert np.all(4 * below_1 <= bounds.cos_error)
    assert np.all(bounds.cos_error <= 4 * 2 * below_1)
    assert np.all(np.abs(bounds.sin) * 2.0**-50 <= bounds.sin_error)  # 4 ulp of a power of 2 are as many
    assert np.all(bounds.sin_error <= np.abs(bounds.sin) * 2.0**-49)


@pytest.mark.parametrize("rate", ["1", "-0.5", "0.001"])
def test_the_bound_of_growth(rate):
    """The exponent is rounded twice, `exp` errs by 4 ulp; with the product with an entry that is the whole error."""
    distances, envelope = np.array([0, 1, 7, 80]), sincos.Envelope((sincos.Decimal(rate),))
    scale, error = _rounding.growth(envelope, distances)
    exponents = np.abs(distances[:, None] * float(rate))
    assert np.all(exponents * 2.0**-52 + 4 * 2.0**-52 + 2.0**-53 <= error)
    assert np.all(error <= (exponents + 16) * 2.0**-49)
    true = [mpmath.exp(mpmath.mpf(rate) * d) for d in distances.tolist()]
    np.testing.assert_allclose(scale[:, 0], np.array(true, float), rtol=1e-13)


@pytest.mark.parametrize(
    ("growth", "length", "scale"),
    [("steps", 5, 0.1), ("steps", 3, 8.0), ("log", 7, None), ("log", 2, 3.0), ("power", 9, 0.5)],
)
@pytest.mark.parametrize("sign", [1, -1])
def test_bounds_of_factors_of_queries(growth, length, scale, sign, monkeypatch):
    counts = np.array([0, 1, 2, 6, 7, 8, 100, 2**31 - 1])
    with monkeypatch.context() as patch:
        patch.setattr(np, "log", off_by_4_ulp(np.log, sign))
        made = lambda: query_factors.query_factors(counts, growth=growth, length=length, scale=scale)
        ((value, error),), _ = entries(query_factors, patch, made)
    given = np.unique(counts // length) if growth == "steps" else counts
    for count, found, bound in zip(given.tolist(), value[:, 0], error[:, 0], strict=True):
        if growth == "steps":
            true = 1 + mpf(scale) * MP.log(1 + count)
        elif growth == "log":
            true = 1 + (mpf(scale) if scale else 1 / MP.log(length)) * MP.log(max(mpf(count) / length, MP.mpf(1)))
        else:
            true = (1 + mpf(count) / length) ** mpf(scale)
        assert abs(mpf(found) - true) <= bound <= 2.0**-44 * (1 + abs(true))


@pytest.mark.parametrize("sign", [1, -1])
def test_bounds_of_logarithms(sign, monkeypatch):
    counts = np.array([1, 2, 3, 10, 2**31 - 1])
    with monkeypatch.context() as patch:
        patch.setattr(np, "log", off_by_4_ulp(np.log, sign))
        ((value, error),), _ = entries(query_factors, patch, lambda: query_factors.logarithms(counts))
    for count, found, bound in zip(counts.tolist(), value[:, 0], error[:, 0], strict=True):
        assert abs(mpf(found) - MP.log(count)) <= bound + (count == 1) * 2.0**-1000 <= 2.0**-42


TABLES = {  # each module that rounds by a bound, and tables of it
    "any positions": (
        sincos,
        lambda: sincos.cos_sin(np.array([3, 0, 70, 2**31 - 1]), geometric(8), factor=Decimal("1.25")),
    ),
    "an envelope": (
        sincos,
        lambda: sincos.cos_sin(
            np.array([5.5, 0, -3]),
            geometric(6),
            envelope=sincos.Envelope((Decimal("0.5"), Decimal(0), Decimal("-0.1")), 2),
        ),
    ),
    "angles": (wrapped, lambda: wrapped.angles_in_turn(np.array([0, 9, 2**31 - 1]), geometric(8))),
    "sums over axes": (
        multi_axis,
        lambda: multi_axis.cos_sin_of_sums(
            np.array([[1, 700, 5], [2, 0, -3]]),
            np.array([[0.1, 1e-3], [7.3, 0.25]]),
            factors=(Decimal(2), Decimal("-0.3")),
        ),
    ),
    "sums of cosines": (cosine_sums, lambda: cosine_sums.cosine_sums(np.arange(40), geometric(12))),
    "logarithms": (query_factors, lambda: query_factors.logarithms(np.array([1, 2, 3, 1000, 2**31 - 1]))),
    **{
        f"factors, {growth}, {scale}": (
            query_factors,
            partial(query_factors.query_factors, COUNTS, growth=growth, length=48, scale=scale),
        )
        for growth, scale in (("steps", 0.1), ("log", None), ("log", 0.3), ("power", 0.25))
    },
}


@pytest.mark.parametrize("name", TABLES)
def test_big_integers_give_the_numbers_of_float64(name, monkeypatch):
    """Recompute every entry, not only the few that float64 does not decide."""
    module, make = TABLES[name]
    by_float64, asked = make(), []
    rounding = module.round_or_recompute

    def recomputed(out, value, error, exact):
        rounding(out, value, np.full_like(error, 1e30), lambda row, column: (asked.append(1), exact(row, column))[1])

    monkeypatch.setattr(module, "round_or_recompute", recomputed)
    again = make()
    assert (
        len(asked) == sum(table.size for table in ([again] if isinstance(again, np.ndarray) else again))
        or "steps" in name
    )
    np.testing.assert_array_equal(again, by_float64)


@pytest.mark.parametrize(("size", "floor"), [(2.0**31, 0.0), (0.0, 2.0**-20), (2.0**31, 2.0**-20)])
def test_the_bound_of_an_angle_in_float32_is_what_it_may_be_off(size, floor, monkeypatch):
    monkeypatch.setattr(
        wrapped, "wrapped_angles", lambda *_: (np.full((1, 3), 0.25), np.full((1, 3), size), np.full(3, floor))
    )
    ((_, error),), again = entries(wrapped, monkeypatch, lambda: wrapped.angles_in_turn(np.array([5]), geometric(6)))
    np.testing.assert_array_equal(error, np.full((1, 3), size * 2.0**-51 + floor))
    assert again == 3


@pytest.mark.parametrize("rate", ["0", "3", "-3"])
def test_the_error_of_big_integers_grows_as_the_envelope_does(rate, monkeypatch):
    """An entry of cosine and sine is off by what its parts are, times what it is multiplied by."""
    made, rate, factors = [], sincos.Decimal(rate), (sincos.Decimal("2.5"),)
    monkeypatch.setattr(_rounding, "round_once", made.append)
    envelope, turns = sincos.Envelope((rate,)), turns_of((sincos.Decimal(1),))
    sincos.TableSpec(np.array([2]), None, None, turns, factors, envelope).exact(0, 0, 0)
    value, error = made[0](200)
    grown = mpf("2.5") * MP.exp(2 * int(rate))
    assert abs(value - grown * MP.cos(2) * 2**200) <= error
    assert _rounding.VALUE_ERROR * grown <= error <= _rounding.VALUE_ERROR * (grown + 1)
