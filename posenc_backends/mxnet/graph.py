"""What a graph computes: the steps of the core that ask for a shape, for symbols, which have none."""

from __future__ import annotations

from typing import Any

import mxnet as mx
import numpy as np
import numpy.typing as npt
from mxnet.symbol import Symbol

from posenc_core.masks import valid_per_query
from posenc_core.rotation import Routes

from . import namespace as xp


def counted(x: Symbol, *, axis: int) -> Symbol:
    """The positions 0, 1, … along one of the last two axes of `x`, in float32 whatever `x` is: exact to 2**24."""
    other = -1 if axis == -2 else -2
    line = mx.sym.slice_axis(x.as_nd_ndarray(), axis=other, begin=0, end=1).as_np_ndarray()
    return mx.sym.npx.arange_like(xp.astype(line, "float32"), axis=axis)


def rows(table: Symbol, x: Symbol, start: int) -> Symbol:
    """The rows of the tokens in `x`, `(length, columns)`; those that the table does not have are NaN.

    The table is asked for its length while the graph runs, so that a graph made before it grew is right after.
    """
    positions = counted(x, axis=-2) + start
    last = xp.max(counted(table, axis=-2), axis=0, keepdims=True)
    taken = xp.take(table, positions, axis=0)
    held = xp.expand_dims(positions <= last, axis=-1)
    return xp.where(held, taken, xp.full_like(taken, float("nan")))


def channels(x: Symbol, begin: int, end: int | None) -> Symbol:
    """`x[..., begin:end]`."""
    return mx.sym.slice_axis(x.as_nd_ndarray(), axis=-1, begin=begin, end=end).as_np_ndarray()


def appended(x: Symbol, rows: Symbol) -> Symbol:
    """`x` with columns appended: `(..., length, width) x (length, columns) -> (..., length, width + columns)`."""
    return xp.concat([x, xp.zeros_like(channels(x, 0, 1)) + rows], axis=-1)


def indices(routes: Routes) -> dict[str, npt.NDArray[Any]]:
    """What `rotated` takes by, as constants of a block; what can be sliced is not taken."""
    numbers = {"partner": routes.partner, "column": routes.column}
    if not np.array_equal(routes.source, routes.channels) or not _together(routes):
        numbers["source"] = routes.source
    if not _together(routes):
        numbers["rest"] = np.setdiff1d(np.arange(routes.width), routes.channels)
        numbers["back"] = np.argsort(np.concatenate([routes.channels, numbers["rest"]]))
    return {name: array.astype(np.int32) for name, array in numbers.items()} | {"sign": routes.sign}


def rotated(x: Symbol, cos: Symbol, sin: Symbol, weights: dict[str, Symbol], routes: Routes) -> Symbol:
    """`rotate` channel by channel: each says which column it turns by, with which sign, and with whom."""
    first, end = int(routes.channels[0]), int(routes.channels[-1]) + 1
    own = xp.take(x, weights["source"], axis=-1) if "source" in weights else channels(x, first, end)
    cos = xp.take(cos, weights["column"], axis=-1)
    sin = xp.take(sin, weights["column"], axis=-1) * weights["sign"]
    turned = own * cos + xp.take(x, weights["partner"], axis=-1) * sin
    if "rest" in weights:
        return xp.take(xp.concat([turned, xp.take(x, weights["rest"], axis=-1)], axis=-1), weights["back"], axis=-1)
    before = [channels(x, 0, first)] if first else []
    after = [channels(x, end, None)] if end < routes.width else []
    return xp.concat([*before, turned, *after], axis=-1) if before or after else turned


def _together(routes: Routes) -> bool:
    return bool(routes.channels[-1] - routes.channels[0] + 1 == len(routes.channels))


def split_heads(x: Symbol, num_heads: int, width: int) -> Symbol:
    """`(batch, length, heads * width) -> (batch, heads, length, width)`."""
    return xp.permute_dims(mx.sym.npx.reshape(x, (-2, -2, num_heads, width)), (0, 2, 1, 3))  # -2: as it is


def merge_heads(x: Symbol) -> Symbol:
    """`(batch, heads, length, width) -> (batch, length, heads * width)`."""
    return mx.sym.npx.reshape(xp.permute_dims(x, (0, 2, 1, 3)), (-2, -2, -5))  # -5: two axes as one


def grouped(x: Symbol, groups: int) -> Symbol:
    """Each head as many times as there are queries' heads for it: `(batch, heads, …) -> (batch, heads * groups, …)`."""
    return x if groups == 1 else mx.sym.np.repeat(x, repeats=groups, axis=1)


def visible(valid_lens: Symbol | None, q: Symbol, k: Symbol, *, causal: bool = False) -> Symbol:
    """The mask of `valid_lens`, `(batch,)` or `(batch, queries)`, on scores `(batch, heads, queries, keys)`."""
    before = xp.expand_dims(counted(q, axis=-2) + 1, axis=0)  # (1, queries): what a causal mask leaves
    if valid_lens is None:
        return valid_per_query(before, counted(k, axis=-2))
    lengths = mx.sym.npx.reshape(xp.astype(valid_lens, "float32"), (-2, -1))  # (batch,) becomes (batch, 1)
    per_query = lengths + xp.zeros_like(before)  # MXNet crashes where a mask is spread over no queries
    return valid_per_query(xp.minimum(per_query, before) if causal else per_query, counted(k, axis=-2))
