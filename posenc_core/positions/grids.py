"""Grids: where the patches of images and videos stand, alone or among text. Positions of several axes, `(axes, length)`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from .._array_api.checks import check_integer, check_known, check_number

By: TypeAlias = Literal["separate", "max", "min"]
Segment: TypeAlias = int | tuple[int, int, int] | tuple[int, int, int, float]


class Multimodal(NamedTuple):
    """Positions of text and vision, and where decoding goes on.

    Attributes:
        positions: on the axes time, height and width, shape `(3, length)`, or `(3, batch, length)` for rows together.
        delta: the next token's position is the number of tokens before it plus `delta`, on all axes; for rows together
            an array, one for each, where that number includes the padding. `rope_deltas` elsewhere.
    """

    positions: npt.NDArray[np.int64]
    delta: Any


def grid(*sizes: int, start: int | Sequence[int] = 0, merge: int = 1) -> npt.NDArray[np.int64]:
    """The positions of the cells of a grid, on each of its axes, in the order in which the cells come.

    Args:
        sizes: how many cells on each axis, the slowest first: `height, width`, or `frames, height, width`.
        start: the first position on all axes, or one for each axis. Images counted from their middle (Qwen-Image)
            start at minus half their size, rounded away from 0: `start=(0, -height // 2, -width // 2)`.
        merge: the cells come block by block, of `merge` × `merge` cells on the last two axes: 2 where a vision model
            merges 2 × 2 patches (Qwen2-VL).
    Returns:
        Integers, shape `(axes, product of sizes)`. They may be scaled, as by the seconds between frames, and other
        tokens set before them: at position 0 of every axis a prefix token such as `[CLS]` does not turn.
    Raises:
        ValueError: if a size is below 1, or `merge` does not divide the last two.

    >>> grid(2, 3)
    array([[0, 0, 0, 1, 1, 1],
           [0, 1, 2, 0, 1, 2]])
    >>> grid(2, 4, merge=2)
    array([[0, 0, 1, 1, 0, 0, 1, 1],
           [0, 1, 0, 1, 2, 3, 2, 3]])
    >>> np.concatenate([np.zeros((2, 1), int), grid(2, 2)], axis=1)
    array([[0, 0, 0, 1, 1],
           [0, 0, 1, 0, 1]])
    """
    _check_sizes(sizes, merge)
    axes = len(sizes)
    positions = np.indices(sizes, dtype=np.int64) + _starts(start, axes)
    if merge > 1:
        *outer, height, width = sizes
        blocks = positions.reshape(axes, *outer, height // merge, merge, width // merge, merge)
        positions = np.swapaxes(blocks, -3, -2)
    return positions.reshape(axes, -1)


def normalized_grid(*sizes: int, by: By = "separate", merge: int = 1) -> npt.NDArray[np.float64]:
    """The centres of the cells of a grid that spans −1 … 1: `2 (i + ½) / size − 1`, in the order of `grid`.

    Args:
        sizes: how many cells on each axis, the slowest first.
        by: what spans −1 … 1: each axis (`"separate"`), or as many cells of every axis as the longest (`"max"`) or the
            shortest (`"min"`) has, so that cells are square.
        merge: as in `grid`.
    Returns:
        Numbers correctly rounded to float64, shape `(axes, product of sizes)`.
    Raises:
        ValueError: if a size is below 1, `merge` does not divide the last two, or `by` is unknown.
    Source: `normalize_coords` of DINOv3 (Siméoni et al. 2025, arXiv:2508.10104).

    >>> normalized_grid(1, 4)
    array([[ 0.  ,  0.  ,  0.  ,  0.  ],
           [-0.75, -0.25,  0.25,  0.75]])
    >>> normalized_grid(1, 4, by="max")
    array([[-0.75, -0.75, -0.75, -0.75],
           [-0.75, -0.25,  0.25,  0.75]])
    """
    check_known("by", by, ("separate", "max", "min"))
    cells = grid(*sizes, merge=merge)
    spans = {"separate": sizes, "max": [max(sizes)], "min": [min(sizes)]}[by]
    span = np.reshape(spans, (-1, 1))
    return (2 * cells + 1 - span) / span


def multimodal(segments: Iterable[Segment]) -> Multimodal:
    """The positions (time, height, width) of text and vision in one sequence, and the delta for decoding.

    Text stands at the same position on all axes. An image or a video is a grid, shifted to begin after all positions
    before it; what follows begins after the largest of its positions, so that positions run behind the tokens.

    Args:
        segments: in the order of the sequence, a length for text, for vision the grid `(frames, height, width)` of the
            tokens that the language model sees, after merging. A fourth number is the time from frame to frame, in
            positions: `second_per_grid_t * tokens_per_second` in Qwen2.5-VL; frames stand at whole positions,
            rounded down. Where text with timestamps parts the frames (Qwen3-VL), each is a grid of one frame.
    Returns:
        Positions, shape `(3, length)`, and the delta: `positions.max() + 1 - length`.
    Raises:
        TypeError, ValueError: if a segment is neither a length of at least 0 nor a grid of sizes of at least 1.
    Source: Qwen2-VL, section 2.1 (arXiv:2409.12191); Qwen2.5-VL, section 2.1.3 (arXiv:2502.13923); `get_rope_index`
        in transformers, which counts padding in the length.

    >>> positions, delta = multimodal([2, (1, 2, 2), 1])
    >>> positions
    array([[0, 1, 2, 2, 2, 2, 4],
           [0, 1, 2, 2, 3, 3, 4],
           [0, 1, 2, 3, 2, 3, 4]])
    >>> delta
    -2
    """
    parts, start = [np.zeros((3, 0), np.int64)], 0
    for segment in segments:
        cells = _vision(*segment) if isinstance(segment, (tuple, list)) else _text(segment)
        parts.append(cells + start)
        start += int(cells.max(initial=-1)) + 1
    positions = np.concatenate(parts, axis=1)
    return Multimodal(positions, start - positions.shape[1])


def left_padded(rows: Sequence[Multimodal]) -> Multimodal:
    """Rows of different lengths as one batch, padded on the left; padding has position 0.

    Args:
        rows: what `multimodal` answered for each, at least one.
    Returns:
        Positions, shape `(3, batch, length)`, and one delta for each row, shape `(batch,)`, for numbers of tokens that
        include the padding, as those of a cache do.

    >>> batch = left_padded([multimodal([3]), multimodal([(1, 1, 2)])])
    >>> batch.positions[2]
    array([[0, 1, 2],
           [0, 0, 1]])
    >>> batch.delta
    array([ 0, -1])
    """
    if not rows:
        raise ValueError("`rows` must name at least one row, got none.")
    lengths = np.array([row.positions.shape[1] for row in rows], np.int64)
    padding = lengths.max(initial=0) - lengths
    padded = [np.pad(row.positions, ((0, 0), (count, 0))) for row, count in zip(rows, padding.tolist(), strict=True)]
    return Multimodal(np.stack(padded, axis=1), np.array([row.delta for row in rows], np.int64) - padding)


def _check_sizes(sizes: tuple[int, ...], merge: int) -> None:
    if not sizes:
        raise ValueError("`sizes` must name at least one axis, got none.")
    for size in sizes:
        check_integer("sizes", size)
    check_integer("merge", merge)
    if merge > 1 and (len(sizes) < 2 or sizes[-2] % merge or sizes[-1] % merge):
        raise ValueError(f"`merge` must divide the last two sizes of {sizes}, got {merge}.")


def _starts(start: int | Sequence[int], axes: int) -> npt.NDArray[np.int64]:
    starts = np.asarray(start)
    if starts.dtype.kind not in "iu":
        raise TypeError(f"`start` must be an integer, or one for each axis, got {start!r}.")
    if starts.shape not in ((), (axes,)):
        raise ValueError(f"`start` must be an integer, or one for each of the {axes} axes, got {start!r}.")
    return np.broadcast_to(starts, (axes,)).reshape(-1, *(1,) * axes)


def _text(length: Any) -> npt.NDArray[np.int64]:
    check_integer("segments", length, minimum=0)
    return np.tile(np.arange(length, dtype=np.int64), (3, 1))


def _vision(*given: Any) -> npt.NDArray[np.int64]:
    if len(given) not in (3, 4):
        raise ValueError(f"`segments` must be lengths or (frames, height, width[, interval]), got {given}.")
    for size in given[:3]:
        check_integer("segments", size)
    cells = grid(*given[:3])
    if len(given) == 4:
        check_number("segments", given[3], minimum=0)
        # The product in float32 is the model's: in float64 other frames would fall just below a whole position.
        cells[0] = np.floor(cells[0].astype(np.float32) * np.float32(given[3]))
    return cells
