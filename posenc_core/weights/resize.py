"""Resize learned tables to another length, grid or window: each new row is a weighted sum of the old rows around it."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Any

from .._array_api.checks import check_floating, check_integer, check_known, check_number, check_rank, shown
from .._array_api.namespace import A, Array, in_float32, namespace_of, shape_of
from ..positions.sequences import LIMIT
from .resample import METHODS, BiasMethod, Method, resampled

_CLASS_TOKEN_ROWS = 3  # for the scores of BEiT's class token with the cells, of the cells with it, and with itself


def resize_table(
    table: A,
    *,
    size: int | Iterable[int],
    old_size: int | Iterable[int] | None = None,
    prefix_tokens: int = 0,
    method: Method = "antialiased_cubic",
    offset: float = 0.0,
) -> A:
    """Resize a learned table to another length, or to another grid of two, three or more axes.

    The table of a trained layer is its `P`. A layer with as many rows as the result loads it as any other parameter, in
    PyTorch by `load_state_dict({"table": resized[0]})`.

    Args:
        table: `(length, dim)`, or `(1, length, dim)` with any preceding axes; grids are stored row by row.
        size: the new length or the new sizes of the grid: `(height, width)`.
        old_size: the old length or sizes; by default the length, or a grid of equal sizes.
        prefix_tokens: the number of leading rows (class and register tokens), which do not change.
        method: old and new cells cover the same area, except with the last method.

            * `"antialiased_cubic"`: cubic convolution with a = -1/2; where the table shrinks, the kernel widens, so
              that all old rows count; it ends at the border. timm's default, DINOv2 with registers; PyTorch's `bicubic`
              with `antialias=True`.
            * `"cubic"`: a = -3/4, over four rows, those at the border being repeated. MAE, DeiT, Swin, and DINO and
              DINOv2 without registers, with an `offset`; PyTorch's `bicubic`.
            * `"antialiased_linear"`: as the first, with a triangle. SigLIP 2.
            * `"linear"`: between two rows, those at the border being repeated.
            * `"aligned_linear"`: the same, the first and last rows staying where they are. Qwen3-VL, torchtune;
              PyTorch's `align_corners=True`.
        offset: is added to the new sizes where cells are placed, for the cubic methods: 0.1 in DINO and in DINOv2
            without registers, which pass `scale_factor=(size + 0.1) / old_size` to PyTorch. As there, `"cubic"` moves
            rows on an axis of the same size too, unless no axis changes.
    Returns:
        Array `(prefix_tokens + prod(size), dim)`, with the axes before it, of the dtype of `table`; half precision is
        blended in float32 and rounded once. `table` itself, if the sizes are the same.
    Raises:
        TypeError: if `table` is not an array of floating-point numbers, or a size is not an integer.
        ValueError: if a size is not positive, the old one does not fit the rows, the method is unknown, or `offset` is
            not from 0 up to 1, or given with another method than a cubic one.
    Source: Keys 1981, "Cubic convolution interpolation for digital image processing", equation 8.

    >>> import numpy as np
    >>> resize_table(np.array([[0.0], [1.0], [2.0]]), size=5, method="aligned_linear")[:, 0]
    array([0. , 0.5, 1. , 1.5, 2. ])
    >>> resize_table(np.zeros((1, 1 + 14 * 14, 768)), size=(16, 20), prefix_tokens=1).shape
    (1, 321, 768)
    """
    check_known("method", method, METHODS)
    prefix_tokens = check_integer("prefix_tokens", prefix_tokens, minimum=0)
    new = _sizes("size", size)
    old = None if old_size is None else _sizes("old_size", old_size, axes=len(new))
    count = _checked_count(table, prefix_tokens, f"after `prefix_tokens` {prefix_tokens}")
    if old is None:
        old = (_root(count, len(new)),) * len(new)
    if prod(old) != count:
        raise ValueError(
            f"`old_size` must have as many cells as `table` has rows after `prefix_tokens` {prefix_tokens}, {count}, "
            f"got {old if old_size is not None else 'none, and they are not a grid of equal sizes'}."
        )
    check_number("offset", offset, minimum=0)
    if offset >= 1 or (offset and not method.endswith("cubic")):
        raise ValueError(f"`offset` must be below 1, and 0 unless `method` is a cubic one, got {shown(offset)}.")
    return _resized(table, prefix_tokens, old, new, method, offset)


def resize_bias_table(
    table: A,
    *,
    window: Iterable[int],
    old_window: Iterable[int] | None = None,
    prefix_tokens: int = 0,
    method: BiasMethod = "cubic",
) -> A:
    """Resize a table of relative positions within a window, as in Swin and BEiT, to another window.

    Args:
        table: `((2 * height - 1) * (2 * width - 1), heads)`, 3 rows more for a class token; axes may stand before.
        window: the new `(height, width)`; there may be one axis, or more than two.
        old_window: the old one; by default one of equal sizes.
        prefix_tokens: 1 where the table ends in BEiT's three rows for a class token, which stay as they are.
        method: one of those of `resize_table`, over a grid of relative positions, or `"geometric"`: the old distances
            are moved to 0, 1, 1 + q, 1 + q + q², …, the last of them to the new border, with q no less than 1.01 and no
            more than 1.5, and rows in between are blended linearly. Near distances stay nearly as they were; where the
            window shrinks, the far ones are left out. timm's for BEiT, whose own has splines in place of lines.
    Returns:
        Array of `prod(2 * window - 1)` rows, and those of a class token, of the dtype of `table`;
        half precision is blended in float32 and rounded once. `table` itself, if the windows are the same.
    Raises:
        TypeError: if `table` is not an array of floating-point numbers, or a size is not an integer.
        ValueError: if a size is not positive, the old window does not fit the rows, or the method is unknown.
    Source: Liu et al. 2021, section 3.2 (arXiv:2103.14030); Bao et al. 2022 (arXiv:2106.08254) and its code.

    >>> import numpy as np
    >>> resize_bias_table(np.zeros((13 * 13, 4)), window=(12, 12)).shape
    (529, 4)
    >>> resize_bias_table(np.array([[-1.0], [0.0], [1.0]]), window=(3,), method="geometric")[:, 0]
    array([-1., -1.,  0.,  1.,  1.])
    """
    check_known("method", method, (*METHODS, "geometric"))
    new = tuple(2 * size - 1 for size in _sizes("window", window))
    prefix_tokens = check_integer("prefix_tokens", prefix_tokens, minimum=0)
    if prefix_tokens > 1:
        raise ValueError(f"`prefix_tokens` must be 0 or 1, for a class token, got {shown(prefix_tokens)}.")
    after = _CLASS_TOKEN_ROWS * prefix_tokens
    given = None if old_window is None else _sizes("old_window", old_window, axes=len(new))
    count = _checked_count(table, after, f"before those of `prefix_tokens` {prefix_tokens}")
    old = tuple(2 * size - 1 for size in given) if given else (_root(count, len(new)),) * len(new)
    if prod(old) != count or not all(span % 2 for span in old):
        raise ValueError(
            f"`old_window` must have as many relative positions as `table` has rows before those of "
            f"`prefix_tokens` {prefix_tokens}, {count}, got {given or 'none, and no window of equal sizes has'}."
        )
    return _resized(table, 0, old, new, method)


def _sizes(name: str, given: int | Iterable[int], *, axes: int | None = None) -> tuple[int, ...]:
    several: Any = given
    is_one = (
        not hasattr(several, "__iter__") or isinstance(several, (str, type)) or getattr(several, "shape", (1,)) == ()
    )
    sizes = tuple(check_integer(name, size) for size in ((several,) if is_one else several))
    if prod(sizes) >= LIMIT:
        raise ValueError(f"`{name}` must have fewer than 2**31 cells, got {shown(given)}.")
    if not sizes or len(sizes) != (axes or len(sizes)):
        raise ValueError(f"`{name}` must have {axes or 'one or more'} axes, got {shown(given)}.")
    return sizes


def _checked_count(table: Array, kept: int, where: str) -> int:
    """Return the number of rows to resize: all but those that are kept."""
    check_rank("table", table, minimum=2, axes="(..., rows, columns)")
    check_floating("table", table)
    count = shape_of(table)[-2] - kept
    if count < 1:
        raise ValueError(f"`table` must have rows {where}, got shape {shape_of(table)}.")
    return count


def _root(count: int, axes: int) -> int:
    return round(count ** (1 / axes))


def _resized(
    table: A, start: int, old: tuple[int, ...], new: tuple[int, ...], method: BiasMethod, offset: float = 0.0
) -> A:
    """Return the table with the rows of a grid, from `start` on, resized along each axis; other rows do not change."""
    if old == new:
        return table
    xp, stop = namespace_of(table), start + prod(old)
    *outer, count, dim = shape_of(table)
    flat = xp.reshape(table, (prod(outer), count, dim))
    grid = in_float32(lambda wide: resampled(wide, old, new, method=method, offset=offset), flat[:, start:stop, :])
    first, last = (
        [flat[:, rows, :]] if rows.stop > rows.start else [] for rows in (slice(0, start), slice(stop, count))
    )
    kept = xp.concat([*first, grid, *last], axis=1)
    return xp.reshape(kept, (*outer, shape_of(kept)[1], dim))
