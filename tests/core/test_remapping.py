"""Rotary encodings with remapped positions: distances and tables are those of mpmath."""

import numpy as np
import pytest

import posenc_core as p
from posenc_backends.conformance.cases import golden
from posenc_backends.numpy import MultiHeadAttention, RotaryEmbedding

from ..errors import rejects

ROTARY = p.Rotary(head_dim=8, layout="half")
ENCODINGS = (
    p.SelfExtend(rotary=ROTARY, window=5, group_size=3),
    p.ReRoPE(rotary=ROTARY, window=4),
    p.LeakyReRoPE(rotary=ROTARY, window=4, factor=2.5),
    p.DualChunk(rotary=ROTARY, chunk_size=6, local_size=2),
)


@pytest.mark.parametrize("case", golden("remapping"), ids=lambda case: case["name"])
def test_distances_are_those_of_the_papers(case):
    places = np.unique(case["query_positions"])
    distances = p.Encoding.from_dict(case["encoding"]).distances(places, places)
    queries, keys = (np.searchsorted(places, case[name]) for name in ("query_positions", "key_positions"))
    np.testing.assert_allclose(distances[queries, keys], case["distances"], rtol=0, atol=2.0**-30)
    if case["encoding"]["kind"] != "LeakyReRoPE":
        np.testing.assert_array_equal(distances[queries, keys], case["distances"])
    np.testing.assert_array_equal(np.isnan(distances), np.less.outer(places, places))


@pytest.mark.parametrize("case", golden("remapping"), ids=lambda case: case["name"])
def test_tables_are_rounded_once(case):
    encoding = p.Encoding.from_dict(case["encoding"])
    rows = encoding.rows(np.array(case["positions"]))
    wanted = np.array(case["tables"], np.float32)  # (positions, remapped, 2, pairs)
    assert list(rows) == [f"{name}_{i}" for i in range(3) for name in ("cos", "sin")]
    for column, table in enumerate(rows.values()):
        np.testing.assert_array_equal(table, wanted[:, column // 2, column % 2])


def by_distance(encoding, q, k, v, positions):
    """Return attention in float64 whose scores are q · R(-distance) k."""
    distances = encoding.distances(positions, positions)
    angles = np.nan_to_num(distances)[..., None] * encoding.rotary.frequencies()
    k, v = (np.repeat(x, q.shape[1] // x.shape[1], axis=1) for x in (k, v))
    (q1, q2), (k1, k2) = (np.split(x, 2, axis=-1) for x in (q, k))
    pairs = lambda a, b, weights: np.einsum("bhqp,bhkp,qkp->bhqk", a, b, weights)
    real, imaginary = pairs(q1, k1, np.cos(angles)), pairs(q1, k2, np.sin(angles))
    scores = real + pairs(q2, k2, np.cos(angles)) + imaginary - pairs(q2, k1, np.sin(angles))
    weights = np.exp(np.where(np.isnan(distances), -np.inf, scores / np.sqrt(q.shape[-1])))
    return weights / weights.sum(axis=-1, keepdims=True) @ v


@pytest.mark.parametrize("encoding", ENCODINGS, ids=lambda encoding: type(encoding).__name__)
@pytest.mark.parametrize(
    "positions", [range(20), np.array([0, 3, 4, 9, 11, 12, 13, 40, 41, 100])], ids=["range", "given"]
)
def test_attention_is_that_of_the_distances(encoding, positions):
    rng = np.random.default_rng(5)
    q, k, v = (rng.normal(size=(2, heads, len(positions), 8)) for heads in (4, 2, 2))
    wanted, at = by_distance(encoding, q, k, v, positions), p.Placed(encoding, positions, positions)
    np.testing.assert_allclose(p.attend(q, k, v, position=at), wanted, atol=1e-13)
    for mask in (None, p.causal):
        np.testing.assert_allclose(p.attend_by_block(q, k, v, position=at, mask=mask, block=3), wanted, atol=1e-13)


@pytest.mark.parametrize("encoding", ENCODINGS, ids=lambda encoding: type(encoding).__name__)
def test_pieces_with_a_cache_are_the_whole_sequence(encoding):
    tokens = np.random.default_rng(6).normal(size=(2, 20, 32)).astype(np.float32)
    layer = MultiHeadAttention(32, 4, position=encoding, num_kv_heads=2)
    whole, pieces, cache = layer(tokens, tokens, tokens, causal=True, weights=True), [], ()
    for begin, end in ((0, 7), (7, 8), (8, 20)):
        piece = tokens[:, begin:end]
        result, _, cache = layer(piece, piece, piece, start=begin, cache=cache, causal=True)
        pieces.append(result)
    np.testing.assert_allclose(np.concatenate(pieces, axis=1), whole.result, atol=2e-7)
    assert cache[0].shape == (2, 2, 20, 8)
    assert (whole.weights[..., 0, 1:] == 0).all()


@pytest.mark.parametrize("encoding", ENCODINGS, ids=lambda encoding: type(encoding).__name__)
def test_packed_sequences_are_attended_to_alone(encoding):
    """Two sequences in one row, with positions that begin again and a mask, are what each is by itself."""
    tokens = np.random.default_rng(7).normal(size=(1, 19, 32)).astype(np.float32)
    layer, places = MultiHeadAttention(32, 4, position=encoding), np.array([*range(12), *range(7)])
    same = np.equal.outer(np.arange(19) < 12, np.arange(19) < 12)
    packed = layer(tokens, tokens, tokens, positions=places, key_positions=places, mask=same, causal=True)
    for part in (tokens[:, :12], tokens[:, 12:]):
        first = 0 if part.shape[1] == 12 else 12
        alone = layer(part, part, part, causal=True)
        np.testing.assert_allclose(packed[:, first : first + part.shape[1]], alone, atol=2e-7)


@pytest.mark.parametrize("encoding", ENCODINGS, ids=lambda encoding: type(encoding).__name__)
def test_rows_may_start_at_their_own_positions(encoding):
    tokens = np.random.default_rng(8).normal(size=(2, 9, 32)).astype(np.float32)
    layer = MultiHeadAttention(32, 4, position=encoding)
    starts = np.array([0, 13])[:, None] + np.arange(9)
    both = layer(tokens, tokens, tokens, positions=starts, key_positions=starts, causal=True)
    for row, at in zip(range(2), starts, strict=True):
        one = tokens[row : row + 1]
        alone = layer(one, one, one, positions=at, key_positions=at, causal=True)
        np.testing.assert_allclose(both[row : row + 1], alone, atol=2e-7)


def test_distances_within_the_window_are_kept():
    """A remapping that changes nothing at this length is the rotary encoding."""
    tokens = np.random.default_rng(9).normal(size=(1, 8, 16)).astype(np.float32)
    for rotary in (
        ROTARY,
        p.XPos(head_dim=8, layout="interleaved", scale_base=8),
        p.LearnedRotary(head_dim=8, layout="half"),
    ):
        plain = MultiHeadAttention(16, 2, position=rotary)
        for encoding in (
            p.SelfExtend(rotary=rotary, window=8, group_size=4),
            p.SelfExtend(rotary=rotary, window=3, group_size=1),
        ):
            layer = MultiHeadAttention(16, 2, position=encoding)
            for name in ("W_q", "W_k", "W_v", "W_o"):
                setattr(layer, name, getattr(plain, name))
            wanted = plain(tokens, tokens, tokens, causal=True)
            np.testing.assert_allclose(layer(tokens, tokens, tokens, causal=True), wanted, atol=5e-7)


def test_lengths_reach_the_rotary_encoding():
    scaled = p.Rotary(head_dim=8, layout="half", scaling=p.DynamicNTK(factor=2, original_max_position_embeddings=8))
    encoding = p.SelfExtend(rotary=scaled, window=4, group_size=2)
    assert encoding.at(16).rotary == scaled.at(16)
    assert encoding.at(None) is encoding
    tokens = np.random.default_rng(10).normal(size=(1, 12, 16)).astype(np.float32)
    layer = MultiHeadAttention(16, 2, position=encoding)
    longer = MultiHeadAttention(16, 2, position=encoding.at(12))
    for name in ("W_q", "W_k", "W_v", "W_o"):
        setattr(longer, name, getattr(layer, name))
    np.testing.assert_array_equal(
        layer(tokens, tokens, tokens, causal=True), longer(tokens, tokens, tokens, causal=True)
    )


def test_learned_frequencies_have_their_rows():
    """Rows that are computed from parameters are those of the table at the initial parameters."""
    for made in ENCODINGS:
        learned = p.LearnedRotary(head_dim=8, layout="half")
        encoding = p.Encoding.from_dict(made.to_dict() | {"rotary": learned.to_dict()})
        weights = encoding.constants(1) | {"alpha": np.zeros(4, np.float32)}
        rows = encoding.rows_of(weights, np.arange(0, 60, 7))
        for row, table in zip(rows, made.rows(np.arange(0, 60, 7)).values(), strict=True):
            np.testing.assert_allclose(row, table, atol=60 * 2.0**-22)


def test_positions_of_narrow_dtypes_do_not_overflow():
    x = np.random.default_rng(11).normal(size=(1, 1, 20, 8))
    for encoding in ENCODINGS:
        wanted = p.attend(x, x, x, position=p.Placed(encoding, range(20), range(20)))
        for dtype in (np.uint8, np.int8, np.uint64):
            places = np.arange(20).astype(dtype)
            np.testing.assert_array_equal(p.attend(x, x, x, position=p.Placed(encoding, places, places)), wanted)


def test_other_encodings_are_rejected():
    with rejects(TypeError, "rotary", "None"):
        p.ReRoPE(rotary=None, window=4)
    with rejects(ValueError, "rotary", "AxialRotary"):
        p.ReRoPE(rotary=p.AxialRotary(head_dim=8, layout="half", axes_dims=(4, 4)), window=4)


def test_other_calls_are_rejected():
    encoding, tokens = ENCODINGS[0], np.ones((1, 3, 16), np.float32)
    layer = MultiHeadAttention(16, 2, position=encoding)
    with rejects(ValueError, "causal", "SelfExtend"):
        layer(tokens, tokens, tokens)
    with rejects(TypeError, "positions", "integers"):
        layer(tokens, tokens, tokens, positions=[0.5, 1, 2], key_positions=[0.5, 1, 2], causal=True)
    with rejects(TypeError, "encoding", "MultiHeadAttention"):
        RotaryEmbedding(encoding)(tokens[..., :8])
    with rejects(TypeError, "encoding", "MultiHeadAttention"):
        RotaryEmbedding(encoding).cos_sin([0, 1])
    with rejects(ValueError, "key_positions"):
        encoding.distances([0], [[1]])
    with rejects(ValueError, "position", "head_dim"):
        MultiHeadAttention(8, 2, position=encoding)
