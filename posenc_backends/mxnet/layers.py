"""The layers of the MXNet room."""

from __future__ import annotations

from typing import Any

import mxnet as mx
from mxnet.gluon import nn

from posenc_core import layers
from posenc_core.addition import Combine
from posenc_core.encodings import (
    Additive,
    ContentScoring,
    LearnedRotary,
    LearnedSinusoidal,
    PositionScoring,
    Rotating,
    Scoring,
)
from posenc_core.lookup import other_tables
from posenc_core.rotation import routes

from . import arrays, graph
from .holder import Layer


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
        if not self.in_graph(x, start, positions):
            return self.dropout(self.added(x, start, positions))
        self.check_start(positions)
        if not arrays.is_traced(x):
            self.looked_up(x)
        return self.run_graph(x, start)

    def hybrid_forward(self, F: Any, x: Any, start: int = 0, **weights: Any) -> Any:  # noqa: N803
        if isinstance(self.encoding, LearnedSinusoidal):
            (rows,) = self.encoding.rows_of(weights, graph.counted(x, axis=-2) + start)
        else:
            rows = graph.rows(weights["table"], x, start + self.encoding.offset)
        return self.dropout(x + rows if self.combine == "add" else graph.appended(x, rows))


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

    def __init__(self, encoding: Rotating, *, max_len: int = 2048) -> None:
        layers.check_rotating(encoding)
        super().__init__(encoding, max_len)
        self.routes = routes(encoding.head_dim, encoding.pairs, encoding.pairing)
        self.as_keys = ("key_",) if "key_cos" in self._reg_params else ()
        self.hold(graph.indices(self.routes))

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
        if not self.in_graph(q, start, positions) or self.computes(q, seq_len):
            return self.rotated(q, k, start, positions, seq_axis, seq_len)
        self.check_start(positions)
        if not arrays.is_traced(q):
            self.looked_up(q, k, seq_axis=seq_axis)
        turned = self._turned_by_graph(q, start, seq_axis)
        return turned if k is None else (turned, self._turned_by_graph(k, start, seq_axis, *self.as_keys))

    def computes(self, q: Any, seq_len: int | None) -> bool:
        """Whether a call needs more than the one pair of tables that a graph has."""
        encoding = self.encoding.at(seq_len)
        other = encoding != self.encoding
        if other and arrays.is_traced(q):
            raise ValueError(other_tables(encoding))
        return other or (bool(self.as_keys) and not arrays.is_traced(q))

    def _turned_by_graph(self, x: Any, start: int, seq_axis: int, prefix: str = "") -> Any:
        if seq_axis == -2:
            return self.run_graph(x, start, prefix)
        library = mx.sym.np if arrays.is_traced(x) else mx.np
        return library.swapaxes(self.run_graph(library.swapaxes(x, seq_axis, -2), start, prefix), seq_axis, -2)

    def hybrid_forward(self, F: Any, x: Any, start: int = 0, prefix: str = "", **weights: Any) -> Any:  # noqa: N803
        if isinstance(self.encoding, LearnedRotary):
            cos, sin = self.encoding.rows_of(weights, graph.counted(x, axis=-2) + start)
        else:
            cos, sin = (graph.rows(weights[prefix + name], x, start) for name in ("cos", "sin"))
        return graph.rotated(x, cos, sin, weights, self.routes)


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
        in_graph = self.in_graph(scores, start, query_positions, key_positions)
        if not in_graph or (isinstance(self.encoding, ContentScoring) and not arrays.is_traced(scores)):
            return self.biased(scores, start, query_positions, key_positions, q, k)
        if not arrays.is_traced(scores):
            self.check(scores, q, k)
        return self.run_graph(scores, start)

    def hybrid_forward(self, F: Any, scores: Any, start: int = 0, **weights: Any) -> Any:  # noqa: N803
        return scores + self._score(weights, graph.counted(scores, axis=-2) + start, graph.counted(scores, axis=-1))

    def of(self, q: Any, k: Any) -> Any:
        """What is added to the scores of the queries and keys of a graph."""
        weights = {name: parameter.var() for name, parameter in self._reg_params.items()}
        return self._score(weights, graph.counted(q, axis=-2), graph.counted(k, axis=-2))

    def _score(self, weights: dict[str, Any], queries: Any, keys: Any) -> Any:
        """The score that a graph computes, without a shape, from positions alone."""
        if isinstance(self.encoding, PositionScoring):
            return self.encoding.score(weights, queries, keys)
        raise ValueError(
            f"{self.encoding!r} needs the sizes of queries and keys, which a hybridized block does not tell; "
            "call the layer from a block that is not hybridized."
        )
