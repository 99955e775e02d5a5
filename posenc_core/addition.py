"""Combine tokens with the rows of a table, by adding or by appending them."""

from __future__ import annotations

import operator
from typing import Any, Literal, TypeAlias

import numpy as np

from ._array_api.checks import (
    check_alike,
    check_broadcasts,
    check_floating,
    check_known,
    check_rank,
    check_width,
    write,
)
from ._array_api.namespace import A, Array, aligned, dtype_of, in_float32, namespace_of, shape_of

Combine: TypeAlias = Literal["add", "concat"]
COMBINES = ("add", "concat")


def combine(x: A, rows: Array, *, how: Combine, out: A | None = None) -> A:
    """Combine tokens with the rows of their positions.

    Args:
        x: tokens, shape `(..., length, width)`.
        rows: one row per position, shape `(length, dim)` or `(batch, length, dim)`.
        how: `"add"` adds the rows (then `dim` is `width`); `"concat"` appends their columns.
        out: an array for the result, of its shape and dtype; pass `x` itself to add in place.
    Returns:
        Array of the dtype of `x`, `width` or `width + dim` wide, or `out`; half precision is rounded once.
    Raises:
        TypeError: if `x` or `rows` are not floating-point, or `out` is of another library or dtype, or cannot be
            written to.
        ValueError: if `how` is unknown, `x` has no sequence axis, the rows do not fit it, or `out` has another shape.
    Source: Vaswani et al. 2017, section 3.5 (arXiv:1706.03762).

    >>> import numpy as np
    >>> combine(np.ones((2, 2)), np.array([[0.0, 1.0], [2.0, 3.0]]), how="add")
    array([[1., 2.],
           [3., 4.]])
    """
    check_known("how", how, COMBINES)
    check_floating("x", x)
    check_rank("x", x, minimum=2, axes="(..., length, width)")
    check_floating("rows", rows)
    check_rank("rows", rows, minimum=2, maximum=3, axes="(length, dim) or (batch, length, dim)")
    check_broadcasts("rows", aligned(rows, x, seq_axis=-2), (*x.shape[:-1], rows.shape[-1]))
    if how == "add":
        check_width("x", x, rows.shape[-1])
        if out is x and _in_place(x, rows):
            return x
    result = combine_checked(x, rows, how)
    if out is None:
        return result
    check_alike("out", out, result)
    return write("out", out, result)


def combine_checked(x: A, rows: Array, how: str) -> A:
    """Return the result of `combine` for checked tokens and rows: `(length, dim)` or `(batch, length, dim)`."""
    if len(rows.shape) > 2:
        rows = aligned(rows, x, seq_axis=-2)
    operation: Any = _append if how == "concat" else operator.add
    return operation(x, rows) if x.dtype == rows.dtype else in_float32(operation, x, rows)


def _in_place(x: Any, rows: Any) -> bool:
    """Add rows of the same dtype to tokens where they are, if the library says how; whether it has been done."""
    if dtype_of(x) != dtype_of(rows):
        return False
    if isinstance(x, np.ndarray):
        if x.flags.writeable:
            np.add(x, rows, out=x)
        return x.flags.writeable
    add_to = getattr(namespace_of(x), "add_to", None)
    return add_to is not None and add_to(x, rows)


def _append(x: Array, rows: Array) -> Array:
    xp = namespace_of(x)
    return xp.concat([x, xp.broadcast_to(rows, (*shape_of(x)[:-1], rows.shape[-1]))], axis=-1)
