"""The layers of the MXNet room."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import mxnet as mx
import numpy as np
from mxnet.gluon import nn

from posenc_core import layers
from posenc_core.addition import Combine
from posenc_core.attention import weigh
from posenc_core.encodings import Additive, Rotary, Scoring
from posenc_core.lookup import host_values
from posenc_core.rotation import full_width, partners

from . import arrays, graph
from . import namespace as xp
from .blocks import Block, Layer


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
        return self.tables[0][None]

    def __call__(self, x: Any, start: Any = 0, positions: Any = None) -> Any:
        """`x`, `(..., length, num_hiddens)`, with its positions; they count from `start`, or are given."""
        return super().__call__(x, start, positions)

    def forward(self, x: Any, start: Any, positions: Any) -> Any:
        if not self.in_graph(x, start, positions):
            return self.dropout(self.added(x, start, positions))
        if not arrays.is_traced(x):
            self.looked_up(x)
        return self.run_graph(x, start)

    def hybrid_forward(self, F: Any, x: Any, start: int = 0, *, table: Any) -> Any:  # noqa: N803
        rows = graph.rows(table, x, start)
        return self.dropout(x + rows if self.combine == "add" else graph.appended(x, rows))


class RotaryEmbedding(layers.Rotation, Layer):
    """Rotates queries and keys by the angles of their positions.

    Args:
        encoding: a `Rotary`.
        max_len: number of positions held from the start; eager calls beyond it grow the tables.

    >>> from posenc_core import Rotary
    >>> mx.npx.set_np()
    >>> rope = RotaryEmbedding(Rotary(head_dim=2, layout="half"))
    >>> rope(mx.np.ones((1, 1, 2, 2)))
    array([[[[ 1.        ,  1.        ],
             [-0.30116868,  1.3817732 ]]]])
    """

    def __init__(self, encoding: Rotary, *, max_len: int = 2048) -> None:
        layers.check_kind(encoding, Rotary)
        super().__init__(encoding, max_len)
        count = self.tables[0].shape[-1]
        self.turning = 2 * count  # channels
        pairs, signs = full_width(np.arange(count), np.ones(count, np.float32), self.turning, layout=encoding.layout)
        self.hold({"pairs": pairs, "signs": signs, "partner": partners(self.turning, count, layout=encoding.layout)})

    @property
    def tables(self) -> tuple[Any, ...]:
        return self.cos.data(), self.sin.data()

    def __call__(self, q: Any, k: Any = None, start: Any = 0, positions: Any = None, seq_axis: int = -2) -> Any:
        """What was given, `q` or `q` and `k`, rotated; `(batch, heads, length, head_dim)`, or as `seq_axis` says."""
        return super().__call__(q, k, start, positions, seq_axis)

    def forward(self, q: Any, k: Any, start: Any, positions: Any, seq_axis: int) -> Any:
        if not self.in_graph(q, start, positions):
            return self.rotated(q, k, start, positions, seq_axis)
        if not arrays.is_traced(q):
            self.looked_up(q, k, seq_axis=seq_axis)
        turned = self._turned_by_graph(q, start, seq_axis)
        return turned if k is None else (turned, self._turned_by_graph(k, start, seq_axis))

    def _turned_by_graph(self, x: Any, start: int, seq_axis: int) -> Any:
        if seq_axis == -2:
            return self.run_graph(x, start)
        library = mx.sym.np if arrays.is_traced(x) else mx.np
        return library.swapaxes(self.run_graph(library.swapaxes(x, seq_axis, -2), start), seq_axis, -2)

    def hybrid_forward(self, F: Any, x: Any, start: int = 0, **weights: Any) -> Any:  # noqa: N803
        cos, sin = (graph.rows(weights.pop(name), x, start) for name in ("cos", "sin"))
        if self.turning == self.encoding.head_dim:
            return graph.rotated(x, cos, sin, **weights)
        turned = graph.rotated(graph.channels(x, 0, self.turning), cos, sin, **weights)
        return xp.concat([turned, graph.channels(x, self.turning, None)], axis=-1)


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
        layers.check_kind(encoding, Scoring)
        super().__init__(encoding)

    def __call__(self, scores: Any, start: Any = 0, query_positions: Any = None, key_positions: Any = None) -> Any:
        """`scores`, `(batch, heads, queries, keys)`, plus the bias; queries count from `start`, keys from 0."""
        return super().__call__(scores, start, query_positions, key_positions)

    def forward(self, scores: Any, start: Any, query_positions: Any, key_positions: Any) -> Any:
        if not self.in_graph(scores, start, query_positions, key_positions):
            return self.biased(scores, start, query_positions, key_positions)
        if not arrays.is_traced(scores):
            self.check(scores)
        return self.run_graph(scores, start)

    def hybrid_forward(self, F: Any, scores: Any, start: int = 0, **weights: Any) -> Any:  # noqa: N803
        queries, keys = graph.counted(scores, axis=-2) + start, graph.counted(scores, axis=-1)
        return scores + self.encoding.score(weights, queries, keys)

    def of(self, q: Any, k: Any) -> Any:
        """`between` for the queries and keys of a graph."""
        weights = {name: parameter.var() for name, parameter in self._reg_params.items()}
        return self.encoding.score(weights, graph.counted(q, axis=-2), graph.counted(k, axis=-2))


class MultiHeadAttention(layers.Attention, Block):
    """Multi-head attention, as in d2l, with the positions inside where a rotary or scoring encoding is given.

    Args:
        num_hiddens: width of queries, keys, values and result.
        num_heads: number of heads; divides `num_hiddens`.
        dropout: probability that an attention weight is dropped in training.
        bias: whether the projections have a bias.
        position: a rotary or scoring encoding.

    >>> mx.npx.set_np()
    >>> attention = MultiHeadAttention(100, 5, 0.5)
    >>> attention.initialize()
    >>> attention(*[mx.np.ones((2, 4, 100))] * 3, mx.np.array([3, 2])).shape
    (2, 4, 100)
    """

    room = arrays
    rotary: RotaryEmbedding | None
    scoring: AttentionBias | None

    def __init__(
        self,
        num_hiddens: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = False,
        *,
        position: Rotary | Scoring | None = None,
    ) -> None:
        super().__init__()
        layers.check_attention(num_hiddens, num_heads, position)
        layers.check_dropout(dropout)
        self.num_hiddens, self.num_heads = num_hiddens, num_heads
        self.head_dim = num_hiddens // num_heads
        linear = partial(nn.Dense, num_hiddens, use_bias=bias, flatten=False, in_units=num_hiddens)
        with self.name_scope():
            self.W_q, self.W_k, self.W_v, self.W_o = linear(), linear(), linear(), linear()
            self.dropout = nn.Dropout(dropout)
            self.rotary = RotaryEmbedding(position) if isinstance(position, Rotary) else None
            self.scoring = AttentionBias(position) if isinstance(position, Scoring) else None

    def __call__(self, queries: Any, keys: Any, values: Any, valid_lens: Any = None) -> Any:
        """`(batch, queries, num_hiddens)`; `valid_lens`, `(batch,)` or `(batch, queries)`, says how many keys count."""
        return super().__call__(queries, keys, values, valid_lens)

    def forward(self, queries: Any, keys: Any, values: Any, valid_lens: Any) -> Any:
        if arrays.is_traced(queries):
            return super().forward(queries, keys, values, valid_lens)
        if not (self._active and queries.size):
            return self.attended(queries, keys, values, valid_lens, self.dropout)
        return super().forward(queries, keys, values, self._checked(queries, keys, values, valid_lens))

    def _checked(self, queries: Any, keys: Any, values: Any, valid_lens: Any) -> mx.np.ndarray:
        """Lengths for the graph, which has them always, as it is made once for calls with and without them."""
        self.check(queries, keys, values)
        if self.rotary is not None:
            for tokens in (queries, keys):
                self.rotary.rows(tokens)  # grows the tables
        lengths: Any = np.full(len(keys), keys.shape[1]) if valid_lens is None else host_values(valid_lens, arrays)
        layers.check_valid_lens(lengths.shape, lengths, (len(queries), queries.shape[1], keys.shape[1]))
        return arrays.from_numpy(lengths.astype(np.float32), like=queries)

    def hybrid_forward(self, F: Any, queries: Any, keys: Any, values: Any, valid_lens: Any = None) -> Any:  # noqa: N803
        projected = self.W_q(queries), self.W_k(keys), self.W_v(values)
        q, k, v = (graph.split_heads(x, self.num_heads, self.head_dim) for x in projected)
        if self.rotary is not None:
            q, k = self.rotary(q), self.rotary(k)
        bias = None if self.scoring is None else self.scoring.of(q, k)
        mask = None if valid_lens is None else graph.visible(valid_lens, q, k)
        attend = partial(self._attend, bias=bias, mask=mask)
        return self.W_o(graph.merge_heads(self.in_float32(attend, q, k, v)))

    def _attend(self, q: Any, k: Any, v: Any, **seen: Any) -> Any:
        return xp.matmul(self.dropout(weigh(q, k, scale=1 / math.sqrt(self.head_dim), **seen)), v)
