"""Positions of text, images, videos and audio in one sequence, as single models count them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from .._array_api.checks import check_integer, check_number, shown
from .grids import Block, Multimodal, cells_of, check_segments, grid
from .sequences import LIMIT, sequence


def with_audio(
    frames: int, height: int, width: int, *, audio: int, interval: float | tuple[int, ...] = 1, chunk: int = 50
) -> Block:
    """Return the positions of a video and its audio, whose tokens alternate by time (TMRoPE), for `multimodal`.

    Time is cut into chunks. The tokens of the video in a chunk come first, then those of the audio in it. Both start at
    the same position; an audio token is one position long.

    Args:
        frames, height, width: the grid of the video, after merging.
        audio: the number of audio tokens.
        interval: the positions between two frames, or the position of each frame, as in `multimodal`: 25 times the
            seconds between them in Qwen2.5-Omni.
        chunk: positions in a chunk; 50 are 2 seconds in Qwen2.5-Omni.
    Returns:
        A `Block`. The segment after it starts after the largest position of the last chunk, as in the model.
    Raises:
        TypeError: if a size is not an integer.
        ValueError: if a size is below 1, or a position is not below 2**31.
    Source: Xu et al. 2025, section 2.2 (arXiv:2503.20215); `get_rope_index` of Qwen2.5-Omni in transformers 5.23.

    >>> with_audio(2, 1, 2, audio=3, interval=2, chunk=2).positions
    array([[0, 0, 0, 1, 2, 2, 2],
           [0, 0, 0, 1, 0, 0, 2],
           [0, 1, 0, 1, 0, 1, 2]])
    """
    chunk = check_integer("chunk", chunk, maximum=LIMIT)
    sound = sequence(check_integer("audio", audio, maximum=LIMIT))
    for name, size in (("frames", frames), ("height", height), ("width", width)):
        check_integer(name, size, maximum=LIMIT)
    try:
        video = cells_of((frames, height, width, interval))
    except (TypeError, ValueError) as error:
        raise type(error)(str(error).replace("`segments`", "`interval`")) from error
    parts = [part for _, part in alternating(video, np.tile(sound, (3, 1)), chunk)]
    return Block(np.concatenate(parts, axis=1), int(parts[-1].max()) + 1)


def alternating(
    video: npt.NDArray[np.int64], sound: npt.NDArray[np.int64], chunk: int
) -> list[tuple[bool, npt.NDArray[np.int64]]]:
    """Return the tokens of each chunk of time, `(3, tokens)`, in order, each with whether they are audio."""
    cuts = [_cut(each, chunk) for each in (video, sound)]
    count = max(map(len, cuts))
    return [(is_audio == 1, cut[i]) for i in range(count) for is_audio, cut in enumerate(cuts) if i < len(cut)]


def _cut(cells: npt.NDArray[np.int64], chunk: int) -> list[npt.NDArray[np.int64]]:
    """Return the tokens of each chunk of time; one token is in each chunk that a jump in time leaves out."""
    bounds = [0]
    for index, time in enumerate(cells[0].tolist()):
        if time >= len(bounds) * chunk:
            bounds.append(index)
    return np.split(cells, bounds[1:], axis=1)


def diagonal(segments: Iterable[int | tuple[int, int, int]], *, spacing: float = 2.0) -> Multimodal:
    """Return the positions (time, height, width) of VideoRoPE: the middle of each frame has its time on all axes.

    The center of a frame is on the diagonal, as text is, so that text before and after a video is equally far from it.
    Encode them with `MultimodalRotary(arrangement="ernie", …)`, whose time has the lowest frequencies.

    Args:
        segments: in the order of the sequence, a length for text, or for vision the grid `(frames, height, width)` of
            the tokens that the language model receives, after merging.
        spacing: the positions between two frames: 2 in the published models.
    Returns:
        Positions, shape `(3, length)`, int64, or float64 if `spacing` is not an integer; and the delta: the next token
        is one position after the last frame. Rows or columns before the middle of an early image may be negative.
    Raises:
        TypeError: if a length or a size is not an integer, or `spacing` is not a number.
        ValueError: if a length is below 0, a size below 1, `spacing` not above 0, a grid has not 3 numbers, or a
            position is not below 2**31.
    Source: Wei et al. 2025, section 4 (arXiv:2502.05173); `get_t_scale_rope_index` of its code.

    >>> diagonal([2, (2, 1, 3), 1]).positions
    array([[0, 1, 2, 2, 2, 4, 4, 4, 5],
           [0, 1, 2, 2, 2, 4, 4, 4, 5],
           [0, 1, 1, 2, 3, 3, 4, 5, 5]])
    """
    check_number("spacing", spacing, above=0)
    step = int(spacing) if float(spacing).is_integer() else float(spacing)
    parts: list[npt.NDArray[Any]] = [np.zeros((3, 0), np.int64)]
    start: float = 0
    for sizes in _checked(segments, 3):
        is_grid = len(sizes) == 3
        cells: npt.NDArray[Any] = grid(*sizes) if is_grid else np.tile(sequence(*sizes), (3, 1))
        if is_grid:
            if (sizes[0] - 1) * step >= LIMIT:
                raise ValueError(f"`spacing` must keep positions below 2**31, got {shown(spacing)}.")
            time, middle = cells[0] * step, [[(size - 1) // 2] for size in sizes[1:]]
            cells = np.concatenate([time[None], cells[1:] - middle + time])
        parts.append(cells + start)
        start += cells[0].max(initial=-1).item() + 1
        _check_below(start)
    positions = np.concatenate(parts, axis=1)
    return Multimodal(positions, start - positions.shape[1])


def centered(segments: Iterable[int | tuple[int, int]]) -> Multimodal:
    """Return the positions (height, width) of HunyuanImage-3: an image is in the middle of its positions.

    An image takes as many positions as it has tokens, so text has the same positions as without axes.

    Args:
        segments: in the order of the sequence, a length for text, or the `(height, width)` of an image in tokens.
    Returns:
        Positions, int64, shape `(2, length)`, half positions rounded down; the delta is 0.
    Raises:
        TypeError: if a length or a size is not an integer.
        ValueError: if a length is below 0, a size below 1, a grid has not 2 numbers, or a position is not below 2**31.
    Source: HunyuanImage 3.0 (arXiv:2509.23951); `build_2d_rope` of its code; https://kexue.fm/archives/10352.

    >>> centered([1, (2, 3), 1]).positions
    array([[0, 3, 3, 3, 4, 4, 4, 7],
           [0, 2, 3, 4, 2, 3, 4, 7]])
    """
    parts, start = [np.zeros((2, 0), np.int64)], 0
    for sizes in _checked(segments, 2):
        if len(sizes) == 1:
            cells = np.tile(sequence(*sizes), (2, 1))
        else:
            count = sizes[0] * sizes[1]
            cells = grid(*sizes, start=[(count - size) // 2 for size in sizes])
        parts.append(cells + start)
        start += cells.shape[1]
        _check_below(start)
    return Multimodal(np.concatenate(parts, axis=1), 0)


def indexed(segments: Iterable[int | tuple[int, int]], *, num_axes: int = 4) -> Multimodal:
    """Return the positions (index, width, height, image) of HunYuan-VL: the tokens of images keep their index.

    Text has its index on all axes. A token of an image has its column, its row and the number of the image, from 0, and
    before them its index. Each row of an image ends with a token for a new line.

    Args:
        segments: in the order of the sequence, a length for text, or the `(height, width)` of an image after merging,
            without the tokens for new lines: it has `height * (width + 1)` tokens.
        num_axes: the number of axes, at least 3; those before the last three have the index.
    Returns:
        Positions, int64, shape `(num_axes, length)`; the delta is 0.
    Raises:
        TypeError: if a length or a size is not an integer.
        ValueError: if a length is below 0, a size below 1, a grid has not 2 numbers, there are too few axes, or a
            position is not below 2**31.
    Source: `get_rope_index` of HunYuan-VL in transformers 5.23.

    >>> indexed([1, (2, 1), 1]).positions
    array([[0, 1, 2, 3, 4, 5],
           [0, 0, 1, 0, 1, 5],
           [0, 0, 0, 1, 1, 5],
           [0, 0, 0, 0, 0, 5]])
    """
    num_axes = check_integer("num_axes", num_axes, minimum=3, maximum=64)
    parts, start, image = [np.zeros((num_axes, 0), np.int64)], 0, 0
    for sizes in _checked(segments, 2):
        if len(sizes) == 1:
            cells = np.tile(sequence(*sizes, start=start), (num_axes, 1))
        else:
            height, width = grid(sizes[0], sizes[1] + 1)
            cells = np.tile(sequence(width.size, start=start), (num_axes, 1))
            cells[-3:] = width, height, np.full(width.size, image)
            image += 1
        parts.append(cells)
        start += cells.shape[1]
        _check_below(start)
    return Multimodal(np.concatenate(parts, axis=1), 0)


def _checked(segments: Any, axes: int) -> Iterator[tuple[int, ...]]:
    """Yield the length of each text as a tuple of one number, and the sizes of each grid."""
    for segment in check_segments(segments):
        if not isinstance(segment, (tuple, list)):
            yield (check_integer("segments", segment, minimum=0, maximum=LIMIT),)
        elif len(segment) != axes:
            raise ValueError(f"`segments` must be lengths or grids of {axes} sizes, got {shown(segment)}.")
        else:
            yield tuple(check_integer("segments", size, maximum=LIMIT) for size in segment)


def _check_below(start: float) -> None:
    if start > LIMIT:
        raise ValueError(f"`segments` must keep positions below 2**31, got some that reach {shown(start - 1)}.")
