import numpy as np

from posenc_core import causal, padding, valid_lengths


def test_causal(xp):
    got = causal(xp.asarray([2, 3]), xp.asarray([0, 1, 2, 3]))
    np.testing.assert_array_equal(np.asarray(got), [[True, True, True, False], [True] * 4])
    batch = causal(xp.asarray([[0], [1]]), xp.asarray([[0, 1], [0, 1]]))
    np.testing.assert_array_equal(np.asarray(batch), [[[[True, False]]], [[[True, True]]]])


def test_valid_lengths(xp):
    rows = np.asarray(valid_lengths(xp.asarray([0, 2]), xp.asarray([0, 1, 2])))
    np.testing.assert_array_equal(rows, [[[[False] * 3]], [[[True, True, False]]]])
    queries = np.asarray(valid_lengths(xp.asarray([[1, 3]]), xp.asarray([0, 1, 2])))
    np.testing.assert_array_equal(queries, [[[[True, False, False], [True] * 3]]])


def test_padding(xp):
    got = np.asarray(padding(xp.asarray([[7, 0, 0], [7, 7, 0]]), 0))
    np.testing.assert_array_equal(got[:, 0, 0], [[True, False, False], [True, True, False]])
