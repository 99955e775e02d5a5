"""The layers of the NumPy room. They evaluate only: dropout, which acts in training, is checked and not applied."""

from __future__ import annotations

from typing import Any

import numpy as np

from posenc_core import layers
from posenc_core.addition import Combine
from posenc_core.encodings import Additive, Encoding, Rotary, Scoring
from posenc_core.encodings.encoding import Tables
from posenc_core.lookup import Holder, Room

from . import arrays


class Layer(Holder):
    """Holds an encoding: its constants and its parameters as arrays."""

    room: Room = arrays

    def __init__(self, encoding: Encoding, max_len: int = 0) -> None:
        self.encoding = encoding
        self.held: dict[str, Any] = {}
        self.hold(encoding.constants(max_len))
        for name, parameter in encoding.parameters().items():
            drawn = np.random.default_rng().normal(scale=parameter.std, size=parameter.shape)
            self.hold({name: drawn.astype(np.float32)})

    def hold(self, constants: Tables) -> None:
        for name, constant in constants.items():
            self.held[name] = self.room.from_numpy(constant)


class PositionalEncoding(layers.Addition, Layer):
    """Adds (or appends) the rows of an additive encoding to tokens; without `encoding`, the paper's sinusoids.

    Args:
        num_hiddens: width of the encoding; of the tokens too, unless `combine="concat"`.
        dropout: checked, and not applied.
        max_len: number of rows held from the start; calls beyond it grow the table.
        encoding: an additive encoding of `dim` `num_hiddens`.
        combine: `"add"`, or `"concat"` to append the columns.

    >>> PositionalEncoding(4)(np.zeros((1, 2, 4), np.float32)).round(4)
    array([[[0.    , 1.    , 0.    , 1.    ],
            [0.8415, 0.5403, 0.01  , 1.    ]]], dtype=float32)
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

    @property
    def P(self) -> Any:  # noqa: N802
        """The table, `(1, max_len, num_hiddens)`, as it is held: to read, not to write."""
        return self.tables[0][None, ...]

    def __call__(self, x: Any, start: Any = 0, positions: Any = None) -> Any:
        """`x`, `(..., length, num_hiddens)`, with its positions; they count from `start`, or are given."""
        return self.added(x, start, positions)


class RotaryEmbedding(layers.Rotation, Layer):
    """Rotates queries and keys by the angles of their positions.

    Args:
        encoding: a `Rotary`.
        max_len: number of positions held from the start; calls beyond it grow the tables.

    >>> rope = RotaryEmbedding(Rotary(head_dim=2, layout="half"))
    >>> rope(np.ones((1, 1, 2, 2), np.float32)).round(4)
    array([[[[ 1.    ,  1.    ],
             [-0.3012,  1.3818]]]], dtype=float32)
    """

    def __init__(self, encoding: Rotary, *, max_len: int = 2048) -> None:
        layers.check_kind(encoding, Rotary)
        super().__init__(encoding, max_len)

    def __call__(self, q: Any, k: Any = None, start: Any = 0, positions: Any = None, seq_axis: int = -2) -> Any:
        """What was given, `q` or `q` and `k`, rotated; `(batch, heads, length, head_dim)`, or as `seq_axis` says."""
        return self.rotated(q, k, start, positions, seq_axis)


class AttentionBias(layers.Bias, Layer):
    """Adds to attention scores what a scoring encoding knows of the positions.

    Args:
        encoding: a scoring encoding.

    >>> from posenc_core import Alibi
    >>> AttentionBias(Alibi(num_heads=1))(np.zeros((1, 2, 2), np.float32))
    array([[[ 0.        , -0.00390625],
            [-0.00390625,  0.        ]]], dtype=float32)
    """

    def __init__(self, encoding: Scoring) -> None:
        layers.check_kind(encoding, Scoring)
        super().__init__(encoding)

    def __call__(self, scores: Any, start: Any = 0, query_positions: Any = None, key_positions: Any = None) -> Any:
        """`scores`, `(batch, heads, queries, keys)`, plus the bias; queries count from `start`, keys from 0."""
        return self.biased(scores, start, query_positions, key_positions)


class MultiHeadAttention(layers.Attention):
    """Multi-head attention, as in d2l, with the positions inside where a rotary or scoring encoding is given.

    Args:
        num_hiddens: width of queries, keys, values and result.
        num_heads: number of heads; divides `num_hiddens`.
        dropout: checked, and not applied.
        bias: whether the projections have a bias.
        position: a rotary or scoring encoding.

    >>> tokens = np.ones((2, 4, 100), np.float32)
    >>> MultiHeadAttention(100, 5, 0.5)(tokens, tokens, tokens, np.array([3, 2])).shape
    (2, 4, 100)
    """

    room: Room = arrays
    rotary_layer = RotaryEmbedding
    scoring_layer = AttentionBias

    def __init__(
        self,
        num_hiddens: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = False,
        *,
        position: Rotary | Scoring | None = None,
    ) -> None:
        layers.check_attention(num_hiddens, num_heads, position)
        layers.check_dropout(dropout)
        self.num_hiddens, self.num_heads = num_hiddens, num_heads
        self.W_q = Linear(num_hiddens, self.room, bias=bias)
        self.W_k = Linear(num_hiddens, self.room, bias=bias)
        self.W_v = Linear(num_hiddens, self.room, bias=bias)
        self.W_o = Linear(num_hiddens, self.room, bias=bias)
        self.rotary = self.rotary_layer(position) if isinstance(position, Rotary) else None
        self.scoring = self.scoring_layer(position) if isinstance(position, Scoring) else None

    def __call__(self, queries: Any, keys: Any, values: Any, valid_lens: Any = None) -> Any:
        """`(batch, queries, num_hiddens)`; `valid_lens`, `(batch,)` or `(batch, queries)`, says how many keys count."""
        return self.attended(queries, keys, values, valid_lens, lambda weights: weights)


class Linear:
    """A projection: `x @ kernel + bias`."""

    def __init__(self, width: int, room: Room, *, bias: bool) -> None:
        drawn = np.random.default_rng().uniform(-1, 1, (width, width)) / np.sqrt(width)
        self.kernel = room.from_numpy(drawn.astype(np.float32))
        self.bias = room.from_numpy(np.zeros(width, np.float32)) if bias else None

    def __call__(self, x: Any) -> Any:
        y = x @ self.kernel
        return y if self.bias is None else y + self.bias
