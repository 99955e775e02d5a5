"""Values on both sides of limits and conditions that samples of `nox -s mutants` showed untested."""

from contextlib import nullcontext
from dataclasses import replace
from decimal import Decimal
from types import SimpleNamespace

import numpy as np
import pytest

import posenc_core as p
from posenc_backends.numpy import MultiHeadAttention, PositionalEncoding, RotaryEmbedding
from posenc_core._array_api.namespace import aligned_by_head, namespace_of
from posenc_core._array_api.numpy_kernel import PART, _parts
from posenc_core.analysis.differences import first_off
from posenc_core.analysis.same import _longest
from posenc_core.encodings.base import Parameter
from posenc_core.encodings.remapping import whole
from posenc_core.encodings.scoring.base import Scoring
from posenc_core.huggingface.parts import _walk_parts
from posenc_core.rotation import _rotate_block
from posenc_core.tables._angle_addition import are_consecutive, block_length
from posenc_core.tables._fixed_point import turns_of
from posenc_core.tables._rounding import TableSpec, rows_at_a_time
from posenc_core.tables.sincos import cos_sin

from .test_bad_values import SWEEP

RNG = np.random.default_rng(41)
FARTHEST = 2**31 - 1
SCORING = [cls(**options) for cls, options, _ in SWEEP if issubclass(cls, Scoring)]


@pytest.mark.parametrize("encoding", SCORING, ids=repr)
def test_scores_have_positions_up_to_both_limits(encoding):
    lowest = -FARTHEST if encoding.limit > FARTHEST else 0
    for position, is_valid in (
        (lowest, True),
        (lowest - 1, False),
        (encoding.limit - 1, True),
        (encoding.limit, False),
    ):
        expected = (
            nullcontext() if is_valid else pytest.raises(ValueError, match=f"from {lowest} to {encoding.limit - 1}")
        )
        with expected:
            encoding.check_positions("positions", np.array([0, position]))
        with expected:
            encoding.check_positions("positions", range(position, position + 1))


def test_only_integers_from_0_in_steps_of_1_are_consecutive():
    blocks = ([0, 1, 2], [5, 6, 7], [0, 2, 4], [3, 3, 3], [2, 1, 0], [-1, 0, 1], [0, 1, 3])
    assert are_consecutive(np.array(blocks).ravel(), 3) == [True, True, *[False] * 5]
    assert are_consecutive(np.array(blocks, float).ravel(), 3) == []


@pytest.mark.parametrize("step", [2, 3, -1])
def test_a_table_at_steps_has_the_rows_of_its_positions(step):
    encoding = p.Sinusoidal(dim=64)
    positions = np.arange(4096)
    np.testing.assert_array_equal(encoding.table(positions[::step]), encoding.table(positions)[::step])


@pytest.mark.parametrize("encoding", [p.Normalized(dim=2, length=4), p.Normalized(dim=1, length=1)], ids=repr)
def test_traced_rows_are_those_of_eager_code_or_nan(encoding):
    positions = np.arange(-2, 7).astype(np.float32)
    (rows,) = encoding.traced_rows(positions)
    known = (positions >= 0) & (positions < encoding.length)
    np.testing.assert_array_equal(np.isnan(rows).all(axis=1), ~known)
    np.testing.assert_array_equal(rows[known], encoding.table(positions[known].astype(int)))


@pytest.mark.parametrize("seed", [0, 2**32 - 1, (0, 2**32 - 1)])
def test_seeds_have_32_bits(seed):
    assert p.draw_augmentation(2, seed=seed, shift=0.5).shift.shape == (2,)
    for wrong in (-1, 2**32):
        with pytest.raises(ValueError, match="`seed`"):
            p.draw_augmentation(2, seed=(0, wrong), shift=0.5)


def test_frequencies_are_finite_and_at_most_2_to_the_127():
    largest = Decimal(2**127)
    assert cos_sin([0.0], (largest,))[0].tolist() == [[1.0]]
    for wrong in (Decimal(2**127 + 1), Decimal("inf"), Decimal("nan"), Decimal(-1)):
        with pytest.raises(ValueError, match=r"`frequencies` must be finite, from 0 to 2\*\*127"):
            cos_sin([0.0], (wrong,))


def test_the_center_of_xpos_may_lie_as_far_as_a_key():
    reach = p.XPos(head_dim=8, layout="half").reach
    for center in (reach, -reach):
        assert p.XPos(head_dim=8, layout="half", center=center).center == center
        with pytest.raises(ValueError, match="`center` must lie within"):
            p.XPos(head_dim=8, layout="half", center=np.nextafter(center, 2 * center))


def test_a_backend_may_rotate_queries_and_keys_at_once(monkeypatch):
    q, k = np.ones((2, 2, 3, 8), np.float32), np.ones((1, 1, 3, 8), np.float32)  # which no kernel rotates in one call
    for encoding, count in ((p.Rotary(head_dim=8, layout="half"), 1), (p.XPos(head_dim=8, layout="half"), 0)):
        layer, calls = RotaryEmbedding(encoding), []
        expected = layer(q, k, positions=np.array([[0, 2, 3]]))
        monkeypatch.setattr(
            type(layer.backend), "rotate_both", lambda *given, calls=calls: calls.append(given) or ("both",)
        )
        found = layer(q, k, positions=np.array([[0, 2, 3]]))
        monkeypatch.undo()
        assert len(calls) == count
        assert found == ("both",) if count else np.array_equal(found[1], expected[1])


def test_frequencies_of_random_features_are_radians_per_position():
    encoding = p.RandomFourierFeatures(dim=8, scale=3.0, seed=5)
    np.testing.assert_array_equal(encoding.angular_frequencies(), np.tile(encoding.mixture()[:, 0] * 2 * np.pi, 2))
    angles = np.outer([0.5, -2.0], encoding.angular_frequencies()[:4])
    np.testing.assert_allclose(encoding.table([0.5, -2.0]), np.hstack([np.cos(angles), np.sin(angles)]), atol=1e-6)


@pytest.mark.parametrize(("positions", "length"), [(511, 0), (512, 64), (1023, 64), (1024, 128)])
def test_blocks_have_64_positions_or_more(positions, length):
    factors = (Decimal(1),) * 4
    spec = TableSpec(np.arange(positions), None, None, turns_of(factors), factors, None)
    assert block_length(spec) == length


@pytest.mark.parametrize(("entries", "columns", "rows"), [(100, 0, 100), (100, 1, 100), (100, 7, 14), (6, 7, 1)])
def test_a_block_has_about_as_many_entries_and_at_least_one_row(entries, columns, rows):
    assert rows_at_a_time(entries, columns) == rows


def test_a_factor_is_not_negative():
    with pytest.raises(ValueError, match=r"`factor` must be finite, from 0 to 2\*\*127"):
        cos_sin(np.zeros(2, int), (Decimal(1),), factor=Decimal("-0.5"))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_factor_of_0_makes_a_table_of_zeros(dtype):
    for factor, expected in ((Decimal(0), 0.0), (Decimal(1), 1.0), (Decimal(2), 2.0)):
        cos, sin = cos_sin(np.zeros(600, int), (Decimal(1), Decimal(2)), factor=factor, dtype=dtype)
        assert (cos == expected).all()
        assert not sin.any()


@pytest.mark.parametrize(
    "encoding",
    [
        p.ReRoPE(rotary=p.Rotary(head_dim=8, layout="half"), window=4),
        p.DualChunk(rotary=p.Rotary(head_dim=8, layout="half"), chunk_size=4, local_size=1),  # keys as wide as values
        p.PoPE(head_dim=8, num_heads=2),
    ],
    ids=repr,
)
def test_a_fused_kernel_is_not_asked_for_what_needs_scores(encoding, monkeypatch):
    x = np.random.default_rng(0).standard_normal((1, 3, 16)).astype(np.float32)
    plain, placed = (
        MultiHeadAttention(16, 2, position=position) for position in (p.Rotary(head_dim=8, layout="half"), encoding)
    )
    expected = placed(x, x, x, causal=True)

    def kernel(*_):
        raise LookupError

    monkeypatch.setattr(namespace_of(x), "fused_attention", kernel, raising=False)
    with pytest.raises(LookupError):
        plain(x, x, x, causal=True)
    np.testing.assert_array_equal(placed(x, x, x, causal=True), expected)


def test_positions_are_whole_if_all_are():
    assert whole(np.array([1.0, -2.0])).dtype == np.int64
    assert whole(np.array([1.0, 2.5])).dtype == np.float64


def test_the_start_of_a_parameter_is_not_shown():
    assert repr(Parameter(shape=(2,), start=abs)) == "Parameter(shape=(2,), std=1.0, mean=0.0)"


@pytest.mark.parametrize("sign", [1, -1])
def test_each_start_of_a_batch_is_below_2_to_the_31(sign):
    layer, x = RotaryEmbedding(p.Rotary(head_dim=8, layout="half")), np.ones((2, 3, 8), np.float32)
    with pytest.raises(ValueError, match=r"`start` must be below 2\*\*31 in size"):
        layer(x, start=np.array([0, sign * 2**31]))


@pytest.mark.parametrize("encoding", [p.Sinusoidal(dim=8), p.Sinusoidal(dim=7, convention="tensor2tensor")], ids=repr)
def test_rows_follow_positions_as_far_as_these_move(encoding):
    """Positions of a gradient differ from the rows by 0; by more, the rows are those of the moved positions."""
    layer, positions, moved = PositionalEncoding(encoding.dim, encoding=encoding), np.arange(5.0), 0.375
    (rows,), (slopes,) = encoding.rows(positions).values(), encoding.derivatives(positions).values()
    layer.backend = SimpleNamespace(
        **{name: getattr(layer.backend, name) for name in ("is_float64", "from_numpy", "to_numpy")},
        stop_gradient=lambda given: given - moved,
    )
    found = layer.follow_positions(rows, [positions], slopes[None], encoding.angular_frequencies()[None])
    np.testing.assert_allclose(found, encoding.table(positions + moved), atol=1e-6)


def test_the_partners_of_channels_are_those_of_the_library():
    """Partners of 0 leave each channel times the cosine; they are not asked for in half precision."""
    library = SimpleNamespace(partners=lambda x, _: np.zeros_like(x), concat=np.concatenate, astype=np.ndarray.astype)
    x, cos, sin = np.ones((3, 4)), np.full((3, 2), 0.5), np.ones((3, 2))
    pairing = p.Rotary(head_dim=4, layout="half").pairing
    np.testing.assert_array_equal(_rotate_block(library, x, cos, sin, pairing), 0.5 * x)
    np.testing.assert_array_equal(
        _rotate_block(library, np.float16(x), cos, sin, pairing), np.tile([-0.5, -0.5, 1.5, 1.5], (3, 1))
    )


@pytest.mark.parametrize(
    ("shape", "parts"),
    [
        ((5 * PART,), 1),  # never within a row
        ((4, PART), 4),
        ((7, PART // 3), 3),
        ((2, 3, PART), 6),
        ((4, 3, PART // 6), 2),
    ],
)
def test_large_arrays_are_rotated_in_parts(shape, parts):
    found = list(_parts(shape))
    assert len(found) == parts
    counted = np.zeros(shape, np.uint8)
    for part in found:
        counted[part] += 1
    assert (counted == 1).all()


@pytest.mark.parametrize(("factor", "position"), [(0.625, 1), (0.5, None), (0.4, None)])
def test_small_factors_are_never_a_large_bound_apart(factor, position):
    """Two factors are at most their sum apart: half a turn at position 1 makes 1.25, 1 and 0.8."""
    assert first_off(factor, factor, np.pi, 1.0) == position


@pytest.mark.parametrize(("stated", "longest"), [({}, 4096), (1, 4096), (2, 2), (100, 100)])
def test_the_longest_length_is_that_of_the_config_or_of_its_scaling(stated, longest):
    rotary = p.Rotary(head_dim=8, layout="half", scaling=p.YaRN(factor=4, original_max_position_embeddings=1024))
    config = {"max_position_embeddings": stated} if stated else {}
    assert _longest(rotary, None, (config, {})) == longest
    plain = {4096: 2**17, 2: 2, 100: 100}[longest]  # without a scaling, a length of 1 is none
    assert _longest(replace(rotary, scaling=None), None, ({}, config)) == plain
    lists = {"short_factor": [1.0] * 4, "long_factor": [2.0] * 4, "attention_factor": 1.0}
    scaling = p.LongRoPE(**lists, original_max_position_embeddings=200)
    assert _longest(None, replace(rotary, scaling=scaling), (config, {})) == 201  # one more than the shorter sequences


def test_tables_of_heads_fit_tokens_with_axes_between():
    table = np.arange(48.0).reshape(2, 3, 4, 2)
    fitting = aligned_by_head(table, np.zeros((2, 5, 3, 4, 8)), seq_axis=-2)
    np.testing.assert_array_equal(fitting, table[:, None])


def test_nested_configs_have_a_model_type_or_the_usual_name():
    config = {"decoder": {"model_type": "llama"}, "sampling": {"top_k": 3}, "audio_config": {"width": 8}}
    assert [name for name, _ in _walk_parts(config, "any")] == ["decoder", "audio_config"]


def test_a_mask_of_keys_hides_them_from_all_heads_and_queries_of_their_row():
    """Keras gives it as `keys_mask`; as many heads as rows, so that neither axis passes for the other."""
    layer = MultiHeadAttention(8, 2)
    queries, keys = (RNG.normal(size=(2, length, 8)).astype(np.float32) for length in (3, 4))
    keys_mask = np.array([[True, False, True, True], [False, True, True, False]])
    found = layer.attend(queries, keys, keys, keys_mask=keys_mask)
    np.testing.assert_array_equal(found, layer(queries, keys, keys, mask=keys_mask[:, None, None]))
    both = layer.attend(queries, keys, keys, keys_mask=keys_mask, mask=keys_mask[:, None, None])
    np.testing.assert_array_equal(found, both)
    empty = {"cache": (), "start": 0, "keys_mask": keys_mask}
    np.testing.assert_array_equal(layer.attend(queries, keys, keys, **empty).result, found)
    cache = layer(queries, queries, queries, cache=()).cache
    with pytest.raises(ValueError, match="`mask` must say which keys count"):
        layer.attend(keys, keys, keys, start=3, cache=cache, keys_mask=keys_mask)
    mask = RNG.random((2, 1, 4, 7)) > 0.5
    given = {"start": 3, "cache": cache, "mask": mask}
    found, expected = layer.attend(keys, keys, keys, **given, keys_mask=keys_mask), layer(keys, keys, keys, **given)
    np.testing.assert_array_equal(found.result, expected.result)


@pytest.mark.parametrize("block", [1, 2, 9])
def test_queries_before_all_keys_see_none_of_them(block):
    q, k = RNG.normal(size=(1, 2, 3, 8)), RNG.normal(size=(1, 2, 5, 8))
    position = p.Placed(p.Alibi(num_heads=2), range(3), range(4, 9))
    found = p.attend_by_block(q, k, k, position=position, mask=p.causal, block=block)
    np.testing.assert_array_equal(found, np.zeros((1, 2, 3, 8)))


def test_tables_are_written_from_the_first_position_on():
    encoding, table = p.Sinusoidal(dim=4), np.empty((2, 4), np.float32)
    p.write_tables(encoding, table, start=-FARTHEST)
    np.testing.assert_array_equal(table, encoding.table([-FARTHEST, 1 - FARTHEST]))
    with pytest.raises(ValueError, match=f"`start` must be at least {-FARTHEST}, got {-FARTHEST - 1}"):
        p.write_tables(encoding, table, start=-FARTHEST - 1)


@pytest.mark.parametrize(("dim", "start", "limit"), [(4, 0, 16), (4, 3, 13), (40, 1, 2**31)])
def test_binary_ends_with_the_largest_number_of_its_digits(dim, start, limit):
    encoding = p.Binary(dim=dim, start=start)
    assert encoding.limit == limit
    assert encoding.table([limit - 1]).any()
    with pytest.raises(ValueError, match=f"got {limit}"):
        encoding.table([limit])


@pytest.mark.parametrize("axes_dims", [(8,), (4, 4), (4, 2, 2)])
def test_only_positions_on_several_axes_are_points(axes_dims):
    encoding, axes = p.AxialRotary(head_dim=8, layout="half", axes_dims=axes_dims), len(axes_dims)
    points = np.zeros((axes, 3), np.int64)
    assert p.Placed(encoding, points if axes > 1 else points[0], range(3)).has_points is (axes > 1)
    assert p.Placed(encoding, range(3), points if axes > 1 else points[0]).has_points is (axes > 1)
    assert not p.Placed(encoding, range(3), np.arange(3)).has_points


def test_valid_lengths_may_be_a_list():
    layer, x = MultiHeadAttention(8, 2), RNG.normal(size=(2, 3, 8)).astype(np.float32)
    for lengths in ([1, 3], [[1, 2, 3], [0, 3, 1]]):
        np.testing.assert_array_equal(layer(x, x, x, lengths), layer(x, x, x, np.array(lengths)))


def test_short_tables_are_reported_where_the_layer_is_made():
    with pytest.warns(UserWarning, match="`max_len` is 8") as raised:
        RotaryEmbedding(p.Rotary(head_dim=8, layout="half", max_len=16), max_len=8)
    assert [warning.filename for warning in raised] == [__file__]


def test_a_block_of_keys_that_a_mask_hides_is_not_computed():
    """Hidden values that are not numbers would show, since 0 times NaN is NaN."""
    q, k, v = RNG.normal(size=(3, 9, 8))
    mask = np.ones((9, 9), bool)
    mask[:, 4:8] = False
    seen = np.r_[0:4, 8]
    expected, v[4:8] = p.attend(q, k[seen], v[seen]), np.nan
    np.testing.assert_allclose(p.attend_by_block(q, k, v, mask=mask, block=4), expected, rtol=1e-12)


def test_the_center_of_xpos_is_a_position_however_near_the_others_must_be():
    encoding = p.XPos(head_dim=8, layout="half", scale_base=0.001)
    assert encoding.reach < 1
    np.testing.assert_array_equal(encoding.rows([0])["cos"], np.ones((1, 4)))
    with pytest.raises(ValueError, match="1 away"):
        encoding.rows([-1, 0])


def test_an_equal_encoding_has_the_learned_frequencies_and_another_has_not():
    encoding, x = p.LearnedRotary(head_dim=8, layout="half"), np.ones((1, 3, 8), np.float32)
    layer = RotaryEmbedding(encoding)
    for found, expected in zip(
        layer.rows(x, 0, None, -2, replace(encoding)), layer.rows(x, 0, None, -2, encoding), strict=True
    ):
        np.testing.assert_array_equal(found, expected)
    with pytest.raises(ValueError, match="`seq_len` asks for other frequencies"):
        layer.rows(x, 0, None, -2, replace(encoding, base=500))


@pytest.mark.parametrize("direction", ["forward", "inverse"])
def test_tables_of_queries_of_xpos_are_their_rows(direction):
    encoding = p.XPos(head_dim=8, layout="half", scale_base=8, direction=direction)
    rows = encoding.rows(range(20))
    for name, table in zip(("cos", "sin"), encoding.cos_sin(range(20)), strict=True):
        np.testing.assert_array_equal(table, rows[name])
