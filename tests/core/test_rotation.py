import re

import numpy as np
import pytest

from posenc_core import Rotary, rotate, unrotate
from posenc_core.rotation import full_width, partners, rotate_full_width

RNG = np.random.default_rng(1)
LAYOUTS = ("interleaved", "half")


@pytest.fixture(params=LAYOUTS)
def layout(request):
    return request.param


def by_complex_numbers(x, cos, sin, layout):
    """The rotation as Meta's Llama code has it: a complex multiplication, in float64."""
    pairs = cos.shape[-1]
    first, second = (x[..., 0 : 2 * pairs : 2], x[..., 1 : 2 * pairs : 2])
    if layout == "half":
        first, second = x[..., :pairs], x[..., pairs : 2 * pairs]
    turned = (first + 1j * second) * (cos.astype(float) + 1j * sin)
    result = x.astype(float)
    if layout == "half":
        result[..., :pairs], result[..., pairs : 2 * pairs] = turned.real, turned.imag
    else:
        result[..., 0 : 2 * pairs : 2], result[..., 1 : 2 * pairs : 2] = turned.real, turned.imag
    return result


def test_it_is_a_complex_multiplication(xp, layout):
    x = RNG.normal(size=(2, 3, 5, 10))
    cos, sin = Rotary(head_dim=10, layout=layout, rotary_dim=6).cos_sin([0, 1, 255, 2**20, -7])
    got = rotate(*map(xp.asarray, (x, cos, sin)), layout=layout)
    np.testing.assert_allclose(np.asarray(got), by_complex_numbers(x, cos, sin, layout), rtol=0, atol=1e-14)


def test_the_opposite_rotation_undoes_it(xp, layout):
    x = RNG.normal(size=(5, 8))
    tables = [xp.asarray(t) for t in Rotary(head_dim=8, layout=layout).cos_sin(np.arange(5) * 1000)]
    back = unrotate(rotate(xp.asarray(x), *tables, layout=layout), *tables, layout=layout)
    np.testing.assert_allclose(np.asarray(back), x, rtol=0, atol=1e-6)


def test_scores_depend_on_the_offset_alone(layout):
    q, k = RNG.normal(size=(2, 16))
    rotary = Rotary(head_dim=16, layout=layout)

    def score(m, n):
        turned = [rotate(x[None], *rotary.cos_sin([p]), layout=layout)[0] for x, p in ((q, m), (k, n))]
        return turned[0] @ turned[1]

    assert score(3, 1) == pytest.approx(score(1000002, 1000000), abs=1e-5)
    assert score(3, 1) != pytest.approx(score(3, 2), abs=1e-3)


def test_the_full_width_form_gives_the_same_bits(xp, layout):
    x = RNG.normal(size=(2, 5, 10)).astype(np.float32)
    cos, sin = Rotary(head_dim=10, layout=layout, rotary_dim=6).cos_sin([0, 1, 2, 3, 2**20])
    wide = (xp.asarray(table) for table in full_width(cos, sin, 10, layout=layout))
    partner = xp.asarray(partners(10, 3, layout=layout))
    got = rotate_full_width(xp.asarray(x), *wide, partner)
    np.testing.assert_array_equal(np.asarray(got), rotate(x, cos, sin, layout=layout))


def test_half_precision_is_rounded_once(layout):
    x = RNG.normal(size=(5, 8)).astype(np.float16)
    cos, sin = Rotary(head_dim=8, layout=layout).cos_sin(np.arange(5))
    got = rotate(x, cos, sin, layout=layout)
    assert got.dtype == np.float16
    np.testing.assert_array_equal(got, rotate(x.astype(np.float32), cos, sin, layout=layout).astype(np.float16))


@pytest.mark.parametrize(
    ("x", "layout", "kind", "message"),
    [
        (np.ones((1, 2)), "neox", ValueError, "`layout` must be one of 'interleaved', 'half', got 'neox'."),
        (np.ones((1, 2), int), "half", TypeError, "`x` must be floating-point, got int64; cast it first."),
        (np.ones((1, 2)), "half", ValueError, "`x` is 2 wide, but its table turns 4 channels"),
    ],
)
def test_bad_input(x, layout, kind, message):
    with pytest.raises(kind, match=re.escape(message)):
        rotate(x, np.ones((1, 2)), np.zeros((1, 2)), layout=layout)


def test_arrays_of_no_known_library_are_refused():
    class Odd(list):
        shape, dtype = (1, 2), "float32"

    with pytest.raises(TypeError, match="No array library is known for Odd"):
        rotate(Odd(), np.ones((1, 1)), np.ones((1, 1)), layout="half")
