"""The one check of the shape of positions, which attention and layers share."""

import re

import pytest

from posenc_core._array_api.checks import check_positions_shape, sizes_match


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
