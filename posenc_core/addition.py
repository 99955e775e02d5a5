"""Addition: putting the rows of a table onto tokens, by adding them or by appending them."""

from __future__ import annotations

from typing import Literal, TypeAlias

from ._arrays import A, Array, aligned, in_float32, namespace_of, shape_of
from ._checks import check_broadcasts, check_floating, check_known, check_rank, check_width

Combine: TypeAlias = Literal["add", "concat"]
COMBINES = ("add", "concat")


def combine(x: A, rows: Array, *, how: Combine) -> A:
    """Tokens with the rows of their positions.

    Args:
        x: tokens, shape `(..., length, width)`.
        rows: one row per position, shape `(length, dim)` or `(batch, length, dim)`.
        how: `"add"` adds the rows (then `dim` is `width`); `"concat"` appends their columns.
    Returns:
        Array of the dtype of `x`, `width` or `width + dim` wide; half precision is rounded once.
    Raises:
        TypeError: if `x` is not floating-point.
        ValueError: if `how` is unknown, `x` has no sequence axis, or the rows do not fit it.
    Source: Vaswani et al. 2017, section 3.5 (arXiv:1706.03762).

    >>> import numpy as np
    >>> combine(np.ones((2, 2)), np.array([[0.0, 1.0], [2.0, 3.0]]), how="add")
    array([[1., 2.],
           [3., 4.]])
    """
    check_known("how", how, COMBINES)
    check_floating("x", x)
    check_rank("x", x, minimum=2, axes="(..., length, width)")
    rows = aligned(rows, x, seq_axis=-2)
    check_broadcasts("rows", rows, (*x.shape[:-1], rows.shape[-1]))
    if how == "concat":
        return in_float32(_appended, x, rows)
    check_width("x", x, rows.shape[-1])
    return in_float32(lambda wide, added: wide + added, x, rows)


def _appended(x: Array, rows: Array) -> Array:
    xp = namespace_of(x)
    return xp.concat([x, xp.broadcast_to(rows, (*shape_of(x)[:-1], rows.shape[-1]))], axis=-1)
