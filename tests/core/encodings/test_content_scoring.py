"""Shaw, Transformer-XL and CoPE inside `attend`, against their papers' formulas written out in float64."""

import tracemalloc

import numpy as np
import pytest

from posenc_core import (
    Cope,
    DebertaBias,
    DecomposedBias,
    ForgettingBias,
    RelativeLogits,
    ShawBias,
    Sinusoidal,
    TransformerXLBias,
    attend,
    causal,
)
from posenc_core.attention.attend import AttentionInputs
from posenc_core.encodings import Pairs, Placed

from ...errors import rejects

RNG = np.random.default_rng(5)
HEADS, WIDTH = 2, 4
SHAW = ShawBias(num_heads=HEADS, head_dim=WIDTH, max_distance=3)
XL = TransformerXLBias(num_heads=HEADS, head_dim=WIDTH, max_distance=4, dim=6)
COPE = Cope(num_heads=HEADS, head_dim=WIDTH, max_position=5)
POSITIONS = [
    (range(7), range(7)),
    (range(4, 7), range(7)),
    (range(3), range(2, 8)),
    ([9, 0, 2**20], [0, 2**20, 2**20 + 1, 9, 9]),
    (np.array([[0, 5], [7, -3]]), np.array([[0, 1, 2**20], [7, 7, -9]])),
]


def drawn(encoding):
    return {name: RNG.normal(size=p.shape) for name, p in encoding.parameters().items()}


def tokens(queries, keys):
    return (RNG.normal(size=(2, HEADS, length, WIDTH)) for length in (queries, keys, keys))


def length(positions):
    return np.shape(positions)[-1]


def rows(query_positions, key_positions, limit):
    """Offset of key and query, cut off and counted from 0, `(batch, queries, keys)`."""
    queries, keys = (
        np.broadcast_to(positions, (2, length(positions))) for positions in (query_positions, key_positions)
    )
    return np.clip(keys[:, None, :] - queries[:, :, None], -limit, limit) + limit


def softmax(scores):
    grown = np.exp(scores - scores.max(-1, keepdims=True))
    return grown / grown.sum(-1, keepdims=True)


@pytest.mark.parametrize("applies_to", ["both", "keys"])
@pytest.mark.parametrize("positions", POSITIONS, ids=str)
def test_shaw_adds_vectors_to_keys_and_values(xp, positions, applies_to):
    encoding = ShawBias(num_heads=HEADS, head_dim=WIDTH, max_distance=3, applies_to=applies_to)
    weights, (q, k, v) = drawn(encoding), tokens(*map(length, positions))
    row = rows(*positions, 3)
    for_keys = weights["key_table"][row][:, None]  # (batch, 1, queries, keys, head_dim): what the paper writes
    for_values = weights["value_table"][row][:, None] if applies_to == "both" else 0
    scores = (q[..., :, None, :] * (k[..., None, :, :] + for_keys)).sum(-1) / np.sqrt(WIDTH)
    wanted = (softmax(scores)[..., None] * (v[..., None, :, :] + for_values)).sum(-2)
    np.testing.assert_allclose(attended(xp, encoding, positions, weights, q, k, v), wanted, atol=1e-13)


@pytest.mark.parametrize("positions", POSITIONS, ids=str)
def test_transformer_xl_has_the_four_terms_of_its_paper(xp, positions):
    weights, (q, k, v) = drawn(XL), tokens(*map(length, positions))
    sinusoid = Sinusoidal(dim=6, convention="concatenated").table(4 - rows(*positions, 4)).astype(float)
    r = (sinusoid @ weights["W_r"]).reshape(*sinusoid.shape[:-1], HEADS, WIDTH)
    u, at = weights["u"][:, None], weights["v"][:, None]
    scores = ((q + u) @ k.swapaxes(-1, -2) + np.einsum("bhqd,bqkhd->bhqk", q + at, r)) / np.sqrt(WIDTH)
    np.testing.assert_allclose(attended(xp, XL, positions, weights, q, k, v), softmax(scores) @ v, atol=1e-13)


@pytest.mark.parametrize("max_position", [1, 3, 64])
def test_cope_counts_open_gates_from_a_key_to_the_query(xp, max_position):
    encoding = Cope(num_heads=HEADS, head_dim=WIDTH, max_position=max_position)
    weights, (q, k, v) = drawn(encoding), tokens(4, 6)
    mask = causal(np.arange(2, 6), np.arange(6))
    scores = np.where(mask, q @ k.swapaxes(-1, -2) / np.sqrt(WIDTH), -np.inf)
    gates = 1 / (1 + np.exp(-scores))
    at = np.minimum(np.stack([gates[..., j:].sum(-1) for j in range(6)], axis=-1), max_position - 1)
    low, high = np.floor(at).astype(int), np.ceil(at).astype(int)
    by_row = q @ weights["table"].T
    below, above = (np.take_along_axis(by_row, index, axis=-1) for index in (low, high))
    wanted = softmax(scores + above * (at - low) + below * (1 - at + low)) @ v
    position = Placed(encoding, range(2, 6), range(6), {name: xp.asarray(x) for name, x in weights.items()})
    got = attend(*map(xp.asarray, (q, k, v)), position=position, mask=xp.asarray(mask))
    np.testing.assert_allclose(np.asarray(got), wanted, atol=1e-13)


def attended(xp, encoding, positions, weights, q, k, v):
    to_backend = {name: xp.asarray(array) for name, array in weights.items()}
    return np.asarray(attend(*map(xp.asarray, (q, k, v)), position=Placed(encoding, *positions, to_backend)))


@pytest.mark.parametrize("encoding", [SHAW, XL, COPE], ids=str)
def test_the_last_query_sees_the_cache_as_in_the_whole(encoding):
    weights, (q, k, v) = drawn(encoding), tokens(7, 7)
    mask = causal(np.arange(7), np.arange(7))
    whole = attend(q, k, v, position=Placed(encoding, range(7), range(7), weights), mask=mask)
    for i in range(7):
        seen = slice(i + 1)
        position = Placed(encoding, range(i, i + 1), range(i + 1), weights)
        row = attend(q[..., i : i + 1, :], k[..., seen, :], v[..., seen, :], position=position)
        np.testing.assert_allclose(row, whole[..., i : i + 1, :], atol=1e-13)


@pytest.mark.parametrize("encoding", [SHAW, XL, COPE], ids=str)
@pytest.mark.parametrize(("queries", "keys"), [(0, 3), (3, 0), (0, 0)])
def test_no_queries_and_no_keys(encoding, queries, keys):
    weights, (q, k, v) = drawn(encoding), tokens(queries, keys)
    for positions in ((range(queries), range(keys)), (np.arange(queries), np.arange(keys))):
        result = attend(q, k, v, position=Placed(encoding, *positions, weights))
        np.testing.assert_array_equal(result, np.zeros((2, HEADS, queries, WIDTH)))


@pytest.mark.parametrize("encoding", [SHAW, XL], ids=str)
def test_a_range_with_steps_is_no_plain_sequence(encoding):
    weights, (q, k, v) = drawn(encoding), tokens(3, 3)
    stepping, listed = (attend(q, k, v, position=Placed(encoding, p, p, weights)) for p in (range(0, 6, 2), [0, 2, 4]))
    np.testing.assert_array_equal(stepping, listed)


def test_cope_keeps_small_counts_exact_under_long_contexts():
    """Adding up from the query on, 2**14 gates of 0.9 do not blur the first ones, as a difference of totals would."""
    encoding, keys = Cope(num_heads=1, head_dim=1, max_position=8), 2**14
    table = np.arange(8, dtype=np.float32)[:, None]
    gate = np.float32(0.9)
    scores = np.full((1, 1, keys), np.log(0.9 / 0.1), np.float32)
    position = Placed(encoding, range(1), range(keys), {"table": table})
    one = np.ones((1, 1, 1), np.float32)
    added = position.scores(AttentionInputs(one, np.ones((1, keys, 1), np.float32), scores))[0, 0]
    wanted = np.minimum(np.arange(keys, 0, -1) * float(gate), 7)
    np.testing.assert_allclose(added[-7:], wanted[-7:], rtol=2**-21)
    np.testing.assert_array_equal(added[:-8], 7)


@pytest.mark.parametrize("kind", [ShawBias, TransformerXLBias])
@pytest.mark.parametrize("positions", [range(512), np.arange(512)], ids=["plain", "given"])
def test_memory_is_three_and_a_half_times_that_of_the_scores(kind, positions):
    """Not times the width of a head, nor the number of offsets."""
    wide = kind(num_heads=8, head_dim=64, max_distance=16)
    q, scores = np.zeros((1, 8, 512, 64), np.float32), np.zeros((1, 8, 512, 512), np.float32)
    weights = {name: np.zeros(p.shape, np.float32) for name, p in wide.parameters().items()} | wide.constants(0)
    position, content = Placed(wide, positions, positions, weights), AttentionInputs(q, q, scores)
    for call in (lambda: position.scores(content), lambda: position.values(scores)):
        call()
        tracemalloc.start()
        call()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak <= 3.5 * scores.nbytes


def test_the_sinusoids_of_distances_are_exact():
    table = XL.constants(0)["R"]
    assert table.shape == (9, 6)
    np.testing.assert_array_equal(table[0], Sinusoidal(dim=6, convention="concatenated").table([4])[0])
    np.testing.assert_array_equal(table[5:, :3], -table[:4, :3][::-1])  # sines of keys after the query
    np.testing.assert_array_equal(table[4], [0, 0, 0, 1, 1, 1])


def test_real_positions_and_missing_weights_are_refused():
    q = np.zeros((1, HEADS, 2, WIDTH))
    with rejects(TypeError, "query_positions", "float64"):
        attend(q, q, q, position=Placed(SHAW, [0.5, 1.0], [0, 1], drawn(SHAW)))
    with rejects(ValueError, "weights", "'u'"):
        Placed(XL, range(2), range(2))


@pytest.mark.parametrize("encoding", [SHAW, XL])
def test_positions_of_one_row_are_those_of_all(encoding):
    q = np.random.default_rng(5).normal(size=(3, HEADS, 2, WIDTH))
    of_one, of_all = np.array([[1, 0]]), np.array([1, 0])
    weights = drawn(encoding)
    got = attend(q, q, q, position=Placed(encoding, of_one, of_one, weights))
    assert np.array_equal(got, attend(q, q, q, position=Placed(encoding, of_all, of_all, weights)))


@pytest.mark.parametrize(
    "encoding",
    [
        ShawBias(num_heads=HEADS, head_dim=WIDTH, max_distance=3, applies_to="keys"),
        XL,
        DebertaBias(num_heads=HEADS, head_dim=WIDTH, max_distance=6, num_buckets=4),
        DebertaBias(num_heads=HEADS, head_dim=WIDTH, max_distance=3, terms="p2c"),
        DecomposedBias(num_heads=HEADS, head_dim=WIDTH, window=(2, 6), key_window=(1, 3), prefix_tokens=1),
        RelativeLogits(num_heads=HEADS, head_dim=WIDTH, max_distance=3, num_curves=2),
        ForgettingBias(num_heads=HEADS, head_dim=WIDTH),
    ],
    ids=repr,
)
def test_the_formula_of_one_score_is_that_of_all(encoding):
    """At all pairs at once and at one; tokens outside a window are NaN in both, hidden keys the same."""
    weights, (q, k, _) = encoding.constants(0) | drawn(encoding), tokens(8, 8)
    scores = np.where(causal(np.arange(8), np.arange(8)), q @ k.swapaxes(-1, -2) / 2, -np.inf)
    wanted = encoding.scores(weights, np.arange(8), np.arange(8), AttentionInputs(q, k, scores))
    given = [x if name in encoding.lookup_inputs else None for name, x in (("queries", q), ("keys", k))]
    tables = encoding.lookup_tables(weights, *given)
    batch, heads, queries, keys = np.ogrid[:2, :HEADS, :8, :8]
    found = encoding.score_of(weights, tables, scores, Pairs(batch, heads, queries, keys, queries, keys))
    visible = np.broadcast_to(np.isfinite(scores), wanted.shape)
    np.testing.assert_allclose(found[visible], wanted[visible], rtol=0, atol=1e-13)
    one = [np.array(number) for number in (1, 0, 5, 3, 5, 3)]
    np.testing.assert_array_equal(
        encoding.score_of(weights, tables, scores[1, 0, 5, 3], Pairs(*one)), found[1, 0, 5, 3]
    )


@pytest.mark.parametrize("encoding", [SHAW, COPE], ids=repr)
def test_scores_that_need_more_than_products_are_not_looked_up(encoding):
    weights, (q, k, _) = drawn(encoding), tokens(2, 2)
    assert encoding.lookup_inputs == ()
    with rejects(TypeError, "lookup_tables", encoding):
        encoding.lookup_tables(weights, q, k)
    if encoding is COPE:
        with rejects(TypeError, "score_of", encoding):
            encoding.score_of(weights, {}, q, None)


@pytest.mark.parametrize(
    ("window", "key_window", "prefix"),
    [((3, 4), None, 1), ((4, 6), (2, 3), 0), ((2, 3), (4, 9), 1), ((4, 2), (2, 6), 1)],
)
def test_decomposed_positions_follow_the_program_of_mvitv2_cell_by_cell(window, key_window, prefix):
    """`cal_rel_pos_spatial`: coordinates times the ratio of the sizes, and the last key at offset 0."""
    encoding = DecomposedBias(num_heads=2, head_dim=4, window=window, key_window=key_window, prefix_tokens=prefix)
    windows, rng = (window, key_window or window), np.random.default_rng(9)
    queries, keys = (np.prod(sizes) + prefix for sizes in windows)
    q, k = rng.normal(size=(1, 2, queries, 4)), rng.normal(size=(1, 2, keys, 4))
    weights = {name: rng.normal(size=one.shape) for name, one in encoding.parameters().items()}
    expected = np.zeros((1, 2, queries, keys))
    for query in range(prefix, queries):
        for key in range(prefix, keys):
            places = [
                np.unravel_index(token - prefix, sizes) for token, sizes in zip((query, key), windows, strict=True)
            ]
            for axis, name in enumerate(("rows", "columns")):
                many, few = windows[0][axis], windows[1][axis]
                at_query, at_key = max(few // many, 1), max(many // few, 1)
                row = places[0][axis] * at_query - places[1][axis] * at_key + (few - 1) * at_key
                expected[..., query, key] += q[..., query, :] @ weights[name][row]
    content = AttentionInputs(q, k, np.zeros((1, 2, queries, keys)))
    found = encoding.scores(encoding.constants(0) | weights, np.arange(queries), np.arange(keys), content)
    np.testing.assert_allclose(found, expected, atol=1e-13)
