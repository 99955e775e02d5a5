"""The layers of the Keras room."""

from __future__ import annotations

from typing import Any

import keras

from posenc_core import layers
from posenc_core.addition import Combine
from posenc_core.encodings import Additive, RotaryEncoding, Scoring

from .base import Layer, Shape, Tensor, register


@register
class PositionalEncoding(layers.Addition, Layer):
    """Adds (or appends) the rows of an additive encoding to tokens; without `encoding`, the paper's sinusoids.

    Args:
        num_hiddens: width of the encoding; of the tokens too, unless `combine="concat"`.
        dropout: probability that a number of the result is dropped in training.
        max_len: number of rows held from the start; eager calls beyond it grow the table.
        encoding: an additive encoding of `dim` `num_hiddens`.
        combine: `"add"`, or `"concat"` to append the columns.
        options: those of every Keras layer: `name`, `dtype`, `trainable`.

    >>> keras.ops.convert_to_numpy(PositionalEncoding(4)(keras.ops.zeros((1, 2, 4))))
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
        **options: Any,
    ) -> None:
        layers.check_dropout(dropout)
        super().__init__(layers.additive_for(num_hiddens, encoding, combine), max_len, **options)
        self.combine = combine
        self.dropout = keras.layers.Dropout(dropout, autocast=False)

    @property
    def P(self) -> Tensor:  # noqa: N802
        """The table, `(1, max_len, num_hiddens)`, as it is held: to read, not to write."""
        return self.held_table[None]

    def call(self, x: Tensor, start: Any = 0, positions: Any = None, training: bool | None = None) -> Tensor:
        """`x`, `(..., length, num_hiddens)`, with its positions; they count from `start`, or are given."""
        return self.dropout(self.added(self.tokens(x), start, positions), training=training)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return (*input_shape[:-1], input_shape[-1] + (self.combine == "concat") * self.encoding.dim)

    def get_config(self) -> dict[str, Any]:
        sizes = {"num_hiddens": self.encoding.dim, "dropout": self.dropout.rate, "max_len": self.max_len}
        return {**super().get_config(), **sizes, "combine": self.combine}


@register
class RotaryEmbedding(layers.Rotation, Layer):
    """Rotates queries and keys by the angles of their positions.

    Args:
        encoding: a rotary encoding.
        max_len: number of positions held from the start; eager calls beyond it grow the tables.
        options: those of every Keras layer: `name`, `dtype`, `trainable`.

    >>> from posenc_core import Rotary
    >>> rope = RotaryEmbedding(Rotary(head_dim=2, layout="half"))
    >>> keras.ops.convert_to_numpy(rope(keras.ops.ones((1, 1, 2, 2))))
    array([[[[ 1.        ,  1.        ],
             [-0.30116868,  1.3817732 ]]]], dtype=float32)
    """

    def __init__(self, encoding: RotaryEncoding, *, max_len: int = 2048, **options: Any) -> None:
        layers.check_rotary(encoding)
        super().__init__(encoding, max_len, **options)

    def call(
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
        return self.rotated(self.tokens(q), None if k is None else self.tokens(k), start, positions, seq_axis, seq_len)

    def compute_output_shape(self, q_shape: Shape, k_shape: Shape | None = None) -> Any:
        return q_shape if k_shape is None else (q_shape, k_shape)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "max_len": self.max_len}


@register
class AttentionBias(layers.Bias, Layer):
    """Adds to attention scores what a scoring encoding knows of the positions.

    Args:
        encoding: a scoring encoding.
        options: those of every Keras layer: `name`, `dtype`, `trainable`.

    >>> from posenc_core import Alibi
    >>> keras.ops.convert_to_numpy(AttentionBias(Alibi(num_heads=1))(keras.ops.zeros((1, 1, 2, 2))))
    array([[[[ 0.        , -0.00390625],
             [-0.00390625,  0.        ]]]], dtype=float32)
    """

    def __init__(self, encoding: Scoring, **options: Any) -> None:
        layers.check_scoring(encoding)
        super().__init__(encoding, **options)

    def call(
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
        content = [None if x is None else self.tokens(x) for x in (q, k)]
        return self.biased(self.tokens(scores), start, query_positions, key_positions, *content)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return input_shape
