"""`MultiHeadAttention(query_scale=…)` beside what the golden numbers of all modes say."""

import numpy as np

from posenc_core import AxialRotary, QueryScale, Rotary

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
