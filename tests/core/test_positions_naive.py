"""Positions of prompts beside the plainest loops over their tokens, and the numbers just inside of each limit."""

from fractions import Fraction
from itertools import product
from math import floor

import numpy as np
import pytest

from posenc_core.positions import (
    Block,
    augment,
    centered,
    counted_from,
    diagonal,
    draw_augmentation,
    from_array,
    from_cu_seqlens,
    grid,
    grids,
    indexed,
    left_padded,
    multimodal,
    packed,
    sequence,
    sequences,
    with_audio,
)

from ..errors import rejects

LIMIT = 2**31
SEEDS = range(12)


def prompt(seed, axes):
    """Return lengths of texts, some of them 0, and grids of unequal sizes, in any order."""
    random = np.random.RandomState(seed)
    texts = random.randint(0, 4, size=6).tolist()
    images = [tuple(random.permutation(5)[:axes] + 1) for _ in range(5)]
    mixed = [*texts, *(tuple(map(int, sizes)) for sizes in images)]
    return [mixed[index] for index in random.permutation(len(mixed))]


def walk(segments, place):
    """Return tokens and the next position; texts count on, and `place(image, start)` returns tokens and their size."""
    tokens, start = [], 0
    for segment in segments:
        if isinstance(segment, int):
            more, size = [(start + index,) * 3 for index in range(segment)], segment
        else:
            more, size = place(segment, start)
        tokens, start = tokens + more, start + size
    return tokens, start


def columns(tokens, axes):
    return np.array(tokens).reshape(-1, axes).T


@pytest.mark.parametrize("after", ["largest", "spatial"])
@pytest.mark.parametrize("seed", SEEDS)
def test_text_and_vision(seed, after):
    def cells(image, start):
        placed = [tuple(start + place for place in cell) for cell in product(*map(range, image))]
        return placed, max(image[1:] if after == "spatial" else image)

    tokens, _ = walk(prompt(seed, 3), cells)
    found = multimodal(prompt(seed, 3), after=after)
    np.testing.assert_array_equal(found.positions, columns(tokens, 3))
    assert found.delta == max(max(token) for token in tokens) + 1 - len(tokens)


@pytest.mark.parametrize("spacing", [1, 3, 0.75])
@pytest.mark.parametrize("seed", SEEDS)
def test_frames_on_the_diagonal(seed, spacing):
    def cells(video, start):
        frames, height, width = video
        placed = []
        for frame, row, column in product(*map(range, video)):
            time = start + frame * Fraction(spacing)
            placed.append((time, time + row - (height - 1) // 2, time + column - (width - 1) // 2))
        return placed, (frames - 1) * Fraction(spacing) + 1

    tokens, start = walk(prompt(seed, 3), cells)
    found = diagonal(prompt(seed, 3), spacing=spacing)
    np.testing.assert_array_equal(found.positions, columns(tokens, 3).astype(float))
    assert found.delta == start - len(tokens)


@pytest.mark.parametrize("seed", SEEDS)
def test_images_in_the_middle_of_their_positions(seed):
    tokens = []
    for segment in prompt(seed, 2):
        start = len(tokens)
        if isinstance(segment, int):
            tokens += [(start + index,) * 2 for index in range(segment)]
            continue
        height, width = segment
        middle = [floor(Fraction(height * width - size, 2)) for size in segment]
        tokens += [
            (start + middle[0] + row, start + middle[1] + column)
            for row, column in product(range(height), range(width))
        ]
    found = centered(prompt(seed, 2))
    np.testing.assert_array_equal(found.positions, columns(tokens, 2))
    assert found.delta == 0


@pytest.mark.parametrize("num_axes", [3, 4, 6])
@pytest.mark.parametrize("seed", SEEDS)
def test_images_with_the_number_of_the_image(seed, num_axes):
    tokens, image = [], 0
    for segment in prompt(seed, 2):
        if isinstance(segment, int):
            tokens += [(len(tokens) + index,) * num_axes for index in range(segment)]
            continue
        for row, column in product(range(segment[0]), range(segment[1] + 1)):
            tokens.append((*[len(tokens)] * (num_axes - 3), column, row, image))
        image += 1
    found = indexed(prompt(seed, 2), num_axes=num_axes)
    np.testing.assert_array_equal(found.positions, columns(tokens, num_axes))
    assert found.delta == 0


def test_rows_without_tokens_have_no_padding():
    batch = left_padded([multimodal([]), multimodal([0])])
    assert batch.positions.shape == (3, 2, 0)
    assert batch.delta.tolist() == [0, 0]


END = Block(np.array([[LIMIT - 1]] * 3), LIMIT)  # a token at the last position
ACCEPTED = {
    "a sequence to the end": lambda: sequence(3, start=LIMIT - 3),
    "a sequence from the beginning": lambda: sequence(1, start=1 - LIMIT),
    "an array": lambda: from_array([LIMIT - 1, 1 - LIMIT]),
    "real numbers": lambda: from_array([LIMIT - 0.5, 0.5 - LIMIT]),
    "a grid to the end": lambda: grid(1, 3, start=LIMIT - 3),
    "a grid from the beginning": lambda: grid(2, 3, start=(1 - LIMIT, 5)),
    "as many cells as positions": lambda: grids._checked_sizes((2**16, 2**15), 1),
    "sequences": lambda: packed._bounds([0, 0, LIMIT - 1]),
    "a buffer without spare": lambda: from_cu_seqlens([0, 3], length=3),
    "a count to the end": lambda: counted_from(np.array([0, 2**63 - 3], np.uint64), 3),
    "a count of no rows": lambda: counted_from(np.zeros(0, int), 3),
    "a block": lambda: multimodal([END]),
    "a block from the beginning": lambda: multimodal([Block(np.array([[1 - LIMIT]] * 3), 0)]),
    "an empty block": lambda: multimodal([Block(np.zeros((3, 0), np.uint8), 0)]),
    "frames with positions": lambda: multimodal([(2, 1, 1, (0, LIMIT - 1))]),
    "an interval": lambda: multimodal([(2, 1, 1, LIMIT - 256)]),
    "the interval of a single frame": lambda: multimodal([(1, 1, 1, 1e12)]),
    "an interval of 0": lambda: multimodal([(2, 1, 1, 0)]),
    "a spacing": lambda: diagonal([(2, 1, 1)], spacing=LIMIT - 1),
    "the spacing of a single frame": lambda: diagonal([(1, 1, 1)], spacing=1e12),
    "three axes": lambda: indexed([1], num_axes=3),
    "64 axes": lambda: indexed([1], num_axes=64),
    "audio": lambda: with_audio(1, 1, 1, audio=1, chunk=1),
    "a shift": lambda: draw_augmentation(64, seed=0, shift=LIMIT),
    "factors": lambda: draw_augmentation(1, seed=2**32 - 1, jitter=LIMIT, rescale=LIMIT),
    "a prefix of all": lambda: augment([[1, 2]], seed=0, prefix=2),
}
REFUSED = {
    "a sequence past the end": (lambda: sequence(3, start=LIMIT - 2), "start", LIMIT - 2),
    "a sequence before the beginning": (lambda: sequence(1, start=-LIMIT), "start", -LIMIT),
    "an array past the end": (lambda: from_array([0, LIMIT]), "positions", LIMIT),
    "an array before the beginning": (lambda: from_array([0, -LIMIT]), "positions", -LIMIT),
    "a grid past the end": (lambda: grid(1, 3, start=LIMIT - 2), "start", LIMIT - 2),
    "a grid before the beginning": (lambda: grid(2, 3, start=(5, -LIMIT)), "start", -LIMIT),
    "too many starts": (lambda: grid(2, 3, start=(0, 0, 0)), "start", "2 axes"),
    "a cell more than positions": (lambda: grid(2**16, 2**15 + 1), "sizes", 2**15 + 1),
    "rows that do not merge": (lambda: grid(3, 4, merge=2), "merge", 2),
    "columns that do not merge": (lambda: grid(4, 3, merge=2), "merge", 2),
    "one axis does not merge": (lambda: grid(4, merge=2), "merge", 2),
    "no merge": (lambda: grid(4, 4, merge=0), "merge", 0),
    "windows of one axis": (lambda: grid(4, window=2), "window", 2),
    "windows that cut blocks": (lambda: grid(4, 4, merge=2, window=3), "window", 3),
    "no window": (lambda: grid(4, 4, window=0), "window", 0),
    "sequences past the end": (lambda: from_cu_seqlens([0, LIMIT]), "cu_seqlens", LIMIT),
    "sequences that decrease": (lambda: from_cu_seqlens([0, 5, 3, 7, 6]), "cu_seqlens", "3 after 5"),
    "sequences that start late": (lambda: from_cu_seqlens([1, 5]), "cu_seqlens", 1),
    "a short buffer": (lambda: from_cu_seqlens([0, 3], length=2), "length", 2),
    "a buffer past the end": (lambda: from_cu_seqlens([0, 3], length=LIMIT + 1), "length", LIMIT + 1),
    "a count past the end": (lambda: counted_from([0, 2**63 - 3], 4), "start", 2**63 - 3),
    "a count past the end before others": (lambda: counted_from([2**63 - 3, 0], 4), "start", 2**63 - 3),
    "a negative count": (lambda: counted_from([0], -1), "length", -1),
    "text after the last position": (lambda: multimodal([END, 1]), "segments", LIMIT),
    "a block past the end": (lambda: multimodal([Block(np.array([[LIMIT]] * 3), 1)]), "segments", LIMIT),
    "a block before the beginning": (lambda: multimodal([Block(np.array([[-LIMIT]] * 3), 1)]), "segments"),
    "a block of negative size": (lambda: multimodal([Block(np.zeros((3, 1), int), -1)]), "segments", -1),
    "a block of two axes": (lambda: multimodal([Block(np.zeros((2, 1), int), 1)]), "segments", (2, 1)),
    "a block without tokens": (lambda: multimodal([Block(np.zeros(3, int), 1)]), "segments", (3,)),
    "a negative text": (lambda: multimodal([-1]), "segments", -1),
    "a negative text among frames": (lambda: diagonal([-1]), "segments", -1),
    "a grid of two sizes": (lambda: multimodal([(1, 1)]), "segments", (1, 1)),
    "a grid of five numbers": (lambda: multimodal([(1, 1, 1, 1, 1)]), "segments", (1, 1, 1, 1, 1)),
    "a grid without rows": (lambda: multimodal([(1, 0, 1)]), "segments", 0),
    "frames before the beginning": (lambda: multimodal([(2, 1, 1, (-1, 0))]), "segments", -1),
    "frames past the end": (lambda: multimodal([(1, 1, 1, (LIMIT,))]), "segments", LIMIT),
    "frames without positions": (lambda: multimodal([(2, 1, 1, (0,))]), "segments", "(0,)"),
    "a negative interval": (lambda: multimodal([(2, 1, 1, -1)]), "segments", -1),
    "an interval past the end": (lambda: multimodal([(2, 1, 1, LIMIT)]), "segments", "interval"),
    "a spacing past the end": (lambda: diagonal([(2, 1, 1)], spacing=LIMIT), "spacing", LIMIT),
    "no spacing": (lambda: diagonal([(2, 1, 1)], spacing=0), "spacing", 0),
    "text after the last frame": (lambda: diagonal([(2, 1, 1), 1], spacing=LIMIT - 1), "segments", LIMIT),
    "a grid of three sizes": (lambda: centered([(1, 1, 1)]), "segments", (1, 1, 1)),
    "two axes": (lambda: indexed([1], num_axes=2), "num_axes", 2),
    "65 axes": (lambda: indexed([1], num_axes=65), "num_axes", 65),
    "no chunk": (lambda: with_audio(1, 1, 1, audio=1, chunk=0), "chunk", 0),
    "no audio": (lambda: with_audio(1, 1, 1, audio=0), "audio", 0),
    "no frames": (lambda: with_audio(0, 1, 1, audio=1), "frames", 0),
    "no rows of a video": (lambda: with_audio(1, 0, 1, audio=1), "height", 0),
    "no columns of a video": (lambda: with_audio(1, 1, 0, audio=1), "width", 0),
    "a negative interval of a video": (lambda: with_audio(2, 1, 1, audio=1, interval=-1), "interval", -1),
    "a large shift": (lambda: draw_augmentation(1, seed=0, shift=LIMIT + 1), "shift", LIMIT + 1),
    "a large factor": (lambda: draw_augmentation(1, seed=0, jitter=LIMIT + 1), "jitter", LIMIT + 1),
    "a negative shift": (lambda: draw_augmentation(1, seed=0, shift=-0.5), "shift", -0.5),
    "a small factor": (lambda: draw_augmentation(1, seed=0, rescale=0.5), "rescale", 0.5),
    "too many axes": (lambda: draw_augmentation(65, seed=0), "axes", 65),
    "a large seed": (lambda: draw_augmentation(1, seed=(0, 2**32)), "seed", 2**32),
    "a negative seed": (lambda: draw_augmentation(1, seed=-1), "seed", -1),
    "a long prefix": (lambda: augment([[1, 2]], seed=0, prefix=3), "prefix", 3),
    "a negative prefix": (lambda: augment([[1, 2]], seed=0, prefix=-1), "prefix", -1),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_what_is_just_inside_is_accepted(name):
    ACCEPTED[name]()


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_just_outside_is_refused(name):
    call, *named = REFUSED[name]
    with rejects(ValueError, *named):
        call()


def test_the_last_position_is_reached():
    assert multimodal([END]).delta == LIMIT - 1
    assert diagonal([(2, 1, 1)], spacing=LIMIT - 1).positions.max() == LIMIT - 1


def test_a_scalar_of_a_library_stays_its_array(xp, monkeypatch):
    """It may be traced, and then it is no integer."""
    given = []
    monkeypatch.setattr(sequences, "arange_like", lambda length, like: (given.append(length), xp.arange(3))[1])
    scalar, start = xp.asarray(3), xp.asarray([4, 9])
    found = counted_from(start, scalar)
    assert np.asarray(found).tolist() == [[4, 5, 6], [9, 10, 11]]
    assert (given[0] is scalar) == (not isinstance(scalar, np.ndarray))
    with rejects((TypeError, ValueError), "length"):
        counted_from(start, xp.asarray([3]))


def test_a_negative_scalar_of_a_library_is_refused(xp):
    with rejects(ValueError, "length", -1):
        counted_from(xp.asarray([4, 9]), xp.asarray(-1))
    assert counted_from(xp.asarray([4, 9]), xp.asarray(0)).shape == (2, 0)


def test_a_negative_scalar_that_a_library_counts_to_as_0_is_refused(xp, monkeypatch):
    monkeypatch.setattr(sequences, "arange_like", lambda length, like: xp.arange(0))
    with rejects(ValueError, "length", -1):
        counted_from(xp.asarray([4, 9]), xp.asarray(-1))
