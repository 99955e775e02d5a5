"""The one check of the shape of positions, which attention and layers share, and tables that fit tokens."""

import re

import numpy as np
import pytest

from posenc_core._array_api.checks import check_positions_shape, sizes_match
from posenc_core._array_api.namespace import aligned, aligned_by_head
from posenc_core._array_api.numpy_kernel import lies_as
from posenc_core.rotation import Pairing, check_sizes

from ..errors import rejects


@pytest.mark.parametrize(
    ("sizes", "wanted", "same"),
    [
        ((2, 3), (2, 3), True),
        ((2, 3), (2, 4), False),
        ((3,), (2, 3), False),
        ((None, 3), (2, 3), True),
        ((-1, 4), (2, 3), False),
        ((2, 3), (2, None), True),
        ((), (), True),
    ],
)
def test_sizes_match_as_far_as_a_tracer_knows_them(sizes, wanted, same):
    assert sizes_match(sizes, wanted) is same


@pytest.mark.parametrize(
    ("sizes", "batch"), [((3,), None), ((3,), 2), ((1, 3), 2), ((2, 3), 2), ((None, 3), 2), ((5, 3), -1)]
)
def test_positions_fit_tokens(sizes, batch):
    check_positions_shape("positions", sizes, (3,), batch)


@pytest.mark.parametrize(
    ("sizes", "batch", "wanted"),
    [
        ((4,), None, "(3,)"),
        ((2, 3), None, "(3,)"),
        ((4, 3), 2, "(3,) or (1, 3) or (2, 3)"),
        ((4, 3), 1, "(3,) or (1, 3)"),
        ((), 2, "(3,) or (1, 3) or (2, 3)"),
    ],
)
def test_other_shapes_are_named_with_those_that_fit(sizes, batch, wanted):
    message = f"`positions` must have shape {wanted} to fit the tokens, got {sizes}."
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        check_positions_shape("positions", sizes, (3,), batch)


HALF = Pairing("half", "half")
SIZES = (2, 3, 4, 5)  # of the axes before the last


@pytest.mark.parametrize("rank", [2, 3, 4, 5])
@pytest.mark.parametrize("has_batch", [False, True])
def test_a_table_lies_along_the_sequence_and_its_batch_along_the_first_other_axis(rank, has_batch):
    x = np.zeros((*SIZES[: rank - 1], 6))
    for sequence in range(rank - 1):
        others = [axis for axis in range(rank - 1) if axis != sequence]
        if has_batch and not others:
            continue
        kept = [others[0], sequence] if has_batch else [sequence]
        table = np.random.default_rng(rank).normal(size=(*(x.shape[axis] for axis in kept), 6))
        for axis in (sequence, sequence - rank):
            fitting = np.broadcast_to(aligned(table, x, seq_axis=axis), x.shape)
            for place in np.ndindex(x.shape[:-1]):
                np.testing.assert_array_equal(fitting[place], table[tuple(place[axis] for axis in kept)])


@pytest.mark.parametrize("rank", [3, 4, 5])
@pytest.mark.parametrize("has_batch", [False, True])
@pytest.mark.parametrize("copies", [1, 2])
def test_a_table_of_heads_lies_along_the_axis_beside_the_sequence(rank, has_batch, copies):
    x, heads = np.zeros((*SIZES[: rank - 1], 6)), 2
    for sequence, beside in ((rank - 2, rank - 3), (rank - 3, rank - 2)):
        x = np.zeros([*(copies * heads if axis == beside else size for axis, size in enumerate(x.shape[:-1])), 6])
        batch = [x.shape[0]] if has_batch else []
        table = np.random.default_rng(rank).normal(size=(*batch, heads, x.shape[sequence], 6))
        if rank < 3 + has_batch:
            with rejects(ValueError, "q", str(x.shape)):
                aligned_by_head(table, x, seq_axis=sequence - rank)
            continue
        fitting = np.broadcast_to(aligned_by_head(table, x, seq_axis=sequence - rank), x.shape)
        for place in np.ndindex(x.shape[:-1]):
            row = (*([place[0]] if has_batch else []), place[beside] // copies, place[sequence])
            np.testing.assert_array_equal(fitting[place], table[row])
    with rejects(ValueError, "q"):
        aligned_by_head(table, x, seq_axis=-1)
    with rejects(ValueError, "q", "-4"):
        aligned_by_head(table, np.zeros((2, 2, 2, 2, 2)), seq_axis=-4)


@pytest.mark.parametrize("unknown", [None, -1])
def test_cosine_and_sine_have_as_many_columns_as_far_as_they_are_known(unknown):
    check_sizes((unknown, 4), (3, 2), (unknown, 2), HALF)
    check_sizes((3, 4), (3, 2), (3, unknown), HALF)
    for rows in (3, unknown):
        with rejects(ValueError, "sin", 1):
            check_sizes((3, 4), (3, 2), (rows, 1), HALF)


def test_only_the_same_places_in_the_same_order_are_the_same_memory():
    x = np.zeros((4, 4))
    assert lies_as(x, x)
    assert lies_as(x[1:], x[1:])
    for other in (x.copy(), x.T, x[:2], x[1:], x[::-1], x[:, :2]):
        assert not lies_as(x, other)
    assert not lies_as(x.T, x.T)
