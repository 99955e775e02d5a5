import numpy as np

from posenc_core import Sinusoidal, combine

from ..errors import rejects


def test_rows_are_added_or_appended(xp):
    x, rows = np.ones((2, 3, 4)), Sinusoidal(dim=4).table(range(3)).astype(float)
    given = xp.asarray(x), xp.asarray(rows)
    np.testing.assert_array_equal(np.asarray(combine(*given, how="add")), x + rows)
    appended = np.asarray(combine(*given, how="concat"))
    np.testing.assert_array_equal(appended, np.concatenate([x, np.broadcast_to(rows, x.shape)], axis=-1))


def test_rows_may_differ_by_batch_row(xp):
    x, rows = np.zeros((2, 5, 3, 4)), np.arange(24.0).reshape(2, 3, 4)
    got = np.asarray(combine(xp.asarray(x), xp.asarray(rows), how="add"))
    np.testing.assert_array_equal(got, np.broadcast_to(rows[:, None], x.shape))


def test_adding_after_a_projection_is_concatenating_before_it():
    rng = np.random.default_rng(2)
    x, e, w = rng.normal(size=(5, 3)), rng.normal(size=(5, 2)), rng.normal(size=(5, 4))
    np.testing.assert_allclose(combine(x, e, how="concat") @ w, x @ w[:3] + e @ w[3:], atol=1e-14)


def test_unknown_ways_are_refused():
    with rejects(ValueError, "how", "'mul'"):
        combine(np.ones((1, 2)), np.ones((1, 2)), how="mul")


def test_rows_of_another_dtype_are_added_in_place_as_elsewhere():
    """NumPy alone would add in float64 and round once."""
    x, rows = np.ones((1, 2), np.float32), np.full((1, 2), 2**-24 + 2**-60)
    expected = combine(x, rows, how="add")
    combine(x, rows, how="add", out=x)
    np.testing.assert_array_equal(x, expected)
