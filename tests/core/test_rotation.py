import subprocess
import sys

import numpy as np
import pytest

from posenc_core import Rotary, relayout, rotate, unrotate
from posenc_core._array_api import kernels, numpy_kernel
from posenc_core.rotation import channel_pairs, pair_slices, pairing_of, rotate_reference

from ..errors import rejects
from .channel_map import channel_map

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
    rotated = (first + 1j * second) * (cos.astype(float) + 1j * sin)
    result = x.astype(float)
    if layout == "half":
        result[..., :pairs], result[..., pairs : 2 * pairs] = rotated.real, rotated.imag
    else:
        result[..., 0 : 2 * pairs : 2], result[..., 1 : 2 * pairs : 2] = rotated.real, rotated.imag
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
        rotated = [rotate(x[None], *rotary.cos_sin([p]), layout=layout)[0] for x, p in ((q, m), (k, n))]
        return rotated[0] @ rotated[1]

    assert score(3, 1) == pytest.approx(score(1000002, 1000000), abs=1e-5)
    assert score(3, 1) != pytest.approx(score(3, 2), abs=1e-3)


PAIRINGS = [
    *((layout, placement, 1) for layout in LAYOUTS for placement in ("lead", "trail", "spread")),
    *(("interleaved_to_half", placement, 1) for placement in ("lead", "trail")),
    *((layout, placement, 3) for layout in LAYOUTS for placement in ("lead", "trail")),
]


@pytest.mark.parametrize("placement", ["lead", "trail"])
def test_a_pairing_has_as_many_blocks_as_are_asked_for(layout, placement):
    assert [pairing_of(layout, placement, blocks).blocks for blocks in (1, 2, 3)] == [1, 2, 3]
    with rejects(ValueError, "blocks", 0):
        pairing_of(layout, placement, 0)


@pytest.mark.parametrize(("layout", "placement", "blocks"), PAIRINGS)
def test_channel_by_channel_it_is_the_same(xp, layout, placement, blocks):
    x = RNG.normal(size=(2, 5, 16)).astype(np.float32)
    cos, sin = Rotary(head_dim=12, layout="half").cos_sin([0, 1, 2, 3, 2**20])
    pairing = {"layout": layout, "placement": placement, "blocks": blocks}
    mapping = channel_map(16, 6, pairing_of(**pairing))
    wanted = x.copy()
    wanted[..., mapping.channels] = (
        x[..., mapping.source] * cos[..., mapping.column]
        + x[..., mapping.partner] * mapping.sign * sin[..., mapping.column]
    )
    rotated = rotate(*map(xp.asarray, (x, cos, sin)), **pairing)
    np.testing.assert_array_equal(np.asarray(rotated), wanted)
    back = unrotate(rotated, xp.asarray(cos), xp.asarray(sin), **pairing)
    np.testing.assert_allclose(np.asarray(back), x, rtol=0, atol=1e-6)


@pytest.mark.parametrize(("layout", "placement", "blocks"), PAIRINGS)
def test_unrotated_channels_keep_their_bits(layout, placement, blocks):
    mapping = channel_map(16, 3, pairing_of(layout, placement, blocks))
    unrotated = np.setdiff1d(np.arange(16), mapping.channels)
    x = np.ones((1, 16), np.float32)
    x[:, unrotated] = np.resize([np.nan, np.inf, -0.0, -np.inf], len(unrotated))
    rotated = rotate(
        x, np.full((1, 3), 0.6, np.float32), np.full((1, 3), 0.8, np.float32),
        layout=layout, placement=placement, blocks=blocks,
    )  # fmt: skip
    assert len(unrotated) == 10
    np.testing.assert_array_equal(rotated[:, unrotated].view(np.int32), x[:, unrotated].view(np.int32))
    assert np.isfinite(rotated[:, mapping.channels]).all()


def pairs_of(width, pairs, layout, placement, blocks):
    """Return the first and second channel of each pair, counted one by one."""
    size, found = pairs // blocks, []
    for pair in range(pairs):
        block, place = divmod(pair, size)
        begin = 2 * size * block + (width - 2 * pairs if placement == "trail" else 0)
        if layout == "interleaved":
            found.append((begin + 2 * place, begin + 2 * place + 1))
        else:
            found.append((begin + place, begin + place + (width // 2 if placement == "spread" else size)))
    return found


@pytest.mark.parametrize(("layout", "placement", "blocks"), PAIRINGS)
@pytest.mark.parametrize("pairs", [3, 6, 9])
def test_all_agree_on_the_pairs(layout, placement, blocks, pairs):
    """For the fused kernel see tests/backends/test_kernels.py."""
    width, pairing = 18, pairing_of(layout, placement, blocks)
    before, after = (pairs_of(width, pairs, end, placement, blocks) for end in pairing[:2])
    x, cos, sin = RNG.normal(size=(1, width)), RNG.normal(size=(1, pairs)), RNG.normal(size=(1, pairs))
    wanted = x.copy()
    for column, ((first, second), (to_first, to_second)) in enumerate(zip(before, after, strict=True)):
        wanted[:, to_first] = x[:, first] * cos[:, column] - x[:, second] * sin[:, column]
        wanted[:, to_second] = x[:, second] * cos[:, column] + x[:, first] * sin[:, column]
    np.testing.assert_array_equal(rotate_reference(x, cos, sin, pairing), wanted)
    slices = pair_slices(width, pairs, pairing)
    np.testing.assert_array_equal(numpy_kernel.rotate(x, cos, sin, *slices), wanted)
    unrotated = np.concatenate([np.arange(width)[channels] for channels in slices[1]])
    np.testing.assert_array_equal(unrotated, np.setdiff1d(np.arange(width), np.ravel(before)))
    for end, channels in ((pairing.split, before), (pairing.join, after)):
        np.testing.assert_array_equal(channel_pairs(width, pairs, pairing, end).T, channels)


@pytest.mark.parametrize("placement", ["lead", "trail", "spread"])
@pytest.mark.parametrize(("source", "target"), [("interleaved", "half"), ("half", "interleaved")])
@pytest.mark.parametrize("rotary_dim", [6, 24])
def test_so_do_weights(source, target, placement, rotary_dim):
    pairs = 12 if placement == "spread" else rotary_dim // 2
    weights = relayout(
        np.arange(24), head_dim=24, rotary_dim=rotary_dim, source=source, target=target, placement=placement
    )
    np.testing.assert_array_equal(
        weights[pairs_of(24, pairs, target, placement, 1)], pairs_of(24, pairs, source, placement, 1)
    )
    rest = np.setdiff1d(np.arange(24), pairs_of(24, pairs, source, placement, 1))
    np.testing.assert_array_equal(weights[rest], rest)


@pytest.mark.parametrize("out", [None, np.empty((1, 8))])
def test_a_kernel_is_asked_once(monkeypatch, out):
    asked = []
    kernel = kernels.Kernel(lambda x: True, lambda *arguments: asked.append(arguments))
    monkeypatch.setitem(kernels._kernels, np.ndarray, kernel)
    x, cos, sin = RNG.normal(size=(1, 8)), RNG.normal(size=(1, 4)), RNG.normal(size=(1, 4))
    rotated = rotate(x, cos, sin, layout="half", out=out)
    np.testing.assert_array_equal(rotated, rotate_reference(x, cos, sin, pairing_of("half")))
    assert len(asked) == 1


def test_the_core_registers_no_kernel():
    """Which one runs would depend on the order of imports."""
    code = "import posenc_core.rotation; from posenc_core._array_api import kernels; assert not kernels._kernels"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize(("layout", "placement", "blocks"), PAIRINGS)
def test_large_arrays_have_the_same_bits_part_by_part(monkeypatch, layout, placement, blocks, dtype):
    monkeypatch.setattr(kernels, "_kernels", {})
    x, tables = RNG.normal(size=(3, 700, 16)).astype(dtype), RNG.normal(size=(2, 700, 6)).astype(np.float32)
    pairing = pairing_of(layout, placement, blocks)
    assert numpy_kernel.supports(x)
    wanted = rotate_reference(x, *tables, pairing)
    for out in (None, np.empty_like(x), x):
        np.testing.assert_array_equal(
            rotate(x, *tables, layout=layout, placement=placement, blocks=blocks, out=out), wanted
        )
    wanted.flags.writeable = False
    with pytest.raises(TypeError, match="`out` must be an array that can be written to"):
        rotate(x, *tables, layout=layout, placement=placement, blocks=blocks, out=wanted)


@pytest.mark.parametrize("shape", [(), (3,), (2, 1)])
@pytest.mark.parametrize("pairs", [20000, 5])
def test_rows_wider_than_a_part_are_not_cut(shape, pairs, layout):
    x, tables = RNG.normal(size=(*shape, 40000)), RNG.normal(size=(2, *shape, pairs))
    got = numpy_kernel.rotate(x, *tables, *pair_slices(40000, pairs, pairing_of(layout)))
    np.testing.assert_allclose(got, by_complex_numbers(x, *tables, layout), rtol=0, atol=1e-14)


def test_pairs_come_from_one_layout_and_go_to_the_other():
    quarter = np.zeros((1, 2)), np.ones((1, 2))
    rotated = rotate(np.array([[1.0, 2.0, 3.0, 4.0]]), *quarter, layout="interleaved_to_half")
    np.testing.assert_array_equal(rotated, [[-2.0, -4.0, 1.0, 3.0]])


def test_spread_pairs_are_those_of_the_whole_width():
    quarter = np.zeros((1, 1)), np.ones((1, 1))
    rotated = rotate(np.array([[1.0, 2.0, 3.0, 4.0]]), *quarter, layout="half", placement="spread")
    np.testing.assert_array_equal(rotated, [[-3.0, 2.0, 1.0, 4.0]])


def test_blocks_have_pairs_of_their_own():
    quarter = np.zeros((1, 4)), np.ones((1, 4))
    rotated = rotate(np.arange(1.0, 9.0)[None], *quarter, layout="half", blocks=2)
    np.testing.assert_array_equal(rotated, [[-3, -4, 1, 2, -7, -8, 5, 6]])


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ({"layout": "half", "placement": "front"}, ("placement", "'front'")),
        ({"layout": "half", "blocks": 3}, ("blocks", "3")),
        ({"layout": "half", "blocks": 2, "placement": "spread"}, ("placement", "'half'")),
        ({"layout": "interleaved_to_half", "placement": "spread"}, ("placement", "'interleaved_to_half'")),
    ],
)
def test_words_that_do_not_go_together(words, names):
    with rejects(ValueError, *names):
        rotate(np.ones((1, 8)), np.ones((1, 4)), np.zeros((1, 4)), **words)


def test_half_precision_is_rounded_once(layout):
    x = RNG.normal(size=(5, 8)).astype(np.float16)
    cos, sin = Rotary(head_dim=8, layout=layout).cos_sin(np.arange(5))
    got = rotate(x, cos, sin, layout=layout)
    assert got.dtype == np.float16
    np.testing.assert_array_equal(got, rotate(x.astype(np.float32), cos, sin, layout=layout).astype(np.float16))


@pytest.mark.parametrize(
    ("x", "layout", "kind", "names"),
    [
        (np.ones((1, 2)), "neox", ValueError, ("layout", "'neox'")),
        (np.ones((1, 2), int), "half", TypeError, ("x", "int64")),
        (np.ones((1, 2)), "half", ValueError, ("x", "2", "4", "`rotary_dim`")),
    ],
)
def test_bad_input(x, layout, kind, names):
    with rejects(kind, *names):
        rotate(x, np.ones((1, 2)), np.zeros((1, 2)), layout=layout)


def test_arrays_of_no_known_library_are_refused():
    class Odd(list):
        shape, dtype = (1, 2), "float32"

    with rejects(TypeError, None, "Odd"):
        rotate(Odd(), np.ones((1, 1)), np.ones((1, 1)), layout="half")
