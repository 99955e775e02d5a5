"""Positions on several axes, `(axes, length)`: patches of images and videos, alone or within text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from .._array_api.checks import check_integer, check_known, check_number, host_array, shown
from .sequences import LIMIT, sequence

After: TypeAlias = Literal["largest", "spatial"]
By: TypeAlias = Literal["separate", "max", "min"]


class Block(NamedTuple):
    """A segment whose positions are known.

    Attributes:
        positions: of its tokens, from the start of the segment, shape `(3, length)`.
        size: the next segment starts so many positions after this one.
    """

    positions: npt.NDArray[np.int64]
    size: int


Segment: TypeAlias = int | tuple[int, int, int] | tuple[int, int, int, float | tuple[int, ...]] | Block


class Multimodal(NamedTuple):
    """Positions of text and vision tokens, and the delta that gives the positions of decoded tokens.

    Attributes:
        positions: on the axes time, height and width, shape `(3, length)`, or `(3, batch, length)` for a batch.
        delta: the position of the next token is the number of tokens before it plus `delta`, on all axes. For a batch
            it is an array `(batch,)`, and the number of tokens includes the padding. transformers: `rope_deltas`.
    """

    positions: npt.NDArray[np.int64]
    delta: Any


def grid(
    *sizes: int, start: int | Sequence[int] = 0, merge: int = 1, window: int | None = None, prefix: int = 0
) -> npt.NDArray[np.int64]:
    """Return the positions of the cells of a grid on each axis, in row-major order.

    Args:
        sizes: the number of cells on each axis, slowest first: `height, width`, or `frames, height, width`.
        start: the first position on all axes, or one for each axis. Images whose positions are centered (Qwen-Image)
            start at minus half their size, rounded away from 0: `start=(0, -height // 2, -width // 2)`.
        merge: order the cells in blocks of `merge` × `merge` cells of the last two axes; 2 for vision models that
            merge 2 × 2 patches (Qwen2-VL).
        window: order the cells by windows of `window` × `window` cells of the last two axes, and in each window as
            without; a multiple of `merge`. Windows at the ends may be smaller (Qwen2.5-VL).
        prefix: the number of tokens before the grid, such as `[CLS]` and registers, at position 0 of every axis, where
            RoPE rotates nothing.
    Returns:
        int64, shape `(axes, prefix + product of sizes)`. You may scale them, for example by the seconds between frames.
    Raises:
        TypeError: if a size, `start`, `merge`, `window` or `prefix` is not an integer.
        ValueError: if a size is below 1, `merge` does not divide the last two sizes and the window, there are more than
            2**31 cells, or a position is not below 2**31 in size.

    >>> grid(2, 3)
    array([[0, 0, 0, 1, 1, 1],
           [0, 1, 2, 0, 1, 2]])
    >>> grid(2, 4, merge=2)
    array([[0, 0, 1, 1, 0, 0, 1, 1],
           [0, 1, 0, 1, 2, 3, 2, 3]])
    >>> grid(2, 2, prefix=1)
    array([[0, 0, 0, 1, 1],
           [0, 0, 1, 0, 1]])
    """
    sizes, merge, window = _checked_sizes(sizes, merge, window)
    axes, starts = len(sizes), _starts(start, sizes)
    positions = np.indices(sizes, dtype=np.int64)
    if merge > 1:
        *outer, height, width = sizes
        blocks = positions.reshape(axes, *outer, height // merge, merge, width // merge, merge)
        positions = np.swapaxes(blocks, -3, -2)
    positions = positions.reshape(axes, -1)
    if window is not None:
        windows = [*positions[:-2], positions[-2] // window, positions[-1] // window]
        positions = positions[:, np.lexsort(windows[::-1])]  # a stable sort, which keeps the order in each window
    return _after_prefix(positions + starts, prefix)


def normalized_grid(*sizes: int, by: By = "separate", merge: int = 1, prefix: int = 0) -> npt.NDArray[np.float64]:
    """Return the centers of the cells of a grid that spans −1 … 1: `2 (i + ½) / size − 1`, in the order of `grid`.

    Args:
        sizes: the number of cells on each axis, slowest first.
        by: the `size` of the formula: that of each axis (`"separate"`), or that of the longest (`"max"`) or the
            shortest axis (`"min"`) for all, which keeps cells square.
        merge, prefix: as in `grid`; position 0 is the center.
    Returns:
        float64, correctly rounded, shape `(axes, prefix + product of sizes)`.
    Raises:
        TypeError: if a size, `merge` or `prefix` is not an integer.
        ValueError: if a size is below 1, `merge` does not divide the last two sizes, or `by` is unknown.
    Source: `normalize_coords` of DINOv3 (Siméoni et al. 2025, arXiv:2508.10104).

    >>> normalized_grid(1, 4)
    array([[ 0.  ,  0.  ,  0.  ,  0.  ],
           [-0.75, -0.25,  0.25,  0.75]])
    >>> normalized_grid(1, 4, by="max")
    array([[-0.75, -0.75, -0.75, -0.75],
           [-0.75, -0.25,  0.25,  0.75]])
    """
    check_known("by", by, ("separate", "max", "min"))
    cells, (sizes, *_) = grid(*sizes, merge=merge), _checked_sizes(sizes, merge)
    size = np.reshape({"separate": sizes, "max": [max(sizes)], "min": [min(sizes)]}[by], (-1, 1))
    return _after_prefix((2 * cells + 1 - size) / size, prefix)


def _after_prefix(positions: npt.NDArray[Any], prefix: int) -> npt.NDArray[Any]:
    """Return positions `(axes, length)` after as many tokens at position 0."""
    prefix = check_integer("prefix", prefix, minimum=0, maximum=LIMIT)
    return np.pad(positions, ((0, 0), (prefix, 0))) if prefix else positions


def multimodal(segments: Iterable[Segment], *, after: After = "largest") -> Multimodal:
    """Return the positions (time, height, width) of text and vision in one sequence, and the delta for decoding.

    A text token has the same position on all axes. An image or a video is a grid that starts after all positions before
    it, and the next segment starts after the largest position of the grid; so positions grow more slowly than tokens.

    Args:
        segments: in the order of the sequence, a length for text, or for vision the grid `(frames, height, width)` of
            the tokens that the language model receives, after merging. An optional fourth number is the time between
            frames in positions, `second_per_grid_t * tokens_per_second` in Qwen2.5-VL; frames have integer positions,
            rounded down. A tuple in its place gives the position of each frame. If text with timestamps separates the
            frames (Qwen3-VL), pass each frame as its own grid. A `Block` has positions of its own, such as those of
            `with_audio`.
        after: where the segment after a video starts: after its `"largest"` position, as in the paper and in
            transformers 4, or after its largest `"spatial"` position, of height and width, as in transformers 5: there
            the frames of a long video have later positions than the text after it.
    Returns:
        Positions, int64, shape `(3, length)`, and the delta, `positions.max() + 1 - length`.
    Raises:
        TypeError: if a length or a size is not an integer, or an interval is not a number.
        ValueError: if a length is below 0, a size below 1, an interval negative, a grid has not 3 or 4 numbers, a
            position is not below 2**31, or `after` is unknown.
    Source: Qwen2-VL, section 2.1 (arXiv:2409.12191); Qwen2.5-VL, section 2.1.3 (arXiv:2502.13923); `get_rope_index`
        in transformers 4 and 5.

    >>> positions, delta = multimodal([2, (1, 2, 2), 1])
    >>> positions
    array([[0, 1, 2, 2, 2, 2, 4],
           [0, 1, 2, 2, 3, 3, 4],
           [0, 1, 2, 3, 2, 3, 4]])
    >>> delta
    -2
    """
    check_known("after", after, ("largest", "spatial"))
    parts, start = [np.zeros((3, 0), np.int64)], 0
    for segment in check_segments(segments):
        if isinstance(segment, Block):
            cells, size = _checked_block(segment)
        else:
            cells = cells_of(segment)
            size = int(cells[1 if after == "spatial" else 0 :].max(initial=-1)) + 1
        parts.append(cells + start)
        start += size
        if start > LIMIT:
            raise ValueError(f"`segments` must keep positions below 2**31, got some that reach {start - 1}.")
    positions = np.concatenate(parts, axis=1)
    return Multimodal(positions, int(positions.max(initial=-1)) + 1 - positions.shape[1])


def left_padded(rows: Sequence[Multimodal]) -> Multimodal:
    """Combine rows of different lengths into one batch with padding on the left; padding has position 0.

    Args:
        rows: the result of `multimodal` for each row, at least one.
    Returns:
        Positions, int64, shape `(3, batch, length)`, and one delta for each row, shape `(batch,)`. Add it to a number
        of tokens that includes the padding, such as the length of a KV cache; `rope_deltas` of transformers 5 leave it
        out.
    Raises:
        TypeError: if `rows` are not what `multimodal` returns.
        ValueError: if there are no rows.

    >>> batch = left_padded([multimodal([3]), multimodal([(1, 1, 2)])])
    >>> batch.positions[2]
    array([[0, 1, 2],
           [0, 0, 1]])
    >>> batch.delta
    array([ 0, -1])
    """
    given: Any = rows
    if not isinstance(given, Sequence) or not all(isinstance(row, Multimodal) for row in given):
        raise TypeError(f"`rows` must be a list of results of `multimodal`, got {shown(rows)}.")
    if not rows:
        raise ValueError("`rows` must have at least one row, got none.")
    lengths = np.array([row.positions.shape[1] for row in rows], np.int64)
    padding = lengths.max() - lengths
    padded = [np.pad(row.positions, ((0, 0), (count, 0))) for row, count in zip(rows, padding.tolist(), strict=True)]
    return Multimodal(np.stack(padded, axis=1), np.array([row.delta for row in rows], np.int64) - padding)


def _checked_sizes(
    sizes: tuple[int, ...], merge: int, window: int | None = None
) -> tuple[tuple[int, ...], int, int | None]:
    if not sizes:
        raise ValueError("`sizes` must have at least one axis, got none.")
    sizes = tuple(check_integer("sizes", size, maximum=LIMIT) for size in sizes)
    if prod(sizes) > LIMIT:
        raise ValueError(f"`sizes` must have at most 2**31 cells, got {shown(sizes)}.")
    merge = check_integer("merge", merge)
    if merge > 1 and (len(sizes) < 2 or sizes[-2] % merge or sizes[-1] % merge):
        raise ValueError(f"`merge` must divide the last two sizes of {shown(sizes)}, got {merge}.")
    if window is not None:
        window = check_integer("window", window)
        if len(sizes) < 2 or window % merge:
            raise ValueError(f"`window` must be a multiple of `merge` {merge} for two axes or more, got {window}.")
    return sizes, merge, window


def _starts(start: int | Sequence[int], sizes: Sequence[int]) -> npt.NDArray[np.int64]:
    axes = len(sizes)
    starts = host_array("start", start)
    if starts.dtype.kind not in "iu":
        raise TypeError(f"`start` must be an integer, or one for each axis, got {shown(start)}.")
    if starts.shape not in ((), (axes,)):
        raise ValueError(f"`start` must be an integer, or one for each of the {axes} axes, got {shown(start)}.")
    if starts.size and not -LIMIT < starts.min() <= starts.max() <= LIMIT - max(sizes):
        raise ValueError(f"`start` must keep positions below 2**31 in size, got {shown(start)}.")
    return np.broadcast_to(starts.astype(np.int64), (axes,))[:, None]


def check_segments(segments: Any) -> Iterable[Any]:
    """Return the segments, or raise unless they are iterable."""
    if isinstance(segments, (str, type)) or not hasattr(segments, "__iter__") or getattr(segments, "shape", None) == ():
        raise TypeError(f"`segments` must be a list of lengths and grids, got {shown(segments)}.")
    return segments


def _checked_block(block: Block) -> tuple[npt.NDArray[np.int64], int]:
    cells, size = host_array("segments", block.positions), check_integer("segments", block.size, minimum=0)
    if cells.dtype.kind not in "iu":
        raise TypeError(f"`segments` must have blocks of integer positions, got {cells.dtype}.")
    if cells.ndim != 2 or len(cells) != 3:
        raise ValueError(f"`segments` must have blocks of shape (3, length), got {cells.shape}.")
    if cells.size and not -LIMIT < cells.min() <= cells.max() < LIMIT:
        wrong = cells.min() if cells.max() < LIMIT else cells.max()
        raise ValueError(f"`segments` must keep positions below 2**31 in size, got {wrong} in a block.")
    return cells.astype(np.int64), size


def cells_of(segment: Any) -> npt.NDArray[np.int64]:
    """Return the positions of a text or a grid, from the start of the segment."""
    if isinstance(segment, (tuple, list)):
        return _vision(*segment)
    return np.tile(sequence(check_integer("segments", segment, minimum=0, maximum=LIMIT)), (3, 1))


def _vision(*segment: Any) -> npt.NDArray[np.int64]:
    if len(segment) not in (3, 4):
        raise ValueError(f"`segments` must be lengths or (frames, height, width[, interval]), got {shown(segment)}.")
    sizes = [check_integer("segments", size) for size in segment[:3]]
    if len(segment) == 4 and isinstance(segment[3], tuple):
        if len(segment[3]) != sizes[0]:
            raise ValueError(f"`segments` must have a position for each of {sizes[0]} frames, got {shown(segment[3])}.")
        frames = [check_integer("segments", one, minimum=0, maximum=LIMIT) for one in segment[3]]
        cells = grid(*sizes)
        cells[0] = np.array(frames)[cells[0]]
        return cells
    if len(segment) == 4:
        check_number("segments", segment[3], minimum=0)
        if (sizes[0] - 1) * segment[3] >= LIMIT:
            raise ValueError(f"`segments` must keep positions below 2**31, got the interval {shown(segment[3])}.")
    cells = grid(*sizes)
    if len(segment) == 4:
        # The model multiplies in float32; in float64 some products would fall just below an integer.
        cells[0] = np.floor(cells[0].astype(np.float32) * np.float32(segment[3]))
    return cells
