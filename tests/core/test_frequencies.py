from fractions import Fraction

import mpmath
import numpy as np
import pytest

from posenc_core.tables.frequencies import as_float64, chosen, endpoint, geometric, powers_of_two, spaced

from ..errors import rejects
from .test_bad_values import SWEEP


@pytest.mark.parametrize(("dim", "base"), [(128, 10000), (7, 10000), (96, 1000042.0), (2, 2)])
def test_geometric_frequencies_are_rounded_once(dim, base):
    with mpmath.workdps(60):
        wanted = [float(mpmath.mpf(base) ** (-mpmath.mpf(2 * i) / dim)) for i in range((dim + 1) // 2)]
    np.testing.assert_array_equal(as_float64(geometric(dim, base=base)), wanted)


def test_endpoint_frequencies_end_at_one_over_base():
    assert as_float64(endpoint(5, base=10000))[[0, -1]].tolist() == [1, 1e-4]
    assert as_float64(endpoint(1)).tolist() == [1]
    assert endpoint(0) == ()


def test_powers_of_two_and_custom_frequencies():
    assert as_float64(powers_of_two(4)).tolist() == [1, 0.5, 0.25, 0.125]
    assert as_float64(chosen([0.1, 3])).tolist() == [0.1, 3]


def test_frequencies_do_not_depend_on_the_callers_decimal_context():
    from decimal import Context, localcontext

    with localcontext(Context(prec=3)):
        assert geometric(64) == geometric(64)
        coarse = geometric(64)
    assert coarse == geometric(64)


@pytest.mark.parametrize(
    ("frequency", "kind", "names"),
    [
        ("1", TypeError, ("frequencies", "'1'")),
        (np.inf, ValueError, ("frequencies", "inf")),
        (-1.0, ValueError, ("frequencies", "-1.0")),
        (1e100, ValueError, ("frequencies", "1e+100")),
    ],
)
def test_other_frequencies_are_refused(frequency, kind, names):
    with rejects(kind, *names):
        chosen([frequency])


def test_spans_are_at_least_2_to_the_minus_64():
    assert [float(frequency) for frequency in spaced(2, spans=Fraction(1, 2**64))] == [1, 0]
    for spans in (Fraction(1, 2**64 + 1), Fraction(0), Fraction(-1)):
        with rejects(ValueError, "spans", "2**-64"):
            spaced(2, spans=spans)


def test_given_frequencies_are_from_0_to_below_2_to_the_31():
    largest = np.nextafter(2.0**31, 0)
    assert as_float64(chosen([0, largest])).tolist() == [0, largest]
    for wrong in (2.0**31, -(2.0**-1074)):
        with rejects(ValueError, "frequencies", wrong):
            chosen([wrong])


@pytest.mark.parametrize(
    ("cls", "options"),
    [
        (cls, options)
        for cls, options, _ in SWEEP
        if "base" in cls.__dataclass_fields__ and "frequencies" not in options
    ],
    ids=str,
)
def test_a_base_is_above_1(cls, options):
    assert cls(**options | {"base": 1.001}).base == 1.001
    for base in (1, 0.5):
        with rejects(ValueError, "base", base):
            cls(**options | {"base": base})
