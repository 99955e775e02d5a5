from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from posenc_core.positions.grids import Block, grid, left_padded, multimodal, normalized_grid

from ..errors import rejects


@pytest.mark.parametrize("sizes", [(4,), (2, 3), (5, 1), (3, 2, 5), (2, 3, 1, 2)], ids=str)
def test_cells_are_in_row_major_order(sizes):
    positions = grid(*sizes)
    assert positions.dtype == np.int64
    np.testing.assert_array_equal(positions, np.transpose(list(product(*map(range, sizes)))))


@pytest.mark.parametrize(("sizes", "merge"), [((4, 6), 2), ((3, 9), 3), ((2, 4, 6), 2), ((2, 4), 1), ((2, 3, 2, 4), 2)])
def test_merged_cells_are_ordered_by_block(sizes, merge):
    *outer, height, width = sizes
    expected = [
        (*before, row + i, column + j)
        for before in product(*map(range, outer))
        for row in range(0, height, merge)
        for column in range(0, width, merge)
        for i in range(merge)
        for j in range(merge)
    ]
    np.testing.assert_array_equal(grid(*sizes, merge=merge), np.transpose(expected))


@pytest.mark.parametrize(
    ("sizes", "merge", "window"),
    [((4, 6), 1, 2), ((5, 7), 1, 3), ((4, 6), 2, 4), ((2, 6, 10), 2, 4), ((2, 3), 1, 8), ((3, 2, 4, 4), 1, 3)],
    ids=str,
)
def test_cells_may_be_ordered_by_window(sizes, merge, window):
    """Windows row by row, the last ones cut off, and in each the blocks row by row."""
    *outer, height, width = sizes
    expected = [
        (*before, row, column)
        for before in product(*map(range, outer))
        for top in range(0, height, window)
        for left in range(0, width, window)
        for up in range(top, min(top + window, height), merge)
        for side in range(left, min(left + window, width), merge)
        for row in range(up, up + merge)
        for column in range(side, side + merge)
    ]
    np.testing.assert_array_equal(grid(*sizes, merge=merge, window=window, start=3), np.transpose(expected) + 3)


def test_positions_of_images_may_be_centered():
    """Qwen-Image: if the height is odd, the larger half is before 0."""
    height, width = 5, 4
    positions = grid(1, height, width, start=(7, -height // 2, -width // 2))
    assert set(positions[0]) == {7}
    np.testing.assert_array_equal(positions[1].reshape(5, 4)[:, 0], [-3, -2, -1, 0, 1])
    np.testing.assert_array_equal(positions[2].reshape(5, 4)[0], [-2, -1, 0, 1])


def test_a_single_start_applies_to_all_axes():
    np.testing.assert_array_equal(grid(2, 2, start=-1), [[-1, -1, 0, 0], [-1, 0, -1, 0]])


@pytest.mark.parametrize("by", ["separate", "max", "min"])
@pytest.mark.parametrize("sizes", [(3, 7), (1, 1), (14, 10), (49, 3, 6)], ids=str)
def test_normalized_cells_are_rounded_once(sizes, by):
    spans = {"separate": sizes, "max": [max(sizes)] * len(sizes), "min": [min(sizes)] * len(sizes)}[by]
    expected = [
        [float(2 * (i + Fraction(1, 2)) / span - 1) for i, span in zip(cell, spans, strict=True)]
        for cell in product(*map(range, sizes))
    ]
    np.testing.assert_array_equal(normalized_grid(*sizes, by=by), np.transpose(expected))


def test_normalized_cells_may_be_merged():
    np.testing.assert_array_equal(normalized_grid(2, 4, merge=2)[1], np.array([-3, -1, -3, -1, 1, 3, 1, 3]) / 4)


@pytest.mark.parametrize(
    ("sizes", "options", "kind", "names"),
    [
        ((), {}, ValueError, ("sizes",)),
        ((2, 0), {}, ValueError, ("sizes", "0")),
        ((2, 1.5), {}, TypeError, ("sizes", "1.5")),
        (((2, 3),), {}, TypeError, ("sizes", "(2, 3)")),
        ((4, 6), {"merge": 4}, ValueError, ("merge", "4")),
        ((3, 4), {"merge": 2}, ValueError, ("merge", "2")),
        ((4,), {"merge": 2}, ValueError, ("merge", "2")),
        ((4, 4), {"merge": 0}, ValueError, ("merge", "0")),
        ((4, 4), {"window": 0}, ValueError, ("window", "0")),
        ((4, 4), {"window": 2.0}, TypeError, ("window", "2.0")),
        ((4, 4), {"window": 3, "merge": 2}, ValueError, ("window", "3")),
        ((4,), {"window": 2}, ValueError, ("window", "2")),
        ((4, 4), {"start": 0.5}, TypeError, ("start", "0.5")),
        ((4, 4), {"start": (1, 2, 3)}, ValueError, ("start", "(1, 2, 3)")),
    ],
)
def test_other_grids_are_refused(sizes, options, kind, names):
    with rejects(kind, *names):
        grid(*sizes, **options)


@pytest.mark.parametrize(
    ("sizes", "by", "names"),
    [((2, 2), "mean", ("by", "'mean'")), ((2, 0), "max", ("sizes", "0")), ((), "max", ("sizes",))],
)
def test_other_normalized_grids_are_refused(sizes, by, names):
    with rejects(ValueError, *names):
        normalized_grid(*sizes, by=by)


def test_the_published_example_of_qwen2_vl():
    """A video of 3 × 2 × 2 patches and five words, as `get_rope_index` documents it."""
    positions, delta = multimodal([(3, 2, 2), 5])
    expected = [
        [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 4, 5, 6, 7],
        [0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 3, 4, 5, 6, 7],
        [0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 3, 4, 5, 6, 7],
    ]
    np.testing.assert_array_equal(positions, expected)
    assert positions.dtype == np.int64
    assert (delta, type(delta)) == (-9, int)


def test_the_published_example_of_qwen2_5_vl():
    """The same at 1 frame per second: two frames a patch, 25 tokens per second, so 50 positions between patches."""
    positions, delta = multimodal([(3, 2, 2, 2.0 * 25), 5])
    np.testing.assert_array_equal(positions[0], np.r_[np.repeat([0, 50, 100], 4), 101:106])
    np.testing.assert_array_equal(positions[1:, 12:], [range(101, 106)] * 2)
    np.testing.assert_array_equal(positions[1:, :12], multimodal([(3, 2, 2)]).positions[1:])
    assert delta == 106 - 17


def expected_tokens(segments):
    """Return positions token by token, `(time, height, width)`, and the next position after them."""
    tokens, free = [], 0
    for segment in segments:
        frames, height, width = (0, 0, 0) if isinstance(segment, int) else segment
        block = [(free + t, free + h, free + w) for t in range(frames) for h in range(height) for w in range(width)]
        block = block or [(free + i,) * 3 for i in range(segment if isinstance(segment, int) else 0)]
        tokens += block
        free = max((max(token) for token in block), default=free - 1) + 1
    return tokens, free


@pytest.mark.parametrize(
    "segments",
    [
        [5, (1, 4, 6), 3],
        [(1, 4, 6)],
        [4, 3],
        [0, (2, 1, 1), 0, (1, 1, 5), (7, 2, 3), 2],
        [3, (1, 2, 4), 2, (1, 2, 4), 2, (1, 2, 4), 9],  # Qwen3-VL: frames separated by timestamps
    ],
    ids=str,
)
def test_positions_grow_more_slowly_than_tokens(segments):
    positions, delta = multimodal(segments)
    tokens, free = expected_tokens(segments)
    np.testing.assert_array_equal(positions, np.transpose(tokens))
    assert delta == free - len(tokens)
    assert delta == positions.max() + 1 - positions.shape[1]


def test_text_after_a_long_video_as_transformers_5_has_it():
    """Six frames of 2 × 3: the text starts after the three columns, while the last frame is at 7."""
    positions, delta = multimodal([2, (6, 2, 3), 4], after="spatial")
    np.testing.assert_array_equal(positions[:, -4:], [[5, 6, 7, 8]] * 3)
    np.testing.assert_array_equal(positions[0, 2:-4], np.repeat(np.arange(2, 8), 6))
    assert delta == 9 - 42
    assert multimodal([2, (9, 2, 3), 1], after="spatial").delta == 11 - 57  # the last frame is the latest of all


def test_after_is_one_of_two_words():
    with rejects(ValueError, "after", "'text'"):
        multimodal([2], after="text")


def test_decoding_continues_at_the_length_plus_delta():
    segments = [2, (2, 3, 4), 6]
    prompt, delta = multimodal(segments)
    longer, same = multimodal([*segments[:-1], 6 + 3])
    assert delta == same
    steps = [prompt.shape[1] + step + delta for step in range(3)]
    np.testing.assert_array_equal(longer[:, -3:], [steps] * 3)


def test_no_segments_give_no_tokens():
    positions, delta = multimodal([])
    assert positions.shape == (3, 0)
    assert delta == 0


@pytest.mark.parametrize(
    ("interval", "frames", "expected"),
    [
        (2 / 3 * 2, 7, [0, 1, 2, 4, 5, 6, 8]),  # 3 frames per second, patches of 2, 2 tokens per second
        (0.5, 5, [0, 0, 1, 1, 2]),
        (0, 3, [0, 0, 0]),
        (1, 3, [0, 1, 2]),
    ],
)
def test_frames_have_integer_positions(interval, frames, expected):
    positions, delta = multimodal([3, (frames, 1, 1, interval), 1])
    np.testing.assert_array_equal(positions[0, 3:-1] - 3, expected)
    np.testing.assert_array_equal(positions[1:, 3:-1], np.full((2, frames), 3))
    assert positions[0, -1] == 3 + expected[-1] + 1
    assert delta == expected[-1] + 1 - frames


def test_each_frame_may_have_its_position():
    positions, delta = multimodal([1, (3, 1, 2, (0, 5, 6)), 1])
    np.testing.assert_array_equal(positions[0], [0, 1, 1, 6, 6, 7, 7, 8])
    assert delta == 9 - 8


def test_time_is_rounded_down_after_a_product_in_float32():
    """100 × 0.29 is 29 in float32, as in the model, and just below it in float64."""
    assert int(100 * 0.29) == 28
    assert multimodal([(101, 1, 1, 0.29)]).positions[0, 100] == 29


@pytest.mark.parametrize(
    ("segments", "kind", "names"),
    [
        ([-1], ValueError, ("segments", "-1")),
        ([1.5], TypeError, ("segments", "1.5")),
        ([True], TypeError, ("segments", "True")),
        (["ab"], TypeError, ("segments", "'ab'")),
        ([(4, 6)], ValueError, ("segments", "(4, 6)")),
        ([(1, 0, 6)], ValueError, ("segments", "0")),
        ([(1, 2.0, 6)], TypeError, ("segments", "2.0")),
        ([(1, 2, 6, -0.5)], ValueError, ("segments", "-0.5")),
        ([(1, 2, 6, np.nan)], ValueError, ("segments", "nan")),
        ([(2, 2, 6, (0,))], ValueError, ("segments", "(0,)")),
        ([(2, 2, 6, (0, 1.5))], TypeError, ("segments", "1.5")),
        ([(2, 2, 6, (0, -1))], ValueError, ("segments", "-1")),
    ],
)
def test_other_segments_are_refused(segments, kind, names):
    with rejects(kind, *names):
        multimodal(segments)


def test_rows_are_padded_on_the_left():
    rows = [multimodal([2, (1, 2, 3), 4]), multimodal([3]), multimodal([(2, 2, 2)])]
    batch = left_padded(rows)
    assert batch.positions.shape == (3, 3, 12)
    for index, (row, delta) in enumerate(rows):
        length = row.shape[1]
        np.testing.assert_array_equal(batch.positions[:, index, 12 - length :], row)
        assert not batch.positions[:, index, : 12 - length].any()
        assert 12 + batch.delta[index] == length + delta


def test_a_batch_has_rows():
    with rejects(ValueError, "rows"):
        left_padded([])


@pytest.mark.parametrize("sign", [1, -1])
def test_positions_of_a_block_are_below_2_to_the_31_in_size(sign):
    def block(farthest):
        return Block(np.array([[0, 0], [0, sign * farthest], [0, 0]]), 1)

    np.testing.assert_array_equal(cells_of_block(block(2**31 - 1))[1], [0, sign * (2**31 - 1)])
    with rejects(ValueError, "segments", sign * 2**31):
        cells_of_block(block(2**31))


def cells_of_block(block):
    return multimodal([block]).positions
