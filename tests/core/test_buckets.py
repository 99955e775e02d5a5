import math

import numpy as np
import pytest

from posenc_backends import load
from posenc_core import Alibi, Fire, T5Bias
from posenc_core.attention.bias import sandwich_sums
from posenc_core.attention.buckets import gather_by_head, index_by_offset, index_by_pair, t5_buckets, window_index
from posenc_core.attention.coordinate_mlp import log_coordinates
from posenc_core.layers.attention_checks import check_attention

from ..errors import rejects


def test_published_thresholds():
    past = t5_buckets(16, 128, sides="past")[127::-1]
    begins = [1, *(np.flatnonzero(np.diff(past)) + 2)]
    np.testing.assert_array_equal(begins, [*range(1, 9), 12, 16, 23, 32, 46, 64, 91])


@pytest.mark.parametrize(
    ("buckets", "farthest", "distance"), [(32, 128, 64), (32, 800, 80), (16, 400, 40), (256, 100, 80)]
)
def test_where_logarithms_of_float32_part(buckets, farthest, distance):
    """Where distance ** shared is a whole power, its bucket begins: XLA's logarithms are below it there."""
    single = buckets // 4
    table = t5_buckets(buckets, farthest)[farthest:]
    step = math.log(distance / single) / math.log(farthest / single) * single
    if abs(step - round(step)) < 1e-9:
        assert table[distance] > table[distance - 1]
    assert table[distance] == buckets // 2 + min(single + math.floor(step + 1e-9), 2 * single - 1)


def test_offsets_of_any_shape_have_a_bucket():
    encoding = T5Bias(num_heads=2, num_buckets=8, max_distance=8)
    offsets = np.arange(-10, 10).reshape(4, 5)
    found = encoding.bucket_of(offsets.tolist())
    np.testing.assert_array_equal(found, t5_buckets(8, 8)[np.clip(offsets + 8, 0, 16)])
    table = np.arange(16.0, dtype=np.float32).reshape(8, 2)
    weights = encoding.constants(0) | {"table": table}
    np.testing.assert_array_equal(encoding.bias_by_offset(offsets, weights), np.moveaxis(table[found], -1, 0))
    for refused, words in ((encoding, "weights"), (Fire(num_heads=2), "bias_by_offset")):
        with rejects(TypeError, words):
            refused.bias_by_offset(offsets)
    for wrong in ("far", [0.5], 3, [2**40]):
        with rejects((TypeError, ValueError), "offsets"):
            encoding.bucket_of(wrong)


@pytest.mark.parametrize("farthest", [2**20, 10**6 + 3])
def test_long_distances_are_found_by_bisection(farthest):
    table = t5_buckets(64, farthest, sides="past")[farthest::-1]
    exact = [n for n in (1, 31, 32, farthest - 1, farthest) for _ in "x"]
    assert (np.diff(table) >= 0).all()
    assert table[exact].tolist()[:3] == [1, 31, 32]
    assert table[-1] == 63


def test_all_offsets_beyond_the_last_share_its_bucket():
    index = t5_buckets(8, 8)
    got = index_by_offset(index, np.array([2**30]), np.array([0, 2**30 - 1, 2**30, 2**30 + 2, 2**31 - 1]), reach=8)
    np.testing.assert_array_equal(got, [[3, 1, 0, 6, 7]])


def test_distances_that_are_no_integers_count_as_the_integer_below():
    got = index_by_offset(t5_buckets(8, 8), np.array([0.5]), np.array([0.0, -0.5, 2.4, 2.6]), reach=8)
    np.testing.assert_array_equal(got, [[0, 1, 5, 6]])


def test_tokens_outside_a_window_are_in_its_frame():
    index = np.pad(window_index(1, 2), 1, constant_values=3).ravel()
    got = index_by_pair(index, np.array([0, 1, 2, -1, 2**30]), np.array([0, 1, -7]), tokens=2)
    np.testing.assert_array_equal(got, [[1, 0, 3], [2, 1, 3], [3, 3, 3], [3, 3, 3], [3, 3, 3]])


def test_batches_lead_the_heads():
    table, index = np.arange(12.0).reshape(4, 3), np.array([[[0, 1]], [[3, 2]]])
    assert gather_by_head(table, index).shape == (2, 3, 1, 2)
    np.testing.assert_array_equal(gather_by_head(table, index)[1, 2], [[11, 8]])


def test_coordinates_are_those_of_at_most_8192_cells():
    assert log_coordinates(4097).shape == (8193,)
    with rejects(ValueError, "size", "(1, 8193)"):
        log_coordinates(8193)


@pytest.mark.parametrize("backend", ["numpy", "strict"])
def test_offsets_that_are_looked_up_are_integers_of_any_library(backend):
    library = load(backend)
    layer, scores = library.AttentionBias(T5Bias(num_heads=2)), np.zeros((2, 3, 4), np.float32)
    scores = layer.backend.from_numpy(scores, like=layer._any_array)
    for name, count in (("query_positions", 3), ("key_positions", 4)):
        with rejects(TypeError, name, "integers"):
            layer(scores, **{name: np.arange(count) + 0.5})


@pytest.mark.parametrize(("heads", "named"), [(12, "1, 2, 3, 4, 6, 12"), (256, "1, 2, 4, 8, 16, 32, 64, 128")])
def test_the_numbers_of_heads_that_divide_others_are_named_up_to_128(heads, named):
    with rejects(ValueError, "num_kv_heads", f"as {named} do"):
        check_attention(heads, heads, (), 5)


@pytest.mark.parametrize("base", [1, 0.5])
def test_the_base_of_sums_of_cosines_is_above_1(base):
    assert sandwich_sums(1, dim=4, base=1.01).shape == (3,)
    with rejects(ValueError, "base", base):
        sandwich_sums(1, dim=4, base=base)


def test_scores_without_a_batch_have_positions_without_rows():
    layer, scores = load("numpy").AttentionBias(Alibi(num_heads=2)), np.zeros((2, 3, 4), np.float32)
    places = np.arange(3)
    np.testing.assert_array_equal(layer(scores, query_positions=places), layer(scores))
    for rows in (2, 3):
        with rejects(ValueError, "query_positions", f"({rows}, 3)"):
            layer(scores, query_positions=np.tile(places, (rows, 1)))
    np.testing.assert_array_equal(layer(scores[None], query_positions=places[None]), layer(scores[None]))
