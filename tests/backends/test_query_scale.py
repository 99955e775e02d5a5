"""`MultiHeadAttention(query_scale=…)` beside what the golden numbers of all modes say."""

import numpy as np

from posenc_core import AxialRotary, LearnedQueryScale, Placed, QueryScale, Rotary, attend, attend_by_block

from ..errors import rejects

SCALE = QueryScale(length=2, scale=0.75)
TOKENS = np.random.default_rng(8).normal(size=(2, 5, 8)).astype(np.float32)


def test_queries_in_half_precision_are_rounded_once(on, backend):
    """The factors do not pass through the dtype of the queries."""
    dtype = "float32" if "float16" in on.known_failures else "float16"  # the strict backend has no float16
    positions, q = np.array([2**20, 2**20 + 1, 7]), TOKENS[:, :3].astype(dtype)
    layer = on.testing.eval_mode(backend.QueryScaling(SCALE), dtype)
    queries = on.testing.cast(backend.from_numpy(q.astype(np.float32)), dtype)
    wanted = (q.astype(np.float32) * SCALE.factors(positions)[:, None]).astype(dtype)
    np.testing.assert_array_equal(backend.to_numpy(layer(queries, 0, positions)), wanted)


def test_rows_start_at_their_own_positions(backend):
    got = backend.QueryScaling(SCALE)(backend.from_numpy(TOKENS), start=[0, 5])
    wanted = TOKENS * np.stack([SCALE.factors(range(5)), SCALE.factors(range(5, 10))])[..., None]
    np.testing.assert_array_equal(backend.to_numpy(got), wanted)


def test_other_arguments_are_rejected(backend):
    with rejects(TypeError, "query_scale", "0.1"):
        backend.MultiHeadAttention(8, 2, query_scale=0.1)
    with rejects(ValueError, "query_scale", "AxialRotary"):
        axial = AxialRotary(head_dim=4, layout="half", axes_dims=(2, 2))
        backend.MultiHeadAttention(8, 2, position=axial, query_scale=SCALE)
    with rejects(TypeError, "encoding", "Rotary"):
        backend.QueryScaling(Rotary(head_dim=4, layout="half"))


def test_learned_factors_start_at_1_and_fit_the_heads(on, backend):
    q = TOKENS.reshape(1, 2, 5, 8)
    layer = on.testing.eval_mode(backend.QueryScaling(LearnedQueryScale(num_heads=2)))
    np.testing.assert_array_equal(backend.to_numpy(layer(backend.from_numpy(q), start=7)), q)
    with rejects(ValueError, "q", "2 heads"):
        layer(backend.from_numpy(TOKENS.reshape(1, 1, 10, 8)))
    with rejects(ValueError, "query_scale", "num_heads"):
        backend.MultiHeadAttention(8, 2, query_scale=LearnedQueryScale(num_heads=4))


def test_a_cache_and_learned_factors(on, backend):
    """A second token gives what both give at once, where slopes are not 0."""
    layer = on.testing.eval_mode(backend.MultiHeadAttention(8, 2, query_scale=LearnedQueryScale(num_heads=2)))
    numbers = {"slope": np.float32([0.5, -1]), "intercept": np.float32([1, 2])}
    if on.testing.with_parameters(layer.scaling, numbers) is not layer.scaling:
        layer = on.testing.with_parameters(layer, numbers)  # immutable layers (JAX) are replaced as a whole
    first, second = (backend.from_numpy(TOKENS[:, i : i + 1]) for i in range(2))
    both = backend.from_numpy(TOKENS[:, :2])
    cache = layer(first, first, first, cache=()).cache
    result = layer(second, second, second, start=1, cache=cache).result
    wanted = backend.to_numpy(layer(second, both, both, start=1))
    np.testing.assert_allclose(backend.to_numpy(result), wanted, atol=1e-6)
    unscaled = backend.to_numpy(layer(second, both, both))
    assert np.abs(unscaled - wanted).max() > 1e-5


def test_attend_multiplies_queries_of_the_framework(on, to_backend):
    """As with NumPy in float64, and block by block."""
    rng, numbers = np.random.default_rng(2), {"slope": np.float32([0.5, -1]), "intercept": np.float32([1, 2])}
    x, learned = rng.normal(size=(2, 2, 6, 4)).astype(np.float32), LearnedQueryScale(num_heads=2)
    places, rotary = (range(3, 9), range(3, 9)), Rotary(head_dim=4, layout="half")
    wanted = attend(*[x.astype(np.float64)] * 3, position=Placed(rotary, *places, None, learned, numbers))
    q, own = to_backend(x), {name: to_backend(array) for name, array in numbers.items()}
    position = Placed(rotary, *places, None, learned, own)
    for got in (attend(q, q, q, position=position), attend_by_block(q, q, q, position=position, block=3)):
        np.testing.assert_allclose(on.backend.to_numpy(got), wanted, atol=1e-5)
