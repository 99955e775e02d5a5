"""What layers do in a graph: the steps of the core, over symbols whose number of axes is known."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import mxnet as mx
import numpy as np
import numpy.typing as npt
from mxnet.symbol import Symbol

from posenc_core import layers, register_namespace
from posenc_core.layers.base import BaseLayer, host_values, whole

from .. import backend as arrays
from . import namespace
from .array import SymbolArray
from .sizes import sized, zeros

register_namespace(SymbolArray, namespace)


class Graph:
    """The room of these arrays."""

    @staticmethod
    def from_numpy(array: npt.NDArray[Any], /, *, like: Any = None) -> SymbolArray:
        """Numbers that are a part of the graph."""
        return namespace.asarray(array.astype(np.int32) if array.dtype.kind in "iu" else array)

    @staticmethod
    def to_numpy(array: Any, /) -> npt.NDArray[Any]:
        """Those of an array outside; none inside are known."""
        return arrays.to_numpy(array)

    @staticmethod
    def is_traced(array: Any, /) -> bool:
        """Whether it is of the graph."""
        return isinstance(array, SymbolArray)

    @staticmethod
    def stop_gradient(array: SymbolArray, /) -> SymbolArray:
        """Itself: no gradient reaches positions."""
        return array


class Held(BaseLayer):
    """The encoding of a layer, and what the layer holds, as inputs of a graph."""

    backend = Graph()

    def __init__(self, layer: Any) -> None:
        self.encoding, self._held = layer.encoding, layer.variables()

    @property
    def held(self) -> Mapping[str, Any]:
        return self._held


class Adding(layers.Addition, Held):
    """What `PositionalEncoding` does."""

    def __init__(self, layer: Any) -> None:
        super().__init__(layer)
        self.combine = layer.combine

    def run(self, x: Symbol, dtype: str, start: Any, positions: Any) -> Symbol:
        """Tokens with the rows of their positions."""
        tokens: Any = _tokens(x, self.encoding.dim if self.combine == "add" else None, dtype)
        return _restored(self.added(tokens, _start(start), _positions(positions, self.encoding.num_axes)), x)


class Turning(layers.Rotation, Held):
    """What `RotaryEmbedding` does."""

    __call__ = layers.Rotation.rotated

    def run(self, given: tuple[Symbol, ...], dtype: str, start: Any, positions: Any) -> tuple[Symbol, ...]:
        """Queries, or queries and keys, rotated."""
        tokens: list[Any] = [_tokens(x, self.encoding.head_dim, dtype) for x in given]
        q, k = (*tokens, None)[:2]
        turned: Any = self.rotated(q, k, start=_start(start), positions=_positions(positions, self.encoding.num_axes))
        pairs = zip(turned if len(given) > 1 else (turned,), given, strict=True)
        return tuple(_restored(result, x) for result, x in pairs)


class Scoring(layers.Bias, Held):
    """What `AttentionBias` does."""

    def run(
        self, scores: Symbol, content: tuple[Any, ...], dtype: str, start: Any, positions: tuple[Any, ...]
    ) -> Symbol:
        """Scores, `(heads, queries, keys)`, with a batch or without, plus the bias."""
        heads, width = self.encoding.num_heads, getattr(self.encoding, "head_dim", None)
        four: Any = _ranked(scores, (None, heads, None, None), dtype)
        queries, keys = (_of_rows(_positions(given), four.sizes[0]) for given in positions)
        q, k = (None if x is None else _ranked(x, (None, None, None, width), dtype) for x in content)
        return _like(self.biased(four, _start(start), queries, keys, q, k).symbol, scores)

    def run_values(self, attention: Symbol, dtype: str, start: Any, positions: tuple[Any, ...]) -> Symbol | None:
        """What is added to the result of attention with these weights, if anything."""
        four: Any = _ranked(attention, (None, self.encoding.num_heads, None, None), dtype)
        queries, keys = (_of_rows(_positions(given), four.sizes[0]) for given in positions)
        added = self.values(four, _start(start), queries, keys)
        return None if added is None else _restored(added, attention)


class Attending(layers.Attention):
    """What `MultiHeadAttention` does."""

    backend = Graph()

    def __init__(self, block: Any) -> None:
        self.num_hiddens, self.num_heads, self.num_kv_heads = block.num_hiddens, block.num_heads, block.num_kv_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (
            partial(_projected, dense) for dense in (block.W_q, block.W_k, block.W_v, block.W_o)
        )
        self.rotary = None if block.rotary is None else Turning(block.rotary)
        self.scoring = None if block.scoring is None else Scoring(block.scoring)
        self.dropout, self.dtype = block.dropout, block.dtype

    def run(self, tokens: tuple[Symbol, ...], options: layers.Options) -> Any:
        """`(batch, queries, num_hiddens)`, or `AttentionOutput`."""
        queries, keys, values = (SymbolArray(x, (None, None, self.num_hiddens), self.dtype) for x in tokens)
        result = self.attended(queries, keys, values, self._stated(options, queries.sizes[0]), self._dropped)
        return _symbols(result)

    def _stated(self, options: layers.Options, batch: Any) -> layers.Options:
        axes = 1 if self.rotary is None else self.rotary.encoding.num_axes
        return options._replace(
            valid_lens=_lengths(options.valid_lens),
            start=_start(options.start),
            positions=_of_rows(_positions(options.positions, axes), batch),
            key_positions=_of_rows(_positions(options.key_positions, axes), batch),
            mask=_mask(options.mask),
            cache=options.cache and tuple(self._cached(x) for x in options.cache),
        )

    def _cached(self, x: Symbol) -> SymbolArray:
        return SymbolArray(x, (None, self.num_kv_heads, None, self.num_hiddens // self.num_heads), self.dtype)

    def _dropped(self, weights: SymbolArray) -> SymbolArray:
        return weights.like(self.dropout(weights.symbol))


def _projected(dense: Any, x: SymbolArray) -> SymbolArray:
    return SymbolArray(dense(x.symbol), (*x.sizes[:-1], dense._units), x.dtype)


def _symbols(result: Any) -> Any:
    if isinstance(result, SymbolArray):
        return result.symbol
    return (
        type(result)._make(map(_symbols, result))
        if isinstance(result, layers.AttentionOutput)
        else tuple(map(_symbols, result))
    )


def _tokens(x: Symbol, width: int | None, dtype: str) -> SymbolArray:
    """Tokens of any number of axes as `(batch, others, length, width)`."""
    x = x if width is None else sized(x, width)
    corner = mx.sym.slice_axis(x.as_nd_ndarray(), axis=-1, begin=0, end=1)
    corner = mx.sym.slice_axis(corner, axis=-2, begin=0, end=1).as_np_ndarray()
    lead = mx.sym.npx.reshape(corner, (-2, -1))
    flat = mx.sym.npx.reshape(x, (-1, -2, -2), reverse=True)
    four = _like(flat, lead, lhs_begin=0, lhs_end=1, rhs_begin=0, rhs_end=2)
    return SymbolArray(four, (None, None, None, width), dtype)


def _restored(x: SymbolArray, like: Symbol) -> Symbol:
    """Tokens with the axes that they had, and their own width."""
    return _like(x.symbol, like, lhs_begin=0, lhs_end=3, rhs_begin=0, rhs_end=-1)


def _like(symbol: Symbol, like: Symbol, **axes: int) -> Symbol:
    return mx.sym.reshape_like(symbol.as_nd_ndarray(), like.as_nd_ndarray(), **axes).as_np_ndarray()


def _ranked(symbol: Symbol, sizes: tuple[int | None, ...], dtype: str) -> SymbolArray:
    """With axes of size 1 before those that it has."""
    symbol = sized(symbol, *(-2 if size is None else size for size in sizes[1:]))
    codes = (-1, *[-2] * (len(sizes) - 1))
    return SymbolArray(mx.sym.npx.reshape(symbol, codes, reverse=True), sizes, dtype)


def _start(given: Any) -> Any:
    """A number, or one for each row."""
    if isinstance(given, (int, np.integer)):
        return int(given)
    return SymbolArray(mx.sym.npx.reshape(_whole(given), (-1,)), (None,), "int32")


def _positions(given: Any, axes: int = 1) -> Any:
    """`(rows, length)`, or `(axes, rows, length)`; rows may be 1."""
    if given is None:
        return None
    several = (axes,) if axes > 1 else ()
    return SymbolArray(
        mx.sym.npx.reshape(_whole(given), (*several, -1, -2), reverse=True), (*several, None, None), "int32"
    )


def _of_rows(positions: SymbolArray | None, batch: Any) -> SymbolArray | None:
    """The positions of each row of a batch."""
    return (
        None if positions is None else positions + SymbolArray(zeros((batch, 1)).astype("int32"), (batch, 1), "int32")
    )


def _lengths(given: Any) -> Any:
    """`(batch, 1 or queries)`, rounded up: what a key's number is compared with."""
    if given is None:
        return None
    lengths = given if isinstance(given, Symbol) else _constant(given)
    wide = mx.sym.npx.reshape(lengths.astype("float32"), (-2, -1))
    return SymbolArray(mx.sym.np.ceil(wide).astype("int32"), (None, None), "int32")


def _mask(given: Any) -> Any:
    """With all four axes."""
    if given is None:
        return None
    ones = mx.sym.np.ones((1, 1, 1, 1))
    symbol = given if isinstance(given, Symbol) else _constant(given)
    return SymbolArray(mx.sym.np.where(symbol, ones, ones * 0) > 0, (None,) * 4, "bool")


def _whole(given: Any) -> Symbol:
    """Integers, int32; a graph that is given others does not run, as `bitwise_or` has none."""
    if isinstance(given, Symbol):
        with mx.name.Prefix("positions_and_starts_must_be_integers_"):  # as the operator says which it is when it fails
            return mx.sym.np.bitwise_or(given, 0).astype("int32")
    known = whole(np.asarray(host_values(given, arrays)))
    if known.dtype.kind not in "iu":
        raise TypeError(f"Positions in a hybridized block must be integers, got {known.dtype}: {known.ravel()[:3]} …")
    return _constant(known)


def _constant(given: Any) -> Symbol:
    return Graph.from_numpy(np.asarray(host_values(given, arrays))).symbol
