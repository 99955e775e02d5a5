"""The layers of the MXNet room."""

from __future__ import annotations

from typing import Any

import mxnet as mx
from mxnet.gluon import nn

from posenc_core import layers
from posenc_core.addition import Combine
from posenc_core.encodings import Additive, RotaryEncoding, Scoring
from posenc_core.layers.base import other_tables

from . import backend as arrays
from .base import Layer
from .symbolic import layers as traced


class PositionalEncoding(layers.Addition, Layer):
    """Adds (or appends) the rows of an additive encoding to tokens; without `encoding`, the paper's sinusoids.

    Args:
        num_hiddens: width of the encoding; of the tokens too, unless `combine="concat"`.
        dropout: probability that a number of the result is dropped in training.
        max_len: number of rows held from the start; eager calls beyond it grow the table.
        encoding: an additive encoding of `dim` `num_hiddens`.
        combine: `"add"`, or `"concat"` to append the columns.

    >>> mx.npx.set_np()
    >>> PositionalEncoding(4)(mx.np.zeros((1, 2, 4)))
    array([[[0.        , 1.        , 0.        , 1.        ],
            [0.84147096, 0.5403023 , 0.00999983, 0.99995   ]]])
    """

    def __init__(
        self,
        num_hiddens: int,
        dropout: float = 0.0,
        max_len: int = 1000,
        *,
        encoding: Additive | None = None,
        combine: Combine = "add",
    ) -> None:
        layers.check_dropout(dropout)
        super().__init__(layers.additive_for(num_hiddens, encoding, combine), max_len)
        self.combine = combine
        self.dropout = nn.Dropout(dropout)

    @property
    def P(self) -> mx.np.ndarray:  # noqa: N802
        """The table, `(1, max_len, num_hiddens)`, as it is held: to read, not to write."""
        return self.held_table[None]

    def __call__(self, x: Any, start: Any = 0, positions: Any = None) -> Any:
        """`x`, `(..., length, num_hiddens)`, with its positions; they count from `start`, or are given."""
        return super().__call__(x, start, positions)

    def forward(self, x: Any, start: Any, positions: Any) -> Any:
        if arrays.is_traced(x):
            result = traced.Adding(self).run(x, self.dtype, start, positions)
            return self.dropout(result) if self.dropout._rate else result
        if not self.in_graph(start, positions) or not x.size:
            result = self.added(x, start, positions)
            return self.dropout(result) if self.dropout._rate and mx.autograd.is_training() else result
        self.looked_up(x)  # raises, or grows the table
        return self.run_graph(x)

    def hybrid_forward(self, F: Any, x: Any, **_: Any) -> Any:  # noqa: N803
        return self.forward(x, 0, None)


class RotaryEmbedding(layers.Rotation, Layer):
    """Rotates queries and keys by the angles of their positions.

    Args:
        encoding: a rotary encoding.
        max_len: number of positions held from the start; eager calls beyond it grow the tables.

    >>> from posenc_core import Rotary
    >>> mx.npx.set_np()
    >>> rope = RotaryEmbedding(Rotary(head_dim=2, layout="half"))
    >>> rope(mx.np.ones((1, 1, 2, 2)))
    array([[[[ 1.        ,  1.        ],
             [-0.30116868,  1.3817732 ]]]])
    """

    def __init__(self, encoding: RotaryEncoding, *, max_len: int = 2048) -> None:
        layers.check_rotary(encoding)
        super().__init__(encoding, max_len)
        self.as_keys = "key_cos" in self._reg_params

    def __call__(
        self,
        q: Any,
        k: Any = None,
        start: Any = 0,
        positions: Any = None,
        seq_axis: int = -2,
        seq_len: int | None = None,
    ) -> Any:
        """What was given, `q` or `q` and `k`, rotated; `(batch, heads, length, head_dim)`, or as `seq_axis` says.

        `seq_len` is the length of the whole sequence, for scalings that depend on it. Where the encoding has several
        axes, `positions` are `(axes, length)` or `(axes, batch, length)`.
        """
        return super().__call__(q, k, start, positions, seq_axis, seq_len)

    def forward(self, q: Any, k: Any, start: Any, positions: Any, seq_axis: int, seq_len: int | None) -> Any:
        if arrays.is_traced(q):
            return self._in_graph_of_parent(q, k, start, positions, seq_axis, seq_len)
        other = self.encoding.at(seq_len) != self.encoding
        if other or self.as_keys or not self.in_graph(start, positions) or not q.size:
            return self.rotated(q, k, start, positions, seq_axis, seq_len)
        self.looked_up(q, k, seq_axis=seq_axis)  # raises, or grows the tables
        given = (_moved(mx.np, x, seq_axis, -2) for x in (q, k) if x is not None)
        turned = tuple(_moved(mx.np, self.run_graph(x), -2, seq_axis) for x in given)
        return turned[0] if k is None else turned

    def _in_graph_of_parent(
        self, q: Any, k: Any, start: Any, positions: Any, seq_axis: int, seq_len: int | None
    ) -> Any:
        encoding = self.encoding.at(seq_len)
        if encoding != self.encoding:
            raise ValueError(other_tables(encoding))
        given = [_moved(mx.sym.np, x, seq_axis, -2) for x in (q, k) if x is not None]
        turned = traced.Turning(self).run(tuple(given), self.dtype, start, positions)
        back = tuple(_moved(mx.sym.np, x, -2, seq_axis) for x in turned)
        return back[0] if k is None else back

    def hybrid_forward(self, F: Any, x: Any, **_: Any) -> Any:  # noqa: N803
        return self.forward(x, None, 0, None, -2, None)


def _moved(library: Any, x: Any, axis: int, to: int) -> Any:
    return x if axis == to else library.moveaxis(x, axis, to)


class AttentionBias(layers.Bias, Layer):
    """Adds to attention scores what a scoring encoding knows of the positions.

    Args:
        encoding: a scoring encoding.

    >>> from posenc_core import Alibi
    >>> mx.npx.set_np()
    >>> AttentionBias(Alibi(num_heads=1))(mx.np.zeros((1, 1, 2, 2)))
    array([[[[ 0.        , -0.00390625],
             [-0.00390625,  0.        ]]]])
    """

    def __init__(self, encoding: Scoring) -> None:
        layers.check_scoring(encoding)
        super().__init__(encoding)

    def __call__(
        self,
        scores: Any,
        start: Any = 0,
        query_positions: Any = None,
        key_positions: Any = None,
        q: Any = None,
        k: Any = None,
    ) -> Any:
        """`scores`, `(batch, heads, queries, keys)`, plus the bias; queries count from `start`, keys from 0.

        `q` and `k`, `(batch, heads, length, head_dim)`, are for encodings that look at them.
        """
        return super().__call__(scores, start, query_positions, key_positions, q, k)

    def forward(self, scores: Any, start: Any, query_positions: Any, key_positions: Any, q: Any, k: Any) -> Any:
        if arrays.is_traced(scores):
            positions = query_positions, key_positions
            return traced.Scoring(self).run(scores, (q, k), self.dtype, start, positions)
        if not self.in_graph(start, query_positions, key_positions) or not scores.size:
            return self.biased(scores, start, query_positions, key_positions, q, k)
        self.check(scores, q, k)
        return self.run_graph(*(x for x in (scores, q, k) if x is not None))

    def hybrid_forward(self, F: Any, scores: Any, q: Any = None, k: Any = None, **_: Any) -> Any:  # noqa: N803
        return self.forward(scores, 0, None, None, q, k)

    def values(self, attention: Any, start: Any = 0, query_positions: Any = None, key_positions: Any = None) -> Any:
        """What is added to the result of attention with these weights, `(batch, heads, queries, head_dim)`, if anything."""
        if not arrays.is_traced(attention):
            return super().values(attention, start, query_positions, key_positions)
        positions = query_positions, key_positions
        return traced.Scoring(self).run_values(attention, self.dtype, start, positions)
