"""The layers of the Paddle room."""

from __future__ import annotations

from typing import Any

from paddle import Tensor, nn

from posenc_core import layers
from posenc_core.addition import Combine
from posenc_core.encodings import Additive, ContentScoring, RotaryEncoding, Scoring

from . import backend as arrays
from .base import Layer


class PositionalEncoding(layers.Addition, Layer):
    """Adds (or appends) the rows of an additive encoding to tokens; without `encoding`, the paper's sinusoids.

    Args:
        num_hiddens: width of the encoding; of the tokens too, unless `combine="concat"`.
        dropout: probability that a number of the result is dropped in training.
        max_len: number of rows held from the start; eager calls beyond it grow the table.
        encoding: an additive encoding of `dim` `num_hiddens`.
        combine: `"add"`, or `"concat"` to append the columns.

    >>> import paddle
    >>> PositionalEncoding(4)(paddle.zeros([1, 2, 4])).numpy()
    array([[[0.        , 1.        , 0.        , 1.        ],
            [0.84147096, 0.5403023 , 0.00999983, 0.99995   ]]], dtype=float32)
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
    def P(self) -> Tensor:  # noqa: N802
        """The table, `(1, max_len, num_hiddens)`, as it is held: to read, not to write."""
        return self.held_table[None]

    def forward(self, x: Tensor, start: Any = 0, positions: Any = None) -> Tensor:
        """`x`, `(..., length, num_hiddens)`, with its positions; they count from `start`, or are given."""
        x = arrays.sized(x, {-1: self.encoding.dim}) if self.combine == "add" else x
        result = self.added(x, start, positions)
        return self.dropout(result) if self.training else result  # which copies, even where it does nothing


class RotaryEmbedding(layers.Rotation, Layer):
    """Rotates queries and keys by the angles of their positions.

    Args:
        encoding: a rotary encoding.
        max_len: number of positions held from the start; eager calls beyond it grow the tables.

    >>> import paddle
    >>> from posenc_core import Rotary
    >>> rope = RotaryEmbedding(Rotary(head_dim=2, layout="half"))
    >>> rope(paddle.ones([1, 1, 2, 2])).numpy()
    array([[[[ 1.        ,  1.        ],
             [-0.30116868,  1.3817732 ]]]], dtype=float32)
    """

    def __init__(self, encoding: RotaryEncoding, *, max_len: int = 2048) -> None:
        layers.check_rotary(encoding)
        super().__init__(encoding, max_len)

    def forward(
        self,
        q: Tensor,
        k: Tensor | None = None,
        start: Any = 0,
        positions: Any = None,
        seq_axis: int = -2,
        seq_len: int | None = None,
    ) -> Any:
        """What was given, `q` or `q` and `k`, rotated; `(batch, heads, length, head_dim)`, or as `seq_axis` says.

        `seq_len` is the length of the whole sequence, for scalings that depend on it. Where the encoding has several
        axes, `positions` are `(axes, length)` or `(axes, batch, length)`.
        """
        q, k = (arrays.sized(x, {-1: self.encoding.head_dim}) for x in (q, k))
        return self.rotated(q, k, start, positions, seq_axis, seq_len)


class AttentionBias(layers.Bias, Layer):
    """Adds to attention scores what a scoring encoding knows of the positions.

    Args:
        encoding: a scoring encoding.

    >>> import paddle
    >>> from posenc_core import Alibi
    >>> AttentionBias(Alibi(num_heads=1))(paddle.zeros([1, 1, 2, 2])).numpy()
    array([[[[ 0.        , -0.00390625],
             [-0.00390625,  0.        ]]]], dtype=float32)
    """

    def __init__(self, encoding: Scoring) -> None:
        layers.check_scoring(encoding)
        super().__init__(encoding)

    def forward(
        self,
        scores: Tensor,
        start: Any = 0,
        query_positions: Any = None,
        key_positions: Any = None,
        q: Tensor | None = None,
        k: Tensor | None = None,
    ) -> Tensor:
        """`scores`, `(batch, heads, queries, keys)`, plus the bias; queries count from `start`, keys from 0.

        `q` and `k`, `(batch, heads, length, head_dim)`, are for encodings that look at them.
        """
        scores = arrays.sized(scores, {-3: self.encoding.num_heads})
        if isinstance(self.encoding, ContentScoring):
            q, k = (arrays.sized(x, {-1: self.encoding.head_dim}) for x in (q, k))
        return self.biased(scores, start, query_positions, key_positions, q, k)
