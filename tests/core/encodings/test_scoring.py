"""Scoring encodings that look at positions alone: what they are made of, and what they cost."""

import copy
import tracemalloc

import numpy as np
import pytest

from posenc_backends.numpy import AttentionBias
from posenc_core import Alibi, DynamicPositionBias, Fire, Kerple, Sandwich, SwinBias, T5Bias, attend, from_mask
from posenc_core.encodings import Placed

from ...errors import rejects

LONG = 1024
HEADS = 32
RESULT = HEADS * LONG * LONG * 4


def layer_of(encoding):
    layer, numbers = AttentionBias(encoding), np.random.default_rng(7)
    drawn = {name: numbers.normal(p.mean, p.std, p.shape) for name, p in encoding.parameters().items()}
    layer.set_tables({name: array.astype(np.float32) for name, array in drawn.items()})
    return layer


def plain(encoding, queries, keys):
    return layer_of(encoding)(np.zeros((encoding.num_heads, queries, keys), np.float32))


def test_far_positions_keep_their_distance():
    bias = Alibi(num_heads=1).bias([2**30 + 1], [2**30, 2**30 + 1])
    np.testing.assert_array_equal(bias, [[[-1 / 256, 0]]])


def test_keys_after_a_query_count_or_do_not():
    assert Alibi(num_heads=1).bias([1], [0, 1, 4]).tolist() == [[[-1 / 256, 0, -3 / 256]]]
    assert Alibi(num_heads=1, sides="past").bias([1], [0, 1, 4]).tolist() == [[[-1 / 256, 0, 0]]]
    table = np.arange(8, dtype=np.float32)[:, None]
    for sides, expected in (("both", [1, 0, 6]), ("past", [1, 0, 0])):
        layer = layer_of(T5Bias(num_heads=1, num_buckets=8, max_distance=8, sides=sides))
        layer.set_tables({"table": table})
        got = layer(np.zeros((1, 1, 3), np.float32), query_positions=[1], key_positions=[0, 1, 4])
        assert got.ravel().tolist() == expected


def test_padded_rows_are_told_by_positions_from_a_mask():
    mask = np.array([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]])
    positions = from_mask(mask)
    layer = layer_of(Alibi(num_heads=2))
    padded = layer(np.zeros((2, 2, 5, 5), np.float32), query_positions=positions, key_positions=positions)
    np.testing.assert_array_equal(padded[0, :, 2:, 2:], layer(np.zeros((2, 3, 3), np.float32)))
    np.testing.assert_array_equal(padded[1], layer(np.zeros((2, 5, 5), np.float32)))
    q, k, v = np.random.default_rng(0).normal(size=(3, 1, 2, 5, 4))
    seen = mask[:1, None, None].astype(bool)
    whole = attend(q, k, v, position=Placed(Alibi(num_heads=2), positions[:1], positions[:1]), mask=seen)
    short = [x[..., 2:, :] for x in (q, k, v)]
    alone = attend(*short, position=Placed(Alibi(num_heads=2), range(3), range(3)))
    np.testing.assert_allclose(whole[..., 2:, :], alone, rtol=1e-12)


@pytest.mark.parametrize(
    "encoding",
    [
        Alibi(num_heads=3),
        T5Bias(num_heads=3),
        Kerple(num_heads=3),
        Kerple(num_heads=3, variant="power"),
        Fire(num_heads=3),
        Sandwich(num_heads=3, max_distance=250, dim=6),
    ],
    ids=str,
)
def test_given_positions_have_the_biases_of_plain_ones(encoding):
    """By the way of single positions, which are given, and that of offsets, which are spread."""
    layer, scores = layer_of(encoding), np.zeros((3, 7, 300), np.float32)
    given = layer(scores, query_positions=list(range(290, 297)), key_positions=list(range(300)))
    np.testing.assert_array_equal(layer(scores, start=290), given)


@pytest.mark.parametrize("positions", [np.arange, lambda count: 3 * np.arange(count) - 7], ids=["plain", "given"])
@pytest.mark.parametrize(
    "encoding",
    [
        Alibi(num_heads=3),
        Alibi(num_heads=3, sides="past"),
        T5Bias(num_heads=3),
        T5Bias(num_heads=3, sides="past", num_buckets=7, max_distance=9),
        Kerple(num_heads=3),
        Kerple(num_heads=3, sides="past"),
        Kerple(num_heads=3, variant="power"),
        Fire(num_heads=3, hidden=5, threshold=20),
        Sandwich(num_heads=3, max_distance=9, dim=6),
        SwinBias(num_heads=3, window=(3, 4)),
        SwinBias(num_heads=3, window=(2, 3), prefix_tokens=1),
    ],
    ids=str,
)
def test_the_formula_of_one_score_is_that_of_all(encoding, positions):
    """To the bit, but for Fire, whose sums a product of matrices adds in another order; NaN outside of a window."""
    weights, queries, keys = layer_of(encoding).arrays, positions(40), positions(50)
    heads, queries_of, keys_of = np.meshgrid(np.arange(3), queries, keys, indexing="ij")
    wanted = encoding.score(weights, queries, keys)
    for head, query, key in ((heads, queries_of, keys_of), (np.arange(3)[:, None, None], queries[:, None], keys)):
        found = encoding.score_of(weights, head, query, key)
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-6 if isinstance(encoding, Fire) else 0)
    assert encoding.score_of(weights, np.array(2), queries[9], keys[8]).shape == ()


def test_blocks_of_queries_are_those_of_single_ones():
    layer = layer_of(Fire(num_heads=2, threshold=100))
    whole = layer(np.zeros((2, 300, 40), np.float32))
    rows = [layer(np.zeros((2, 1, 40), np.float32), start=row) for row in range(300)]
    np.testing.assert_allclose(whole, np.concatenate(rows, axis=1), rtol=0, atol=2.0**-22)
    batch = layer(np.zeros((1, 2, 300, 40), np.float32), query_positions=np.arange(300)[None])
    np.testing.assert_array_equal(batch[0], whole)


def test_fire_is_its_formula():
    """As Li et al. 2024 write it, in float64."""
    encoding = Fire(num_heads=3, hidden=5, rate=0.2, threshold=50)
    layer = layer_of(encoding)
    w = {name: array.astype(np.float64) for name, array in layer.arrays.items()}
    i, j = np.arange(90)[:, None], np.arange(120)
    farthest = np.log1p(np.abs(w["c"] * np.maximum(i, np.abs(w["l"] * 50)))) + 1e-6
    shares = np.log1p(np.abs(w["c"] * (i - j))) / farthest
    units = np.maximum(shares[..., None] * w["hidden_weight"] + w["hidden_bias"], 0)
    expected = (units @ w["head_weight"].T + w["head_bias"]).transpose(2, 0, 1)
    np.testing.assert_allclose(layer(np.zeros((3, 90, 120), np.float32)), expected, rtol=0, atol=4e-6)


def test_sandwich_is_that_of_nemo():
    """Numbers of `SandwichRelativePositionEmbedding` (NVIDIA/NeMo, 2023), computed in float64, whose sums are less."""
    wanted = [
        [-16.645476316026205, -15.953370003764993, -6.744529391072752, -0.5424819232454701, 0],
        [-8.322738158013102, -7.976685001882497, -3.372264695536376, -0.27124096162273503, 0],
        [-5.548492270700018, -5.3177901597374895, -2.248176530691797, -0.18082731313756373, 0],
    ]
    bias = Sandwich(num_heads=3, max_distance=400).bias([399], [0, 100, 390, 398, 399])[:, 0]
    np.testing.assert_allclose(bias - bias[:, -1:], wanted, rtol=0, atol=2.0**-19)


def test_learned_numbers_of_kerple_stay_positive():
    layer = layer_of(Kerple(num_heads=3, variant="power"))
    layer.set_tables({"r1": np.float32([-1, 1, 1]), "r2": np.float32([1, -3, 9])})
    got = layer(np.zeros((3, 1, 1), np.float32), query_positions=[4], key_positions=[0])
    np.testing.assert_allclose(got.ravel(), [-0.04, -(4**0.01), -16], rtol=1e-6)


def test_a_window_has_a_number_for_each_offset_and_three_for_the_class_token():
    layer = layer_of(SwinBias(num_heads=1, window=(2, 3), prefix_tokens=1))
    layer.set_tables({"table": np.arange(18, dtype=np.float32)[:, None]})
    bias = layer(np.zeros((1, 7, 7), np.float32))[0]
    np.testing.assert_array_equal(bias[0], [17, *[15] * 6])
    np.testing.assert_array_equal(bias[1:, 0], [16] * 6)
    assert (bias[1, 6], bias[6, 1], bias[3, 3]) == (0, 14, 7)  # from the first cell to the last, and back


def test_tokens_of_no_window_are_refused():
    layer = layer_of(SwinBias(num_heads=1, window=(2, 2)))
    with rejects(ValueError, "query_positions", "4"):
        layer(np.zeros((1, 5, 4), np.float32))
    with rejects(ValueError, "key_positions", "-1"):
        layer(np.zeros((1, 4, 2), np.float32), key_positions=[0, -1])
    with rejects(ValueError, "query_positions", "4"):
        Placed(layer.encoding, [0, 4], [1, -1], layer.arrays)


def test_tokens_of_no_window_that_nobody_can_look_at_give_nan(xp):
    layer = layer_of(SwinBias(num_heads=1, window=(2, 2)))
    weights = {name: xp.asarray(array) for name, array in layer.arrays.items()}
    bias = layer.encoding.score(weights, xp.asarray([0, 4]), xp.asarray([1, -1]))
    assert np.isnan(np.from_dlpack(bias)).tolist() == [[[False, True], [True, True]]]


@pytest.mark.parametrize(
    ("encoding", "results"),
    [
        (Alibi(num_heads=HEADS), 1.25),
        (T5Bias(num_heads=HEADS), 1.25),
        (Kerple(num_heads=HEADS), 1.25),
        (Kerple(num_heads=HEADS, variant="power"), 1.25),
        (Fire(num_heads=HEADS), 2.1),
        (DynamicPositionBias(num_heads=HEADS, hidden=8), 1.25),
        (Sandwich(num_heads=HEADS, max_distance=2 * LONG), 1.25),
    ],
    ids=str,
)
def test_a_bias_costs_little_more_memory_than_itself(encoding, results):
    content = np.broadcast_to(np.float32(0), (HEADS, LONG, LONG))
    layer = layer_of(encoding)
    tracemalloc.start()
    try:
        bias = layer.at(content, (LONG, LONG), None).scores(type("Content", (), {"scores": content}))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert bias.nbytes == RESULT
    assert peak <= results * RESULT


def test_what_is_learned_only_a_layer_has():
    with rejects(TypeError, "bias", "T5Bias(num_heads=2)"):
        T5Bias(num_heads=2).bias([0], [0])
    with rejects(ValueError, "weights", "'table'"):
        Placed(T5Bias(num_heads=2), range(2), range(2))


def test_tables_by_offset_double_and_leave_lone_far_positions_out():
    layer, ends = layer_of(Alibi(num_heads=2)), []
    for start, queries in [(0, 1), (64, 1), (65, 1), (300, 1), (10**6, 1), (129, 9), (0, 0)]:
        layer(np.zeros((2, queries, start + queries if start < 10**6 else 3), np.float32), start)
        ends.append(layer.offset_table.tables[0].shape[-1] // 2)
    assert ends == [64, 64, 128, 300, 300, 300, 300]
    assert copy.deepcopy(layer).offset_table.tables == ()
    assert copy.deepcopy(layer).offset_table == layer.offset_table


def test_tables_by_offset_are_made_once_for_each_device(monkeypatch):
    layer, made = layer_of(Alibi(num_heads=2)), []

    def from_numpy(self, array, *, like):
        made.append((array.copy(), like.dtype))  # of two dtypes, as if they lay on two devices
        return made[-1][0]

    def is_beside(self, table, x):
        return any(table is one and dtype == x.dtype for one, dtype in made)

    monkeypatch.setattr(type(layer.backend), "from_numpy", from_numpy)
    monkeypatch.setattr(type(layer.backend), "is_beside", is_beside)
    for dtype in (np.float32, np.float16, np.float32, np.float16):
        layer(np.zeros((2, 3, 3), dtype))
    assert [dtype for _, dtype in made] == [np.float32, np.float16]


class Short(Alibi):
    limit = 3

    def score(self, weights, query_positions, key_positions):
        assert np.abs(query_positions[:, None] - key_positions).max() < self.limit
        return super().score(weights, query_positions, key_positions)


def test_tables_by_offset_end_with_the_encoding_and_use_the_constants_of_the_layer(monkeypatch):
    layer, wanted = AttentionBias(Short(num_heads=1)), Alibi(num_heads=1).bias(range(3), range(3))
    monkeypatch.setattr(Short, "constants", None)
    for start, table in ((2, layer.offset_table), (0, layer.offset_table), (0, None)):
        layer.offset_table = table
        np.testing.assert_array_equal(layer(np.zeros((1, 3 - start, 3), np.float32), start), wanted[:, start:])


def test_only_encodings_with_a_table_by_offset_have_one():
    tables = {Alibi: True, Sandwich: True, T5Bias: True, Kerple: True, Fire: False, DynamicPositionBias: False}
    options = {Sandwich: {"max_distance": 4, "dim": 4}, DynamicPositionBias: {"hidden": 2}}
    for make, has_table in tables.items():
        assert (AttentionBias(make(num_heads=2, **options.get(make, {}))).offset_table is not None) == has_table
