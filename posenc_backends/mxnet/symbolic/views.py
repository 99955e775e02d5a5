"""Layers in a graph: the core's methods, run on views of layers, whose arrays are symbols with a rank."""

from __future__ import annotations

from functools import partial
from typing import Any

import mxnet as mx
import numpy as np
import numpy.typing as npt
from mxnet.symbol import Symbol

from posenc_core import layers, register_namespace
from posenc_core._array_api.checks import shown
from posenc_core.layers import Backend
from posenc_core.layers.inputs import as_integers, host_values

from ..backend import BACKEND
from ..operator import rotate_symbol
from . import namespace
from .array import SymbolArray
from .sizes import zeros

register_namespace(SymbolArray, namespace)


class SymbolicBackend(Backend):
    """MXNet while a graph is made."""

    namespace = namespace
    array_types = SymbolArray

    def from_numpy(self, array: npt.NDArray[Any], /, *, like: Any = None) -> SymbolArray:
        """Return numbers that are a part of the graph."""
        return namespace.asarray(array.astype(np.int32) if array.dtype.kind in "iu" else array)

    def to_numpy(self, array: Any, /) -> npt.NDArray[Any]:
        """Return the numbers of an array outside of the graph."""
        return BACKEND.to_numpy(array)

    def is_traced(self, array: Any, /) -> bool:
        """Return whether it is a part of the graph."""
        return isinstance(array, SymbolArray)

    def stop_gradient(self, array: Any, /) -> SymbolArray:
        """Return the array itself: no gradient reaches positions."""
        return array


class ConstantTables(SymbolicBackend):
    """MXNet while a graph is made whose tables are not learned, so that an operator may rotate by them."""

    rotate = staticmethod(rotate_symbol)


class View:
    """A layer as the core's methods see it while a graph is made; what is not here is the layer's own.

    Attributes:
        width: of the tokens; None: any.
        axes: the number of axes that a position has.
    """

    backend: Any = SymbolicBackend()

    def __init__(self, layer: Any) -> None:
        self.layer = layer
        self.arrays = self.initial_arrays = layer.symbols
        self.width: int | None = None
        self.axes = 1

    def __getattr__(self, name: str) -> Any:
        return getattr(self.layer, name)

    def prepare(self, x: Any, width: int | None) -> SymbolArray:
        """Return tokens of any number of axes as `(batch, others, length, width)`."""
        return x if isinstance(x, SymbolArray) else _tokens(x, width, self.layer.dtype)

    def active_dropout(self) -> Any:
        """Return the dropout, which drops nothing where the graph does not train."""
        dropout = self.layer.dropout
        return (lambda x: x.like(dropout(x.symbol))) if dropout._rate else None

    def run(self, method: str, arguments: dict[str, Any]) -> Any:
        """Return the result of a method of the core; the first argument is tokens, the second may be tokens as well."""
        if arguments.get("heads") is not None:
            raise ValueError(f"`heads` must be left out in a graph of symbols, got {shown(arguments['heads'])}.")
        name, *_ = arguments
        tokens = self.prepare(arguments[name], self.width)
        positions = partial(_positions, axes=self.axes, batch=tokens.sizes[0])
        wrap = {"start": _start, "valid_lens": _lengths, "mask": _mask}
        wrap |= dict.fromkeys(("positions", "query_positions", "key_positions"), positions)
        wrap["cos_sin"] = partial(_rows, rotary=getattr(self, "rotary", self))
        wrapped = {
            key: wrap[key](given) if key in wrap and given is not None else given for key, given in arguments.items()
        }
        return self.unwrap(getattr(self, method)(**{**wrapped, name: tokens}), *arguments.values())

    def unwrap(self, result: Any, *given: Any) -> Any:
        """Return symbols with the axes that the tokens given had, and their own width."""
        if isinstance(result, tuple):
            return tuple(map(self.unwrap, result, given))
        return (
            None if result is None else _like(result.symbol, given[0], lhs_begin=0, lhs_end=3, rhs_begin=0, rhs_end=-1)
        )


class PositionalEncodingView(View, layers.PositionalEncoding):
    """Of `PositionalEncoding`."""

    def __init__(self, layer: Any) -> None:
        super().__init__(layer)
        self.width = self.encoding.dim if layer.combine == "add" else None
        self.axes = self.encoding.num_axes


class RotaryEmbeddingView(View, layers.RotaryEmbedding):
    """Of `RotaryEmbedding`."""

    __call__ = layers.RotaryEmbedding.rotate

    def __init__(self, layer: Any) -> None:
        super().__init__(layer)
        self.width, self.axes = self.encoding.head_dim, self.encoding.num_axes
        self.backend = View.backend if self.encoding.parameters() else ConstantTables()

    def prepare(self, x: Any, width: int | None) -> SymbolArray:
        """Return tokens of any number of axes; if heads differ, `(batch and others, heads, length, width)`."""
        encoding = self.encoding
        if isinstance(x, SymbolArray) or (encoding.table_heads is None and encoding.widening == 1):
            return super().prepare(x, width)
        return _ranked(x, (None, None, None, width), self.layer.dtype)

    def run(self, method: str, arguments: dict[str, Any]) -> Any:
        """Return queries, or queries and keys, rotated; meanwhile the sequence is the axis before the last."""
        axis = self.layer.seq_axis if arguments["seq_axis"] is None else arguments["seq_axis"]
        moved = {name: _moved(arguments[name], axis, -2) for name in ("q", "k")}
        rotated = super().run(method, {**arguments, **moved, "seq_axis": -2})
        return tuple(_moved(x, -2, axis) for x in rotated) if isinstance(rotated, tuple) else _moved(rotated, -2, axis)

    def cos_sin_symbols(self, positions: Symbol, *options: Any) -> tuple[Symbol, ...]:
        """Return `cos_sin` of positions with one or two axes, for an encoding of several axes with one more."""
        several = (self.axes,) if self.axes > 1 else ()
        symbol = mx.sym.npx.reshape(_integers(positions), (*several, -1, -2), reverse=True)
        rows = self.cos_sin(SymbolArray(symbol, (*several, None, None), "int32"), *options)
        lead = {"rhs_begin": len(several), "rhs_end": None}
        if self.encoding.table_heads is None:
            return tuple([_like(row.symbol, positions, lhs_begin=0, lhs_end=2, **lead) for row in rows])
        first = [_moved(row.symbol, 1, 0) for row in rows]  # heads, before the axes that positions have
        return tuple([_moved(_like(row, positions, lhs_begin=1, lhs_end=3, **lead), 0, -3) for row in first])


class AttentionBiasView(View, layers.AttentionBias):
    """Of `AttentionBias`."""

    def prepare(self, x: Any, width: int | None) -> SymbolArray:
        """Return scores, or queries and keys of this width, with a batch before the heads."""
        heads = self.encoding.num_heads if width is None else None
        return x if isinstance(x, SymbolArray) else _ranked(x, (None, heads, None, width), self.layer.dtype)


class QueryScalingView(View, layers.QueryScaling):
    """Of `QueryScaling`."""

    __call__ = layers.QueryScaling.scale


class QueryKeyNormView(View, layers.QueryKeyNorm):
    """Of the norm inside `MultiHeadAttention`."""

    __call__ = layers.QueryKeyNorm.normalize


class MultiHeadAttentionView(View, layers.MultiHeadAttention):
    """Of `MultiHeadAttention`."""

    def __init__(self, layer: Any) -> None:
        super().__init__(layer)
        projections = layer.W_q, layer.W_k, layer.W_v, layer.W_o
        self.W_q, self.W_k, self.W_v, self.W_o = (partial(_projected, dense) for dense in projections)
        self.rotary = None if layer.rotary is None else RotaryEmbeddingView(layer.rotary)
        self.scoring = None if layer.scoring is None else AttentionBiasView(layer.scoring)
        self.query_scale = layer.query_scale
        self.scaling = None if layer.query_scale is None else QueryScalingView(layer.scaling)
        self.norm = None if layer.norm is None else QueryKeyNormView(layer.norm)
        self.width, self.axes = layer.num_hiddens, 1 if self.rotary is None else self.rotary.axes

    def prepare(self, x: Any, width: int | None) -> SymbolArray:
        """Return tokens, `(batch, length, width)`."""
        return x if isinstance(x, SymbolArray) else SymbolArray(x, (None, None, width), self.layer.dtype)

    def run(self, method: str, arguments: dict[str, Any]) -> Any:
        """Return the result; a cache has keys and values, `(batch, num_kv_heads, length, head_dim)`."""
        width, cache = self.num_hiddens // self.num_heads, arguments["cache"]
        is_wide = self.rotary is not None and not self.rotates_in_attention
        widths = (width * self.rotary.encoding.widening if is_wide else width, width)
        cache = cache and tuple(
            SymbolArray(x, (None, self.num_kv_heads, None, own), self.layer.dtype)
            for x, own in zip(cache, widths, strict=True)
        )
        return super().run(method, {**arguments, "cache": cache})

    def unwrap(self, result: Any, *given: Any) -> Any:
        """Return a symbol, or `AttentionOutput` of symbols."""
        if isinstance(result, SymbolArray):
            return result.symbol
        parts = map(self.unwrap, result)
        return layers.AttentionOutput(*parts) if isinstance(result, layers.AttentionOutput) else tuple(parts)


def _moved(x: Any, axis: int, to: int) -> Any:
    return x if axis == to or x is None else mx.sym.np.moveaxis(x, axis, to)


def _projected(dense: Any, x: SymbolArray) -> SymbolArray:
    return SymbolArray(dense(x.symbol), (*x.sizes[:-1], dense._units), x.dtype)


def _tokens(x: Symbol, width: int | None, dtype: str) -> SymbolArray:
    """Return tokens of any number of axes as `(batch, others, length, width)`."""
    x = x if width is None else _with_sizes(x, width)
    corner = mx.sym.slice_axis(x.as_nd_ndarray(), axis=-1, begin=0, end=1)
    corner = mx.sym.slice_axis(corner, axis=-2, begin=0, end=1).as_np_ndarray()
    lead = mx.sym.npx.reshape(corner, (-2, -1))
    flat = mx.sym.npx.reshape(x, (-1, -2, -2), reverse=True)
    four = _like(flat, lead, lhs_begin=0, lhs_end=1, rhs_begin=0, rhs_end=2)
    return SymbolArray(four, (None, None, None, width), dtype)


def _with_sizes(symbol: Symbol, *last: int) -> Symbol:
    """Return it; its graph raises unless its last axes have these sizes (-2: any). The others (-4) stay as they are."""
    return mx.sym.npx.reshape(symbol, (-4, *last), reverse=True)


def _like(symbol: Symbol, like: Symbol, **axes: int | None) -> Symbol:
    return mx.sym.reshape_like(symbol.as_nd_ndarray(), like.as_nd_ndarray(), **axes).as_np_ndarray()


def _ranked(symbol: Symbol, sizes: tuple[int | None, ...], dtype: str) -> SymbolArray:
    """Return it with axes of size 1 before those that it has."""
    symbol = _with_sizes(symbol, *(-2 if size is None else size for size in sizes[1:]))
    return SymbolArray(mx.sym.npx.reshape(symbol, (-1, *[-2] * (len(sizes) - 1)), reverse=True), sizes, dtype)


def _start(given: Any) -> Any:
    """Return a number, or one for each row."""
    if isinstance(given, (int, np.integer)):
        return int(given)
    return SymbolArray(mx.sym.npx.reshape(_integers(given), (-1,)), (None,), "int32")


def _positions(given: Any, axes: int, batch: Any) -> SymbolArray:
    """Return those of each row, `(batch, length)`, or `(axes, batch, length)`; one row may be given for all."""
    several = (axes,) if axes > 1 else ()
    symbol = mx.sym.npx.reshape(_integers(given), (*several, -1, -2), reverse=True)
    rows = SymbolArray(zeros((batch, 1)).astype("int32"), (batch, 1), "int32")
    return SymbolArray(symbol, (*several, None, None), "int32") + rows


def _rows(given: Any, rotary: Any) -> Any:
    """Return rows of tables as `(batch or 1, length, pairs)`, with an axis of heads where these have some."""
    if rotary is None or not isinstance(given, (tuple, list)):
        return given  # which the core refuses
    encoding = rotary.encoding
    heads = () if encoding.table_heads is None else (encoding.table_heads,)
    sizes = (None, *heads, None, getattr(encoding, "pairs", encoding.head_dim))
    return tuple([_ranked(row, sizes, "float32") if isinstance(row, Symbol) else row for row in given])


def _lengths(given: Any) -> SymbolArray:
    """Return `(batch, 1 or queries)`, rounded up: what a key's number is compared with."""
    lengths = given if isinstance(given, Symbol) else _constant(given)
    wide = mx.sym.npx.reshape(lengths.astype("float32"), (-2, -1))
    return SymbolArray(mx.sym.np.ceil(wide).astype("int32"), (None, None), "int32")


def _mask(given: Any) -> SymbolArray:
    """Return it with all four axes."""
    ones = mx.sym.np.ones((1, 1, 1, 1))
    symbol = given if isinstance(given, Symbol) else _constant(given)
    return SymbolArray(mx.sym.np.where(symbol, ones, ones * 0) > 0, (None,) * 4, "bool")


def _integers(given: Any) -> Symbol:
    """Return integers, int32; a graph that is given others does not run, as `bitwise_or` has none."""
    if isinstance(given, Symbol):
        with mx.name.Prefix("positions_and_starts_must_be_integers_"):  # as the operator says which it is when it fails
            return mx.sym.np.bitwise_or(given, 0).astype("int32")
    known = as_integers(np.asarray(host_values(given, BACKEND)))
    if known.dtype.kind not in "iu":
        raise TypeError(f"Positions in a hybridized block must be integers, got {known.dtype}: {known.ravel()[:3]} …")
    return _constant(known)


def _constant(given: Any) -> Symbol:
    return View.backend.from_numpy(np.asarray(host_values(given, BACKEND))).symbol
