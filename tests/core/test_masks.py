from contextlib import nullcontext

import numpy as np
import pytest

import posenc_core as p
from posenc_core.attention.masks import all_of
from posenc_core.layers.inputs import check_valid_lens

from ..errors import rejects


def test_causal(xp):
    got = p.causal(xp.asarray([2, 3]), xp.asarray([0, 1, 2, 3]))
    np.testing.assert_array_equal(np.asarray(got), [[True, True, True, False], [True] * 4])
    batch = p.causal(xp.asarray([[0], [1]]), xp.asarray([[0, 1], [0, 1]]))
    np.testing.assert_array_equal(np.asarray(batch), [[[[True, False]]], [[[True, True]]]])
    one = p.causal(xp.asarray([1]), xp.asarray([[0, 1], [2, 1]]))
    np.testing.assert_array_equal(np.asarray(one), [[[[True, True]]], [[[False, True]]]])


def test_valid_lengths(xp):
    rows = np.asarray(p.valid_lengths(xp.asarray([0, 2]), xp.asarray([0, 1, 2])))
    np.testing.assert_array_equal(rows, [[[[False] * 3]], [[[True, True, False]]]])
    queries = np.asarray(p.valid_lengths(xp.asarray([[1, 3]]), xp.asarray([0, 1, 2])))
    np.testing.assert_array_equal(queries, [[[[True, False, False], [True] * 3]]])


def test_padding(xp):
    got = np.asarray(p.padding(xp.asarray([[7, 0, 0], [7, 7, 0]]), 0))
    np.testing.assert_array_equal(got[:, 0, 0], [[True, False, False], [True, True, False]])


def test_sequences_of_a_packed_row_see_themselves_alone(xp):
    bounds = [0, 2, 2, 5]
    ids = p.sequence_ids(bounds, length=6)
    np.testing.assert_array_equal(ids, [0, 0, 2, 2, 2, -1])
    got = np.asarray(p.same_sequence(xp.asarray(ids), xp.asarray(ids)))
    wanted = np.zeros((6, 6), bool)
    for begin, end in ((0, 2), (2, 5)):
        wanted[begin:end, begin:end] = True
    np.testing.assert_array_equal(got, wanted)
    batch = np.asarray(p.same_sequence(xp.asarray([[0], [2]]), xp.asarray([ids.tolist(), [2, 2, 1, 1, 0, 0]])))
    np.testing.assert_array_equal(batch[:, 0, 0].astype(int), [[1, 1, 0, 0, 0, 0], [1, 1, 0, 0, 0, 0]])
    np.testing.assert_array_equal(p.sequence_ids([0]), p.from_cu_seqlens([0]))
    with rejects(ValueError, "length", "4"):
        p.sequence_ids(bounds, length=4)


def test_all_of_several_masks(xp):
    rows, columns, both = np.array([[True], [False]]), np.array([True, False, True]), np.ones((2, 3), bool)
    both[0, 2] = False
    got = np.asarray(all_of(*map(xp.asarray, (rows, columns, both))))
    np.testing.assert_array_equal(got, rows & columns & both)
    np.testing.assert_array_equal(np.asarray(all_of(xp.asarray(both))), both)


@pytest.mark.parametrize(
    ("shape", "sizes", "fits"),
    [
        ((2,), (2, 3, 4), True), ((2, 3), (2, 3, 4), True), ((3,), (2, 3, 4), False), ((2, 4), (2, 3, 4), False),
        ((None,), (2, 3, 4), True), ((3,), (None, 3, 4), True), ((2, 4), (2, None, 4), True),
    ],
)  # fmt: skip
def test_valid_lengths_fit_as_far_as_sizes_are_known(shape, sizes, fits):
    with nullcontext() if fits else rejects(ValueError, "valid_lens", str(shape)):
        check_valid_lens(shape, None, sizes)


@pytest.mark.parametrize("axes", [0, 1, 2, 3])
def test_a_mask_may_have_fewer_axes_than_the_scores(axes):
    rng = np.random.default_rng(4)
    q, k, v = rng.normal(size=(3, 2, 7, 4))
    mask = np.asarray(rng.random((2, 7, 7)[3 - axes :]) < 0.7 if axes else True)
    expected = p.attend(q, k, v, mask=mask)
    np.testing.assert_allclose(p.attend_by_block(q, k, v, mask=mask, block=3), expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("position", ["rope", p.Rotary(head_dim=4, layout="half")], ids=str)
def test_an_encoding_alone_has_no_positions(position):
    x = np.ones((1, 2, 3, 4))
    for function in (p.attend, p.attend_by_block):
        with rejects(TypeError, "position", position):
            function(x, x, x, position=position)


@pytest.mark.parametrize("encoding", [p.Rotary(head_dim=4, layout="half"), p.Alibi(num_heads=2)], ids=repr)
def test_positions_of_rows_are_as_many_as_the_rows(encoding):
    x, places = np.random.default_rng(2).normal(size=(3, 2, 5, 4)), np.arange(5)
    expected = p.attend(x, x, x, position=p.Placed(encoding, places, places))
    for rows in (1, 3):
        each = np.tile(places, (rows, 1))
        np.testing.assert_array_equal(p.attend(x, x, x, position=p.Placed(encoding, each, each)), expected)
    for rows in (2, 4):
        with rejects(ValueError, "query_positions", f"({rows}, 5)"):
            p.attend(x, x, x, position=p.Placed(encoding, np.tile(places, (rows, 1)), places))
        with rejects(ValueError, "key_positions", f"({rows}, 5)"):
            p.attend(x, x, x, position=p.Placed(encoding, places, np.tile(places, (rows, 1))))
