import re

import numpy as np
import pytest

from posenc_backends.conformance.oracles import channel_map
from posenc_core import Rotary, rotate, unrotate
from posenc_core._array_api import numpy_kernel as _blocked
from posenc_core.rotation import pairing_of

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


PAIRINGS = [
    *((layout, placement, 1) for layout in LAYOUTS for placement in ("lead", "trail", "spread")),
    *(("interleaved_to_half", placement, 1) for placement in ("lead", "trail")),
    *((layout, placement, 3) for layout in LAYOUTS for placement in ("lead", "trail")),
]


@pytest.mark.parametrize(("layout", "placement", "blocks"), PAIRINGS)
def test_channel_by_channel_it_is_the_same(xp, layout, placement, blocks):
    x = RNG.normal(size=(2, 5, 16)).astype(np.float32)
    cos, sin = Rotary(head_dim=12, layout="half").cos_sin([0, 1, 2, 3, 2**20])
    pairing = {"layout": layout, "placement": placement, "blocks": blocks}
    way = channel_map(16, 6, pairing_of(**pairing))
    wanted = x.copy()
    wanted[..., way.channels] = (
        x[..., way.source] * cos[..., way.column] + x[..., way.partner] * way.sign * sin[..., way.column]
    )
    turned = rotate(*map(xp.asarray, (x, cos, sin)), **pairing)
    np.testing.assert_array_equal(np.asarray(turned), wanted)
    back = unrotate(turned, xp.asarray(cos), xp.asarray(sin), **pairing)
    np.testing.assert_allclose(np.asarray(back), x, rtol=0, atol=1e-6)


@pytest.mark.parametrize(("layout", "placement", "blocks"), PAIRINGS)
def test_channels_that_do_not_turn_keep_their_bits(layout, placement, blocks):
    way = channel_map(16, 3, pairing_of(layout, placement, blocks))
    still = np.setdiff1d(np.arange(16), way.channels)
    x = np.ones((1, 16), np.float32)
    x[:, still] = np.resize([np.nan, np.inf, -0.0, -np.inf], len(still))
    turned = rotate(
        x, np.full((1, 3), 0.6, np.float32), np.full((1, 3), 0.8, np.float32),
        layout=layout, placement=placement, blocks=blocks,
    )  # fmt: skip
    assert len(still) == 10
    np.testing.assert_array_equal(turned[:, still].view(np.int32), x[:, still].view(np.int32))
    assert np.isfinite(turned[:, way.channels]).all()


@pytest.mark.parametrize("shape", [(), (3,), (2, 1)])
@pytest.mark.parametrize("pairs", [20000, 5])
def test_rows_wider_than_a_part_are_not_cut(shape, pairs, layout):
    x, tables = RNG.normal(size=(*shape, 40000)), RNG.normal(size=(2, *shape, pairs))
    got = _blocked.turned(x, *tables, pairing_of(layout))
    np.testing.assert_allclose(got, by_complex_numbers(x, *tables, layout), rtol=0, atol=1e-14)


def test_pairs_come_from_one_layout_and_go_to_the_other():
    quarter = np.zeros((1, 2)), np.ones((1, 2))
    turned = rotate(np.array([[1.0, 2.0, 3.0, 4.0]]), *quarter, layout="interleaved_to_half")
    np.testing.assert_array_equal(turned, [[-2.0, -4.0, 1.0, 3.0]])


def test_spread_pairs_are_those_of_the_whole_width():
    quarter = np.zeros((1, 1)), np.ones((1, 1))
    turned = rotate(np.array([[1.0, 2.0, 3.0, 4.0]]), *quarter, layout="half", placement="spread")
    np.testing.assert_array_equal(turned, [[-3.0, 2.0, 1.0, 4.0]])


def test_blocks_have_pairs_of_their_own():
    quarter = np.zeros((1, 4)), np.ones((1, 4))
    turned = rotate(np.arange(1.0, 9.0)[None], *quarter, layout="half", blocks=2)
    np.testing.assert_array_equal(turned, [[-3, -4, 1, 2, -7, -8, 5, 6]])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            {"layout": "half", "placement": "front"},
            "`placement` must be one of 'lead', 'trail', 'spread', got 'front'.",
        ),
        ({"layout": "half", "blocks": 3}, "`blocks` must divide the 4 pairs, got 3."),
        (
            {"layout": "half", "blocks": 2, "placement": "spread"},
            "`placement` 'spread' goes with one block of one layout",
        ),
        ({"layout": "interleaved_to_half", "placement": "spread"}, "`placement` 'spread' goes with one block"),
    ],
)
def test_words_that_do_not_go_together(words, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        rotate(np.ones((1, 8)), np.ones((1, 4)), np.zeros((1, 4)), **words)


def test_half_precision_is_rounded_once(layout):
    x = RNG.normal(size=(5, 8)).astype(np.float16)
    cos, sin = Rotary(head_dim=8, layout=layout).cos_sin(np.arange(5))
    got = rotate(x, cos, sin, layout=layout)
    assert got.dtype == np.float16
    np.testing.assert_array_equal(got, rotate(x.astype(np.float32), cos, sin, layout=layout).astype(np.float16))


@pytest.mark.parametrize(
    ("x", "layout", "kind", "message"),
    [
        (
            np.ones((1, 2)),
            "neox",
            ValueError,
            "`layout` must be one of 'interleaved', 'half', 'interleaved_to_half', got 'neox'.",
        ),
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
