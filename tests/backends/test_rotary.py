"""Lengths, axes, caches and placements of `RotaryEmbedding`, against rotations by NumPy with exact tables."""

import re
import warnings

import numpy as np
import pytest

from posenc_core import (
    AxialRotary,
    DynamicNTK,
    FoPE,
    LearnedRotary,
    LongRoPE,
    MultimodalRotary,
    Proportional,
    Rotary,
    XPos,
    grid,
    multimodal,
    rotate,
)

RNG = np.random.default_rng(3)
LONGROPE = Rotary(
    head_dim=8,
    layout="half",
    scaling=LongRoPE(
        short_factor=(1.0, 1.5, 2.0, 4.0),
        long_factor=(2.0, 5.0, 10.0, 40.0),
        original_max_position_embeddings=16,
        factor=4.0,
    ),
)
DYNAMIC = Rotary(head_dim=8, layout="half", scaling=DynamicNTK(factor=2.0, original_max_position_embeddings=16))
MIXED = FoPE(head_dim=8, layout="half", num_terms=3, num_heads=2, std=0.5)
MULTIMODAL = MultimodalRotary(head_dim=12, layout="half", sections=(2, 2, 2), arrangement="interleaved")


def tokens(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def rotated_by_numpy(x, encoding, positions, seq_len=None):
    cos, sin = encoding.cos_sin(positions, seq_len)
    if cos.ndim == 3:
        cos, sin = cos[:, None], sin[:, None]
    return rotate(x, cos, sin, layout=encoding.layout, placement=encoding.placement)


@pytest.mark.parametrize("encoding", [LONGROPE, DYNAMIC], ids=["longrope", "dynamic"])
def test_seq_len_chooses_the_table_of_one_call(backend, to_backend, encoding):
    layer, x = backend.RotaryEmbedding(encoding), tokens(2, 3, 4, 8)
    for seq_len in (16, 17, 64, 5, None, 17):
        result = backend.to_numpy(layer(to_backend(x), start=12, seq_len=seq_len))
        np.testing.assert_array_equal(result, rotated_by_numpy(x, encoding, range(12, 16), seq_len))
    assert (
        np.abs(
            rotated_by_numpy(x, encoding, range(12, 16), 17) - rotated_by_numpy(x, encoding, range(12, 16), 16)
        ).max()
        > 1e-2
    )


def test_a_layer_for_one_length(backend, to_backend):
    x = tokens(1, 1, 40, 8)
    result = backend.to_numpy(backend.RotaryEmbedding(LONGROPE.at(40))(to_backend(x)))
    np.testing.assert_array_equal(result, rotated_by_numpy(x, LONGROPE, range(40), 40))


def test_positions_past_the_length_warn(backend, to_backend):
    layer, x = backend.RotaryEmbedding(LONGROPE), tokens(1, 1, 4, 8)
    with pytest.warns(UserWarning, match="Position 16 lies past the 16 that these frequencies .*; give `seq_len`"):
        past = layer(to_backend(x), start=13)
    np.testing.assert_array_equal(backend.to_numpy(past), rotated_by_numpy(x, LONGROPE, range(13, 17)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        short, long = layer(to_backend(x), start=12), layer(to_backend(x), start=13, seq_len=17)
    np.testing.assert_array_equal(backend.to_numpy(short), rotated_by_numpy(x, LONGROPE, range(12, 16)))
    np.testing.assert_array_equal(backend.to_numpy(long), rotated_by_numpy(x, LONGROPE, range(13, 17), 17))


def test_seq_len_must_be_a_positive_integer(backend, to_backend):
    with pytest.raises((ValueError, TypeError), match="`seq_len` must be"):
        backend.RotaryEmbedding(LONGROPE)(to_backend(tokens(1, 1, 4, 8)), seq_len=0)


def test_a_traced_layer_has_the_tables_of_its_length(on, to_backend, traced):
    if "compiled" in on.known_failures:
        pytest.skip("This framework has no compiler.")
    x = np.ones((1, 1, 4, 8), np.float32)
    layer = traced(on.testing.eval_mode(on.backend.RotaryEmbedding(LONGROPE.at(17))))
    for seq_len in (17, 1000):
        result = on.backend.to_numpy(layer(to_backend(x), seq_len=seq_len))
        np.testing.assert_allclose(result, rotated_by_numpy(x, LONGROPE, range(4), 17), rtol=0, atol=2e-7)


def test_a_traced_layer_rejects_another_seq_len(on, to_backend, monkeypatch):
    x = to_backend(np.ones((1, 1, 4, 8), np.float32))
    layer = on.backend.RotaryEmbedding(LONGROPE)
    monkeypatch.setattr(type(layer.backend), "is_recorded", lambda backend, array: array is x)
    with pytest.raises(ValueError, match="`seq_len` asks for other tables than a traced layer holds; make the layer w"):
        layer.lookup(x, encoding=LONGROPE.at(17))


@pytest.mark.parametrize(
    ("encoding", "length"),
    [(encoding, length) for encoding in (LONGROPE, DYNAMIC) for length in (6, 20)]  # which differ after 16 tokens
    + [(XPos(head_dim=8, layout="half", scale_base=5), 6), (LearnedRotary(head_dim=8, layout="half"), 6), (MIXED, 6)],
    ids=lambda value: type(getattr(value, "scaling", None) or value).__name__ if not isinstance(value, int) else None,
)
def test_compiled_attention_agrees_with_eager_or_raises(on, encoding, length, traced):
    if "compiled" in on.known_failures:
        pytest.skip("This framework has no compiler.")
    matrices = {name: RNG.normal(size=(16, 16)).astype(np.float32) for name in ("W_q", "W_k", "W_v", "W_o")}
    x = on.backend.from_numpy(tokens(2, length, 16))
    layer = on.testing.with_projections(
        on.testing.eval_mode(on.backend.MultiHeadAttention(16, 2, position=encoding)), matrices
    )
    eager = on.backend.to_numpy(layer(x, x, x))
    try:
        compiled = on.backend.to_numpy(traced(layer)(x, x, x))
    except Exception as error:  # noqa: BLE001 - compilers wrap errors in their own
        compiled = str(error)
    if isinstance(compiled, str):
        assert encoding.max_seq_len is not None
        assert "`seq_len` asks for other tables than a traced layer holds" in compiled
    else:
        np.testing.assert_allclose(compiled, eager, rtol=0, atol=1e-5 * np.abs(eager).max())


def test_traced_positions_past_the_length_are_nan(on, to_backend, traced):
    """MXNet reads positions outside of the compiled graph: there they are right."""
    if "compiled" in on.known_failures:
        pytest.skip("This framework has no compiler.")
    x = tokens(1, 1, 2, 8)
    layer = traced(on.testing.eval_mode(on.backend.RotaryEmbedding(LONGROPE)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = on.backend.to_numpy(layer(to_backend(x), positions=to_backend([15, 16])))
    wanted = rotated_by_numpy(x, LONGROPE, [15, 16])
    np.testing.assert_allclose(result[:, :, 0], wanted[:, :, 0], rtol=0, atol=1e-6)
    past = result[:, :, 1]
    np.testing.assert_allclose(past, np.where(np.isnan(past).all(), np.nan, wanted[:, :, 1]), rtol=0, atol=1e-6)


@pytest.mark.parametrize("length", [16, 20])
def test_attention_passes_its_length_to_the_rotation(on, to_backend, length):
    matrices = {name: RNG.normal(size=(16, 16)).astype(np.float32) for name in ("W_q", "W_k", "W_v", "W_o")}
    x = to_backend(tokens(2, length, 16))
    results = []
    for position in (LONGROPE, LONGROPE.at(length)):
        layer = on.testing.eval_mode(on.backend.MultiHeadAttention(16, 2, position=position))
        results.append(on.backend.to_numpy(on.testing.with_projections(layer, matrices)(x, x, x)))
    np.testing.assert_array_equal(*results)


def test_cached_keys_of_xpos_are_right(on):
    rope, (q, k) = on.backend.RotaryEmbedding(XPos(head_dim=8, layout="half")), tokens(2, 1, 1, 20, 8)
    in_one_call = [on.backend.to_numpy(x) for x in rope(on.backend.from_numpy(q), on.backend.from_numpy(k))]
    steps = [
        [on.backend.to_numpy(x) for x in rope(*(on.backend.from_numpy(x[:, :, i : i + 1]) for x in (q, k)), start=i)]
        for i in range(20)
    ]
    for which in (0, 1):
        np.testing.assert_array_equal(np.concatenate([step[which] for step in steps], axis=2), in_one_call[which])
    scores = np.einsum("id,jd->ij", in_one_call[0][0, 0].astype(float), in_one_call[1][0, 0].astype(float))
    rope_only = [rotated_by_numpy(x, Rotary(head_dim=8, layout="half"), range(20))[0, 0].astype(float) for x in (q, k)]
    assert abs(scores[19, 0]) != pytest.approx(abs(np.einsum("d,d", rope_only[0][19], rope_only[1][0])), rel=1e-6)


def test_attention_rotates_keys_of_xpos_as_keys(on, to_backend):
    encoding, x = XPos(head_dim=8, layout="half", scale_base=4), tokens(1, 6, 8)
    unit = {name: np.eye(8, dtype=np.float32) for name in ("W_q", "W_k", "W_v", "W_o")}
    layer = on.testing.with_projections(
        on.testing.eval_mode(on.backend.MultiHeadAttention(8, 1, position=encoding)), unit
    )
    rows = encoding.rows(range(6))
    q = rotate(x, rows["cos"], rows["sin"], layout="half").astype(float)
    k = rotate(x, rows["key_cos"], rows["key_sin"], layout="half").astype(float)
    scores = np.exp(q[0] @ k[0].T / np.sqrt(8))
    wanted = scores / scores.sum(axis=1, keepdims=True) @ x[0]
    np.testing.assert_allclose(on.backend.to_numpy(layer(*[to_backend(x)] * 3))[0], wanted, rtol=0, atol=1e-5)


def test_text_has_the_same_position_on_all_axes(backend, to_backend):
    x, rope_only = tokens(2, 1, 5, 12), Rotary(head_dim=12, layout="half")
    layer = backend.RotaryEmbedding(MULTIMODAL)
    for result in (layer(to_backend(x), start=7), layer(to_backend(x), positions=range(7, 12))):
        np.testing.assert_array_equal(backend.to_numpy(result), rotated_by_numpy(x, rope_only, range(7, 12)))


@pytest.mark.parametrize("make", [np.array, "native"], ids=["numpy", "native"])
def test_text_and_images_and_following_tokens(backend, to_backend, make):
    positions, delta = multimodal([3, (1, 2, 4), 2])
    x, layer = tokens(1, 2, 14, 12), backend.RotaryEmbedding(MULTIMODAL)
    argument = to_backend(positions) if make == "native" else make(positions)
    result = backend.to_numpy(layer(to_backend(x[:, :, :13]), positions=argument))
    np.testing.assert_array_equal(result, rotated_by_numpy(x[:, :, :13], MULTIMODAL, positions))
    after = backend.to_numpy(layer(to_backend(x[:, :, 13:]), start=13 + delta))
    np.testing.assert_array_equal(after, rotated_by_numpy(x[:, :, 13:], MULTIMODAL, [positions.max() + 1]))


def test_rows_of_a_batch_have_their_own_positions(backend, to_backend):
    positions = RNG.integers(0, 2**20, (3, 2, 5))
    x = tokens(2, 4, 5, 12)
    result = backend.to_numpy(backend.RotaryEmbedding(MULTIMODAL)(to_backend(x), positions=positions))
    np.testing.assert_array_equal(result, rotated_by_numpy(x, MULTIMODAL, positions))


def test_images_have_grid_positions(backend, to_backend):
    encoding = AxialRotary(head_dim=8, layout="half", axes_dims=(4, 4), base=100)
    x = tokens(2, 3, 6, 8)
    result = backend.to_numpy(backend.RotaryEmbedding(encoding, max_len=4)(to_backend(x), positions=grid(2, 3)))
    np.testing.assert_array_equal(result, rotated_by_numpy(x, encoding, grid(2, 3)))


@pytest.mark.parametrize(
    ("positions", "message"),
    [
        (None, "`positions` must be given to AxialRotary(head_dim=8, layout='half', axes_dims=(4, 4)): (2, length)"),
        (np.zeros((3, 4)), "`positions` must have shape (2, ..., length), got (3, 4)."),
        (np.zeros((2, 5)), "`positions` must have shape (4,) or (1, 4) or (2, 4) to fit the tokens, got (5,)."),
    ],
)
def test_positions_on_axes_are_checked(backend, to_backend, positions, message):
    layer = backend.RotaryEmbedding(AxialRotary(head_dim=8, layout="half", axes_dims=(4, 4)))
    with pytest.raises(ValueError, match=re.escape(message)):
        layer(to_backend(tokens(2, 1, 4, 8)), positions=positions)


@pytest.mark.parametrize(
    "shape_and_axis",
    [((2, 3, 4, 8), -2), ((2, 4, 3, 8), 1), ((4, 2, 3, 8), 0), ((4, 3, 8), 0)],
    ids=["batch heads length", "batch length heads", "length batch heads", "tokens heads"],
)
def test_the_sequence_axis(backend, to_backend, shape_and_axis):
    shape, seq_axis = shape_and_axis
    x = tokens(*shape)
    result = backend.to_numpy(backend.RotaryEmbedding(DYNAMIC)(to_backend(x), start=5, seq_axis=seq_axis))
    moved = rotated_by_numpy(np.moveaxis(x, seq_axis, -2), DYNAMIC, range(5, 9))
    np.testing.assert_array_equal(result, np.moveaxis(moved, -2, seq_axis))


@pytest.mark.parametrize(
    "encoding",
    [
        Rotary(head_dim=12, layout="half", rotary_dim=4, placement="trail"),
        Rotary(head_dim=12, layout="interleaved", rotary_dim=4, placement="trail"),
        Rotary(head_dim=12, layout="half", rotary_dim=4, placement="spread"),
        Rotary(head_dim=12, layout="interleaved_to_half", rotary_dim=4),
        Rotary(head_dim=12, layout="half", scaling=Proportional(partial_rotary_factor=0.34)),
    ],
    ids=["trail", "interleaved trail", "spread", "to half", "proportional"],
)
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_unrotated_channels_keep_their_bits(on, encoding, compiled):
    if compiled and "compiled" in on.known_failures:
        pytest.skip("This framework has no compiler.")
    unrotated = {"lead": range(4, 12), "trail": range(8), "spread": [2, 3, 4, 5, 8, 9, 10, 11]}[
        encoding.pairing.placement
    ]
    x = tokens(1, 1, 5, 12)
    x[..., list(unrotated)] = np.resize(np.array([np.nan, np.inf, -0.0, -np.inf, 1e-42], np.float32), 8)
    layer = on.testing.eval_mode(on.backend.RotaryEmbedding(encoding))
    result = on.backend.to_numpy((on.testing.compiled(layer) if compiled else layer)(on.backend.from_numpy(x)))
    result_unrotated = result[..., list(unrotated)]
    np.testing.assert_array_equal(np.isnan(result_unrotated), np.isnan(x[..., list(unrotated)]))
    np.testing.assert_array_equal(np.signbit(result_unrotated), np.signbit(x[..., list(unrotated)]))
    np.testing.assert_array_equal(result_unrotated, x[..., list(unrotated)])
    assert np.isfinite(np.delete(result, list(unrotated), axis=-1)).all()


def test_learned_frequencies_rotate_at_any_position(backend, to_backend):
    encoding, x = LearnedRotary(head_dim=8, layout="half"), tokens(2, 3, 4, 8)
    layer = backend.RotaryEmbedding(encoding)
    if hasattr(layer, "initialize"):
        layer.initialize()
    for arguments in (
        {"start": 9},
        {"start": [9, 2]},
        {"positions": [3, 1, 4, 1]},
        {"positions": [0.5, 1.5, 2.0, 9.0]},
    ):
        start = np.array(arguments.get("start", 0))
        places = arguments.get("positions", start[..., None] + np.arange(4))
        result = backend.to_numpy(layer(to_backend(x), **arguments))
        np.testing.assert_allclose(result, rotated_by_numpy(x, encoding, np.array(places)), rtol=0, atol=2e-5)


@pytest.mark.parametrize(
    ("shape", "seq_axis", "compiled"),
    [
        ((3, 4, 5, 8), -2, False),
        ((3, 5, 4, 8), -3, False),
        ((4, 5, 8), -2, False),
        ((2, 3, 2, 5, 8), -2, False),
        ((3, 5, 4, 8), -3, True),
    ],
    ids=["batch heads length", "batch length heads", "heads length", "two batches", "compiled"],
)
def test_heads_with_rows_of_their_own(on, shape, seq_axis, compiled):
    if compiled and "compiled" in on.known_failures:
        pytest.skip("This framework has no compiler.")
    weights = {name: tokens(2, 3, 3) for name in MIXED.parameters()}
    layer = on.testing.with_parameters(on.testing.eval_mode(on.backend.RotaryEmbedding(MIXED)), weights)
    call, x = on.testing.compiled(layer) if compiled else layer, tokens(*shape)
    result = on.backend.to_numpy(call(on.backend.from_numpy(x), start=3, seq_axis=seq_axis))
    moved = np.moveaxis(x, seq_axis, -2)
    rows = MIXED.mixed(weights, MIXED.cos_sin(range(3, 8)))
    cos, sin = (np.repeat(row, moved.shape[-3] // 2, axis=0) for row in rows)
    wanted = np.moveaxis(rotate(moved, cos, sin, layout="half"), -2, seq_axis)
    np.testing.assert_allclose(result, wanted, rtol=0, atol=1e-5)
