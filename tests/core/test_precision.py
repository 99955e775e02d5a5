"""Tables in low precision against formulas written anew here: angles rounded by `math`, sines of NumPy and mpmath."""

import math

import mpmath
import numpy as np
import pytest

from posenc_core import Linear, Llama3, LongRoPE, MultimodalRotary, Rotary
from posenc_core.analysis.differences import _first_between, difference
from posenc_core.analysis.precision import LIMIT, errors, first_off, growing_errors, loss

from ..errors import rejects


def to_float32(numbers):
    return np.asarray(numbers, np.float64).astype(np.float32).astype(np.float64)


def to_bfloat16(numbers):
    """Round to eight bits, by the exponent; Python's `round` breaks ties to even."""
    return np.vectorize(rounded_to_8_bits, otypes=[float])(to_float32(numbers))


def rounded_to_8_bits(number):
    mantissa, exponent = math.frexp(number)
    return math.ldexp(round(mantissa * 256), exponent - 8)


ROUNDED = {"float32": to_float32, "bfloat16": to_bfloat16}


def off(frequencies, positions, arithmetic, factor=1.0):
    """Return the largest error at each position; errors of float64 are below 1e-9 at these positions."""
    rounded = ROUNDED[arithmetic]
    angles = rounded(np.multiply.outer(rounded(positions), rounded(frequencies)))
    exact = np.multiply.outer(np.asarray(positions, np.float64), frequencies)
    both = np.abs(np.cos(angles) - np.cos(exact)), np.abs(np.sin(angles) - np.sin(exact))
    return factor * np.maximum(*both).max(axis=-1)


def series(dim, base):
    return base ** (-np.arange(0, dim, 2) / dim)


LLAMA3 = Llama3(factor=8, low_freq_factor=1, high_freq_factor=4, original_max_position_embeddings=8192)
PLAIN = Rotary(head_dim=128, layout="half", base=5e5)


CASES = [
    (PLAIN, series(128, 5e5), 1.0),
    (Rotary(head_dim=64, layout="half", direction="inverse"), series(64, 1e4), 1.0),
    (Rotary(head_dim=20, rotary_dim=6, layout="interleaved", placement="trail"), series(6, 1e4), 1.0),
    (Rotary(head_dim=16, layout="half", scaling=Linear(factor=2)), series(16, 1e4) / 2, 1.0),
    (MultimodalRotary(head_dim=8, layout="half", sections=(2, 1, 1)), series(8, 1e4), 1.0),
    (
        Rotary(
            head_dim=6,
            layout="half",
            scaling=LongRoPE(
                short_factor=[1.5, 1.25, 2],
                long_factor=[3, 3, 3],
                original_max_position_embeddings=2**20,
                attention_factor=1.75,
            ),
        ),
        series(6, 1e4) / [1.5, 1.25, 2],
        1.75,
    ),
]


@pytest.mark.parametrize(("rotary", "frequencies", "factor"), CASES)
@pytest.mark.parametrize("arithmetic", ["float32", "bfloat16"])
def test_errors_are_those_of_rounded_angles(rotary, frequencies, factor, arithmetic):
    positions = np.concatenate([np.arange(40), [255, 256, 257, 259, 1001, 4097, 65537, 2**20 + 3]])
    exact = off(frequencies, positions, arithmetic, factor)
    np.testing.assert_allclose(errors(rotary, positions, arithmetic=arithmetic), exact, rtol=0, atol=1.2e-7)


@pytest.mark.parametrize(("rotary", "frequencies", "factor"), CASES)
@pytest.mark.parametrize("arithmetic", ["float32", "bfloat16"])
def test_the_first_position_is_the_first(rotary, frequencies, factor, arithmetic):
    by = 1e-3
    found = first_off(rotary, by=by, arithmetic=arithmetic)
    assert found is not None
    before = off(frequencies, np.arange(found), arithmetic, factor)
    assert before.max(initial=0) < by
    assert off(frequencies, [found], arithmetic, factor) >= by


@pytest.mark.parametrize("arithmetic", ["float32", "bfloat16"])
def test_other_bounds_have_other_first_positions(arithmetic):
    """Bounds just above and below the largest error so far, wherever it grows."""
    so_far = np.maximum.accumulate(off(series(128, 5e5), np.arange(3000), arithmetic))
    (grown,) = np.nonzero(np.diff(so_far) > 1e-6)
    assert len(grown) > 20
    for position in grown:
        low, high = so_far[position], so_far[position + 1]
        if low > 1e-5:
            for by in (low + 1e-6 * (high - low) + 1e-7, high - 1e-7):
                assert first_off(PLAIN, by=by, arithmetic=arithmetic, limit=3000) == position + 1


@pytest.mark.parametrize(("longest", "survey"), [(4096, 1.9e-4), (131072, 6.2e-3)])
def test_float32_has_the_measured_errors(longest, survey):
    """SURVEY.md, section 5: exact frequencies, multiplied in float32."""
    assert errors(PLAIN, np.arange(longest - 2048, longest)).max() == pytest.approx(survey, rel=0.01)


@pytest.mark.parametrize("position", [2**20 + 1, 3_999_999, 2**22 - 1])
@pytest.mark.parametrize("arithmetic", ["float32", "bfloat16"])
def test_far_positions_are_compared_with_the_true_cosine(position, arithmetic):
    rotary = Rotary(head_dim=10, layout="half", base=7e4, scaling=LLAMA3)
    rounded = ROUNDED[arithmetic]
    with mpmath.workdps(40):
        worst = mpmath.mpf(0)
        for i in range(5):
            frequency = mpmath.mpf(7e4) ** (-mpmath.mpf(2 * i) / 10)
            turns = 8192 * frequency / (2 * mpmath.pi)
            kept = min(max((turns - 1) / 3, 0), 1)
            frequency = frequency * (kept + (1 - kept) / 8)
            angle = mpmath.mpf(float(rounded(rounded(position) * rounded(float(frequency)))))
            for function in (mpmath.cos, mpmath.sin):
                worst = max(worst, abs(function(angle) - function(position * frequency)))
    assert errors(rotary, np.array([position]), arithmetic=arithmetic)[0] == pytest.approx(float(worst), abs=1e-7)


def test_a_search_can_start_later():
    """The first of the following positions, not the first of all."""
    worst = off(series(128, 5e5), np.arange(200), "bfloat16")
    assert first_off(PLAIN, by=0.01, arithmetic="bfloat16", start=20) == 20 + np.argmax(worst[20:] >= 0.01)
    assert first_off(PLAIN, by=0.01, arithmetic="bfloat16", start=20, limit=20) is None


def test_bfloat16_has_no_257():
    """The pair of frequency 1 alone: integers to 256 are exact, 257 becomes 256."""
    one = Rotary(head_dim=2, layout="half")
    assert errors(one, np.arange(257), arithmetic="bfloat16").max() < 1e-7
    assert first_off(one, arithmetic="bfloat16") == 257
    assert first_off(one, arithmetic="bfloat16", limit=257) is None
    for start in range(258):  # wherever the first of the blocks ends
        assert first_off(one, arithmetic="bfloat16", start=start) == 257
    assert loss(one, arithmetic="bfloat16").first_off == ((1e-3, 257), (1e-2, 257), (1e-1, 257))
    assert first_off(one) is None


def test_growing_errors_grow_and_are_reached():
    found = growing_errors(PLAIN, limit=5000)
    positions, worst = (np.array(column) for column in zip(*found, strict=True))
    every = np.maximum.accumulate(off(series(128, 5e5), np.arange(5000), "float32"))
    assert positions[0] == 1
    assert 4500 < positions[-1] < 5000
    assert np.all(np.diff(positions) > 0)
    assert np.all(np.diff(worst) >= 0)
    assert np.all(worst <= every[positions] + 1e-7)
    assert np.all(worst[positions > 100] > every[positions[positions > 100]] / 4)


def test_a_scaling_for_short_sequences_is_searched_up_to_its_length():
    scaling = LongRoPE(
        short_factor=[1, 2], long_factor=[4, 8], original_max_position_embeddings=300, attention_factor=1
    )
    rotary = Rotary(head_dim=4, layout="half", scaling=scaling)
    assert loss(rotary).searched == 300
    assert loss(rotary).first_off == ((1e-3, None), (1e-2, None), (1e-1, None))
    assert max(position for position, _ in loss(rotary).growing) < 300
    assert loss(rotary.at(301)).searched == LIMIT


def test_slow_frequencies_are_searched_to_the_end():
    """Angles are below 4195 radians: float32 rounds them by up to 2**-12, after frequencies by up to 2**-24 of each."""
    rotary = Rotary(head_dim=128, layout="half", base=1e6, scaling=Linear(factor=1e3))
    assert loss(rotary).searched == LIMIT
    assert loss(rotary).first_off[0] == (1e-3, None)
    assert 1e-4 < loss(rotary).growing[-1][1] < 2**-12 + 4195 * 2**-24


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"by": 1e-6}, ("by", "1e-06")),
        ({"start": -1}, ("start", "-1")),
        ({"limit": 0}, ("limit", "0")),
        ({"limit": 2**22 + 1}, ("limit", "4194305")),
        ({"arithmetic": "float16"}, ("arithmetic", "'float16'")),
    ],
)
def test_mistakes_are_told(options, names):
    with rejects(ValueError, *names):
        first_off(PLAIN, **options)


def test_an_unknown_arithmetic_is_told_by_errors_too():
    with rejects(ValueError, "arithmetic", "'float8'"):
        errors(PLAIN, np.arange(3), arithmetic="float8")


@pytest.mark.parametrize("arithmetic", ["float32", "bfloat16"])
@pytest.mark.parametrize("base", [3.0, 10000])
def test_growing_errors_have_eight_positions_for_each_doubling(base, arithmetic):
    rotary = Rotary(head_dim=4, layout="half", base=base)
    found = dict(growing_errors(rotary, limit=2**9 + 1, arithmetic=arithmetic))
    assert [round(2 ** (6 + step / 8)) for step in range(25)] == [end for end in found if end >= 64]
    ends = [*found]
    sampled = np.unique([max(end - back, 0) for end in ends for back in range(16)])
    each = errors(rotary, sampled, arithmetic=arithmetic)
    assert found == {end: each[sampled <= end].max() for end in ends}


@pytest.mark.parametrize("turn", [2, 3, 7, 12, 13])
def test_the_first_step_between_two_places_of_a_circle_is_that_of_a_search(turn):
    for step in range(turn):
        places = [number * step % turn for number in range(turn)]
        for low in range(1, turn):
            for high in range(low, turn):
                found = next((number for number, place in enumerate(places) if low <= place <= high), None)
                assert _first_between(step, turn, low, high) == found
        assert _first_between(step, turn, 2, 1) is None


def test_a_pair_that_does_not_rotate_has_the_frequency_0():
    whole, part = Rotary(head_dim=8, layout="half"), Rotary(head_dim=8, layout="half", rotary_dim=6)
    for one, other in ((whole, part), (part, whole)):
        (last,) = (pair for pair in difference(one, other, positions=9, any_layout=True).pairs if pair.index == 3)
        found = {(last.channels_a, last.frequency_a), (last.channels_b, last.frequency_b)}
        assert found == {((3, 7), whole.frequencies()[3]), (None, 0.0)}
        assert last.distance == pytest.approx(2 * math.sin(8 * whole.frequencies()[3] / 2))


def test_what_differs_first_at_a_position_is_the_same_before_it():
    one, other = (Rotary(head_dim=4, layout="half", base=base) for base in (10000, 10001))
    first = dict(difference(one, other, positions=1).first_off)[1e-3]
    assert [difference(one, other, positions=count).same for count in (first, first + 1)] == [True, False]
    assert [len(difference(one, other, positions=count).pairs) for count in (first, first + 1)] == [0, 1]
