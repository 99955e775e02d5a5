"""Weights of another layout give the same scores; moved keys are those that were rotated there."""

import re

import mpmath as mp
import numpy as np
import pytest

from posenc_core.encodings import LearnedRotary, MultimodalRotary, Rotary, XPos
from posenc_core.scaling import LongRoPE, Proportional
from posenc_core.weights.rotary import relayout, rerotate

from ..errors import rejects

RNG = np.random.default_rng(7)
LAYOUTS = ("interleaved", "half")
WIDTHS = [(8, None, "lead"), (10, 6, "lead"), (10, 6, "trail"), (7, 4, "lead"), (12, 6, "spread")]


def pairs_of(head_dim, turning, placement, layout):
    """The first and the second channel of each pair that turns, as the layouts are defined."""
    if placement == "spread":
        pairs = [(i, i + head_dim // 2) if layout == "half" else (2 * i, 2 * i + 1) for i in range(head_dim // 2)]
        return np.array(pairs[: turning // 2]).T
    start = head_dim - turning if placement == "trail" else 0
    pairs = [(i, i + turning // 2) if layout == "half" else (2 * i, 2 * i + 1) for i in range(turning // 2)]
    return np.array(pairs).T + start


def turned(x, angles, pairs, growth=1.0):
    """Channel pairs times `growth * exp(1j * angle)`, in float64: `(..., length, head_dim)`."""
    first, second = pairs
    turned = (x[..., first] + 1j * x[..., second]) * growth * np.exp(1j * angles)
    result = x.astype(np.float64)
    result[..., first], result[..., second] = turned.real, turned.imag
    return result


class Attention:
    """Scores of grouped-query attention in float64: 6 query heads, 2 key heads, and every optional part."""

    heads, kv_heads, hidden = 6, 2, 5

    def __init__(self, head_dim, norm):
        self.head_dim, self.norm = head_dim, norm
        rows = {"q": self.heads * head_dim, "k": self.kv_heads * head_dim}
        self.weights = {}
        for name, width in rows.items():
            self.weights[f"{name}.weight"] = RNG.normal(size=(width, self.hidden))
            self.weights[f"{name}.bias"] = RNG.normal(size=width)
            self.weights[f"{name}.norm"] = RNG.normal(size=head_dim if norm == "head" else width)
            self.weights[f"{name}.lora_B"] = RNG.normal(size=(width, 2))
        self.lora_A = RNG.normal(size=(2, self.hidden))

    def scores(self, tokens, weights, angles, pairs):
        q = turned(self.projected("q", self.heads, tokens, weights), angles, pairs)
        k = turned(self.projected("k", self.kv_heads, tokens, weights), angles, pairs)
        k = np.repeat(k, self.heads // self.kv_heads, axis=0)
        return q @ np.swapaxes(k, -1, -2)

    def projected(self, name, heads, tokens, weights):
        w = weights[f"{name}.weight"] + weights[f"{name}.lora_B"] @ self.lora_A
        out = tokens @ w.T + weights[f"{name}.bias"]  # (length, heads * head_dim)
        split = out.reshape(len(tokens), heads, self.head_dim)
        normed = split if self.norm == "head" else out
        normed = normed / np.sqrt((normed**2).mean(axis=-1, keepdims=True)) * weights[f"{name}.norm"]
        return normed.reshape(split.shape).swapaxes(0, 1)


@pytest.mark.parametrize(("source", "target"), [LAYOUTS, LAYOUTS[::-1]])
@pytest.mark.parametrize("norm", ["head", "whole"])
@pytest.mark.parametrize(("head_dim", "rotary_dim", "placement"), WIDTHS)
def test_attention_scores_stay(source, target, norm, head_dim, rotary_dim, placement):
    attention, tokens = Attention(head_dim, norm), RNG.normal(size=(9, Attention.hidden))
    turning = rotary_dim or head_dim
    angles = RNG.uniform(-3, 3, size=(9, turning // 2))
    before, after = (pairs_of(head_dim, turning, placement, layout) for layout in (source, target))
    words = {"source": source, "target": target, "rotary_dim": rotary_dim, "placement": placement}
    relaid = {name: relayout(w, head_dim=head_dim, **words) for name, w in attention.weights.items()}
    wanted = attention.scores(tokens, attention.weights, angles, before)
    np.testing.assert_allclose(attention.scores(tokens, relaid, angles, after), wanted, rtol=0, atol=1e-12)
    assert np.abs(attention.scores(tokens, attention.weights, angles, after) - wanted).max() > 0.1


@pytest.mark.parametrize(("head_dim", "rotary_dim", "placement"), WIDTHS)
@pytest.mark.parametrize(("source", "target"), [LAYOUTS, LAYOUTS[::-1]])
def test_the_way_back_gives_the_same_bits(source, target, head_dim, rotary_dim, placement):
    weight = RNG.integers(0, 2**16, size=(3 * head_dim, 4), dtype=np.uint16)  # bfloat16, infinities and all
    words = {"head_dim": head_dim, "rotary_dim": rotary_dim, "placement": placement}
    there = relayout(weight, source=source, target=target, **words)
    assert there.dtype == weight.dtype
    assert not np.array_equal(there, weight)
    np.testing.assert_array_equal(relayout(there, source=target, target=source, **words), weight)


def test_channels_that_do_not_turn_stay_where_they_are():
    lead, trail = [0, 2, 4, 1, 3, 5, 6, 7, 8, 9], [0, 1, 2, 3, 4, 6, 8, 5, 7, 9]
    for placement, wanted in (("lead", lead), ("trail", trail)):
        got = relayout(np.arange(20), head_dim=10, rotary_dim=6, placement=placement)
        np.testing.assert_array_equal(got, wanted + [10 + row for row in wanted])
    odd = relayout(np.arange(9), head_dim=9, rotary_dim=4, placement="trail")
    np.testing.assert_array_equal(odd, [0, 1, 2, 3, 4, 5, 7, 6, 8])


def test_it_works_along_any_axis_and_in_any_library(to_backend, backend):
    weight = RNG.normal(size=(3, 12, 2)).astype(np.float32)
    for axis in (1, -2):
        got = relayout(to_backend(weight), head_dim=6, rotary_dim=4, placement="trail", axis=axis)
        np.testing.assert_array_equal(backend.to_numpy(got), weight[:, [0, 1, 2, 4, 3, 5, 6, 7, 8, 10, 9, 11]])
    got = relayout(to_backend(weight[0]), head_dim=4, source="half", target="interleaved")
    np.testing.assert_array_equal(backend.to_numpy(got), weight[0][[0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11]])


def test_what_comes_out_in_half_goes_in_interleaved():
    """DeepSeek's rotation reads pairs of neighbours: its weights are those of an interleaved model."""
    weight = np.arange(8)
    same = relayout(weight, head_dim=8, source="interleaved", target="interleaved_to_half")
    np.testing.assert_array_equal(same, weight)
    got = relayout(weight, head_dim=8, source="interleaved_to_half", target="half")
    np.testing.assert_array_equal(got, [0, 2, 4, 6, 1, 3, 5, 7])
    back = relayout(got, head_dim=8, source="half", target="interleaved_to_half")
    np.testing.assert_array_equal(back, weight)


@pytest.mark.parametrize(
    ("weight", "words", "kind", "names"),
    [
        (np.ones(12), {}, ValueError, ("weight", "(12,)")),
        (np.ones((8, 3)), {"axis": 1}, ValueError, ("weight", "(8, 3)")),
        (np.ones(8), {"axis": 1}, ValueError, ("axis", "1")),
        (np.ones(8), {"axis": -2}, ValueError, ("axis", "-2")),
        (np.ones(8), {"source": "neox"}, ValueError, ("source", "'neox'")),
        (np.ones(8), {"target": None}, ValueError, ("target", "None")),
        (np.ones(8), {"placement": "end"}, ValueError, ("placement", "'end'")),
        (np.ones(8), {"rotary_dim": 3}, ValueError, ("rotary_dim", "3")),
        (np.ones(8), {"rotary_dim": 10}, ValueError, ("rotary_dim", "10")),
        (np.ones(7), {"head_dim": 7}, ValueError, ("head_dim", "7")),
        (np.ones(8), {"head_dim": "8"}, TypeError, ("head_dim", "'8'")),
        ([1.0] * 8, {}, TypeError, ("weight", "list")),
    ],
)
def test_weights_that_do_not_fit(weight, words, kind, names):
    with rejects(kind, *names):
        relayout(weight, **{"head_dim": 8} | words)


def powers(dim, base=10000, divisors=None):
    """Frequencies by their definition, to 40 digits."""
    with mp.workdps(40):
        plain = [mp.mpf(base) ** (-mp.mpf(2 * i) / dim) for i in range(dim // 2)]
        return plain if divisors is None else [f / mp.mpf(d) for f, d in zip(plain, divisors, strict=True)]


def angles_of(positions, frequencies):
    """Position × frequency less whole turns, in float64: `(..., length, pairs)`."""
    with mp.workdps(40):
        rows = [[float(mp.fmod(mp.mpf(p) * f, 2 * mp.pi)) for f in frequencies] for p in np.ravel(positions).tolist()]
    return np.array(rows).reshape(*np.shape(positions), len(frequencies))


def off_by(got, wanted, pairs):
    """The largest error, in units in the last place of the length of its pair."""
    first, second = pairs
    length = np.hypot(wanted[..., first], wanted[..., second]).astype(np.float32)
    error = np.abs(np.asarray(got, np.float64) - wanted)
    return (np.maximum(error[..., first], error[..., second]) / np.spacing(length)).max()


FAR = np.array([2**20 - 3, 2**20 + 5, 3, 0, 2**24 + 1, 17, 4096])
THERE = np.array([2**20 + 900, 1, 2, -7, 2**24 - 4096, 2**30, 4097])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("direction", ["forward", "inverse"])
@pytest.mark.parametrize(("head_dim", "rotary_dim", "placement"), [*WIDTHS[:4], (64, None, "lead")])
def test_keys_are_moved_by_the_difference_of_positions(
    to_backend, backend, layout, direction, head_dim, rotary_dim, placement
):
    turning = rotary_dim or head_dim
    pairs = pairs_of(head_dim, turning, placement, layout)
    rotary = Rotary(head_dim=head_dim, layout=layout, rotary_dim=rotary_dim, placement=placement, direction=direction)
    keys = RNG.normal(size=(2, 3, len(FAR), head_dim)).astype(np.float32)
    got = backend.to_numpy(rerotate(to_backend(keys), FAR, THERE, rotary=rotary))
    angles = angles_of(THERE - FAR, powers(turning)) * (1 if direction == "forward" else -1)
    assert off_by(got, turned(keys, angles, pairs), pairs) < 2
    others = np.setdiff1d(np.arange(head_dim), pairs)
    np.testing.assert_array_equal(got[..., others].view(np.uint32), keys[..., others].view(np.uint32))


@pytest.mark.parametrize("precision", ["exact", "float32"])
def test_keys_that_stay_keep_their_bits(precision):
    keys = RNG.normal(size=(len(FAR), 8)).astype(np.float32)
    rotary = Rotary(head_dim=8, layout="half", precision=precision)
    stayed = rerotate(keys, FAR, FAR, rotary=rotary)
    np.testing.assert_array_equal(stayed.view(np.uint32), keys.view(np.uint32))
    moved = rerotate(keys, FAR, np.concatenate([FAR[:1] + 1, FAR[1:]]), rotary=rotary)
    np.testing.assert_array_equal(moved[1:].view(np.uint32), keys[1:].view(np.uint32))
    assert (moved[0] != keys[0]).any()


def longrope():
    short, long = (tuple(float(x) for x in RNG.uniform(1, top, size=8)) for top in (1.5, 40))
    return LongRoPE(short_factor=short, long_factor=long, original_max_position_embeddings=4096, factor=32)


def test_the_switch_of_longrope_is_crossed():
    scaling = longrope()
    rotary = Rotary(head_dim=16, layout="half", scaling=scaling)
    pairs = pairs_of(16, 16, "lead", "half")
    positions = np.array([0, 1, 4094, 4095])
    keys = RNG.normal(size=(2, 4, 16)).astype(np.float32)
    got = rerotate(keys, positions, positions, rotary=rotary.at(4096), to_rotary=rotary.at(4097))
    old, new = (angles_of(positions, powers(16, divisors=d)) for d in (scaling.short_factor, scaling.long_factor))
    assert off_by(got, turned(keys, new - old, pairs), pairs) < 3
    assert np.abs(got - keys).max() > 0.1
    np.testing.assert_array_equal(rerotate(keys, positions, positions, rotary=rotary, to_rotary=rotary.at(4096)), keys)


def test_attention_factors_are_divided_out_and_multiplied_in():
    raw = RNG.normal(size=(4, 16))
    pairs = pairs_of(16, 16, "lead", "interleaved")
    scaling = LongRoPE(
        short_factor=(1.0,) * 8, long_factor=(3.0,) * 8, original_max_position_embeddings=4096,
        short_mscale=1.25, long_mscale=1.75,
    )  # fmt: skip
    rotary = Rotary(head_dim=16, layout="interleaved", scaling=scaling)
    positions, moved = np.array([5, 2**20, 9, 4095]), np.array([4, 2**20 - 1, 9, 4000])
    at_short, still_short = (turned(raw, angles_of(p, powers(16)), pairs, 1.25) for p in (positions, moved))
    at_long = turned(raw, angles_of(moved, powers(16, divisors=[3] * 8)), pairs, 1.75)
    keys = at_short.astype(np.float32)
    assert off_by(rerotate(keys, positions, moved, rotary=rotary), still_short, pairs) < 3
    got = rerotate(keys, positions, moved, rotary=rotary, to_rotary=rotary.at(2**21))
    assert off_by(got, at_long, pairs) < 3


def test_keys_are_taken_to_another_base():
    raw, pairs = RNG.normal(size=(len(FAR), 16)), pairs_of(16, 16, "lead", "half")
    old, new = (Rotary(head_dim=16, layout="half", base=base) for base in (10000, 500000))
    keys = turned(raw, angles_of(FAR, powers(16)), pairs).astype(np.float32)
    got = rerotate(keys, FAR, THERE, rotary=old, to_rotary=new)
    assert off_by(got, turned(raw, angles_of(THERE, powers(16, 500000)), pairs), pairs) < 3


def test_keys_of_float32_angles_go_to_float32_angles():
    """There the difference of two angles is not the angle of the difference, by a hundredth of a radian."""
    raw, pairs = RNG.normal(size=(3, 16)), pairs_of(16, 16, "lead", "half")
    rotary = Rotary(head_dim=16, layout="half", precision="float32")
    positions = np.array([2**20 + 1, 2**20 + 77, 2**20 + 1023])
    slow = np.array([float(f) for f in powers(16)]).astype(np.float32)
    old, new = ((p.astype(np.float32)[:, None] * slow).astype(np.float64) for p in (positions, positions - 1000))
    keys = turned(raw, old, pairs).astype(np.float32)
    got = rerotate(keys, positions, positions - 1000, rotary=rotary)
    assert off_by(got, turned(raw, new, pairs), pairs) < 3
    assert off_by(got, turned(raw, angles_of(positions - 1000, powers(16)), pairs), pairs) > 1000


@pytest.mark.parametrize("to_base", [10000, 20000])
def test_a_cache_of_half_output_is_turned_in_half_layout(to_base):
    """What `interleaved_to_half` rotated lies in halves, and is turned there again."""
    raw = RNG.normal(size=(len(FAR), 12))
    split, joined = (pairs_of(12, 6, "trail", layout) for layout in LAYOUTS)
    old, new = (
        Rotary(head_dim=12, layout="interleaved_to_half", rotary_dim=6, placement="trail", base=base)
        for base in (10000, to_base)
    )

    def cached(angles):
        result = turned(raw, angles, split)
        result[:, joined] = result[:, split]
        return result

    keys = cached(angles_of(FAR, powers(6))).astype(np.float32)
    got = rerotate(keys, FAR, THERE, rotary=old, to_rotary=new)
    wanted = cached(angles_of(THERE, powers(6, to_base)))
    assert off_by(got, wanted, joined) < 3
    np.testing.assert_array_equal(got[:, :6], keys[:, :6])


def test_pairs_that_stand_still_keep_their_bits():
    rotary = Rotary(head_dim=12, layout="half", placement="spread", scaling=Proportional(partial_rotary_factor=0.5))
    pairs = pairs_of(12, 6, "spread", "half")
    keys = RNG.normal(size=(len(FAR), 12)).astype(np.float32)
    keys[0, 3] = -0.0
    got = rerotate(keys, FAR, THERE, rotary=rotary)
    assert off_by(got, turned(keys, angles_of(THERE - FAR, powers(12)[:3]), pairs), pairs) < 2
    others = np.setdiff1d(np.arange(12), pairs)
    np.testing.assert_array_equal(got[:, others].view(np.uint32), keys[:, others].view(np.uint32))


def test_keys_that_grow_along_the_sequence_grow_as_they_should():
    """Keys are multiplied by z**-((p - c) / scale_base), z = (2i/d + 0.4) / 1.4."""
    rotary = XPos(head_dim=8, layout="half", scale_base=64, center=10)
    pairs = pairs_of(8, 8, "lead", "half")
    old, new = np.array([0, 5, 90]), np.array([60, 4, 80])
    raw, z = RNG.normal(size=(3, 8)), (np.arange(4) / 4 + 0.4) / 1.4
    there, wanted = (turned(raw, angles_of(p, powers(8)), pairs, z ** (-(p[:, None] - 10) / 64)) for p in (old, new))
    assert off_by(rerotate(there.astype(np.float32), old, new, rotary=rotary), wanted, pairs) < 3


def test_positions_may_have_several_axes():
    rotary = MultimodalRotary(head_dim=8, layout="half", sections=(2, 1, 1))
    pairs = pairs_of(8, 8, "lead", "half")
    old = np.array([[[5, 6, 7]] * 2, [[2**20, 1, 2]] * 2, [[9, 9, 4], [1, 2, 3]]])  # (axes, batch, length)
    new = old + np.array([3, -40, 7])[:, None, None]
    keys = RNG.normal(size=(2, 5, 3, 8)).astype(np.float32)
    steps = (new - old)[[0, 0, 1, 2]]  # the axis that each pair turns by
    angles = np.stack([angles_of(step, [f])[..., 0] for step, f in zip(steps, powers(8), strict=True)], axis=-1)
    got = rerotate(keys, old, new, rotary=rotary)
    assert off_by(got, turned(keys, angles[:, None], pairs), pairs) < 2
    text = rerotate(keys, [1, 2, 3], [0, 1, 2], rotary=rotary)
    np.testing.assert_array_equal(text, rerotate(keys, [1, 2, 3], [0, 1, 2], rotary=Rotary(head_dim=8, layout="half")))


@pytest.mark.parametrize(("order", "seq_axis"), [((0, 1, 2, 3), -2), ((0, 2, 1, 3), 1), ((2, 0, 1, 3), 0)])
def test_each_row_of_a_batch_may_have_positions_of_its_own(to_backend, backend, order, seq_axis):
    rotary = Rotary(head_dim=6, layout="interleaved")
    pairs = pairs_of(6, 6, "lead", "interleaved")
    keys = RNG.normal(size=(2, 3, 5, 6)).astype(np.float32)  # (batch, heads, length, head_dim)
    old = np.arange(5)
    new = np.array([old - 3, old + 2**20])  # (batch, length)
    got = backend.to_numpy(rerotate(to_backend(keys.transpose(order)), old, new, rotary=rotary, seq_axis=seq_axis))
    wanted = turned(keys, angles_of(new - old, powers(6))[:, None], pairs)
    assert off_by(got.transpose(np.argsort(order)), wanted, pairs) < 2


def test_half_precision_is_rounded_once():
    rotary = Rotary(head_dim=8, layout="half")
    keys = RNG.normal(size=(len(FAR), 8)).astype(np.float16)
    got = rerotate(keys, FAR, THERE, rotary=rotary)
    assert got.dtype == np.float16
    wide = rerotate(keys.astype(np.float32), FAR, THERE, rotary=rotary)
    np.testing.assert_array_equal(got, wide.astype(np.float16))


HALF = Rotary(head_dim=8, layout="half")


@pytest.mark.parametrize(
    ("changes", "kind", "message"),
    [
        (
            {"to_rotary": Rotary(head_dim=8, layout="interleaved")},
            ValueError,
            "`to_rotary` must turn the same pairs of",
        ),
        ({"to_rotary": Rotary(head_dim=8, layout="half", rotary_dim=4)}, ValueError, "`to_rotary` must turn the same"),
        ({"to_rotary": Rotary(head_dim=8, layout="half", direction="inverse")}, ValueError, "the same way round"),
        ({"to_rotary": "half"}, TypeError, "`to_rotary` must be a rotary encoding, got 'half'."),
        ({"rotary": None}, TypeError, "`rotary` must be a rotary encoding, got None."),
        ({"rotary": Rotary(head_dim=6, layout="half")}, ValueError, "`keys` must be 6 wide, got shape (2, 3, 8)."),
        ({"keys": np.ones((2, 3, 8), int)}, TypeError, "`keys` must be floating-point, got int64; cast it first."),
        ({"keys": [1.0]}, TypeError, "`keys` must be an array, got list."),
        ({"seq_axis": 2}, ValueError, "`seq_axis` must be an axis of `keys` before the last of 3, got 2."),
        ({"seq_axis": -4}, ValueError, "`seq_axis` must be at least -3, got -4."),
        ({"from_positions": [0, 1]}, ValueError, "`from_positions` must have shape (3,) or (1, 3) or (2, 3) to fit"),
        ({"to_positions": np.ones((4, 3))}, ValueError, "`to_positions` must have shape (3,) or (1, 3) or (2, 3) to"),
        ({"to_positions": [0, np.nan, 1]}, ValueError, "`positions` must be finite and below 2**31 in size, got nan."),
        ({"to_positions": ["a", "b", "c"]}, TypeError, "`positions` must be integers or real numbers"),
    ],
)
def test_keys_that_do_not_fit(changes, kind, message):
    given = {
        "keys": np.ones((2, 3, 8)),
        "from_positions": [0, 1, 2],
        "to_positions": [1, 2, 3],
        "rotary": HALF,
    } | changes
    with pytest.raises(kind, match=re.escape(message)):
        rerotate(given.pop("keys"), given.pop("from_positions"), given.pop("to_positions"), **given)


def test_rows_of_a_batch_and_all_of_them_alike_are_moved_on_axes():
    rotary = MultimodalRotary(head_dim=8, layout="half", sections=(2, 1, 1))
    keys = np.random.default_rng(5).normal(size=(3, 1, 4, 8))
    old, new = np.arange(36).reshape(3, 3, 4), np.arange(12).reshape(3, 4) + 1000
    both = np.broadcast_to(new[:, None], old.shape)
    for batch in (3, 2):
        got = rerotate(keys[:batch], old[:, :batch], new, rotary=rotary)
        wanted = rerotate(keys[:batch], old[:, :batch], both[:, :batch], rotary=rotary)
        np.testing.assert_array_equal(got, wanted)


def test_what_a_layer_learned_is_not_known_outside_it():
    learned = LearnedRotary(head_dim=8, layout="half")
    with rejects(TypeError, "rotary", "LearnedRotary(head_dim=8, layout='half')"):
        rerotate(np.ones((1, 8)), [0], [1], rotary=learned)
