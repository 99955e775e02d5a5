"""The layers of the PyTorch room."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from posenc_core import layers
from posenc_core.addition import Combine
from posenc_core.encodings import Additive, RotaryEncoding, Scoring

from . import onnx as operators
from .base import Layer
from .distributed import beside, replicating


class PositionalEncoding(layers.Addition, Layer):
    """Adds (or appends) the rows of an additive encoding to tokens; without `encoding`, the paper's sinusoids.

    Args:
        num_hiddens: width of the encoding; of the tokens too, unless `combine="concat"`.
        dropout: probability that a number of the result is dropped in training.
        max_len: number of rows held from the start; eager calls beyond it grow the table.
        encoding: an additive encoding of `dim` `num_hiddens`.
        combine: `"add"`, or `"concat"` to append the columns.
        persistent: whether the table is a part of `state_dict`, and of plain dicts and files made of that. Loading compares
            it with the layer's own, so that a state of another encoding is told even where metadata were lost.

    >>> import torch
    >>> PositionalEncoding(4)(torch.zeros(1, 2, 4))
    tensor([[[0.0000, 1.0000, 0.0000, 1.0000],
             [0.8415, 0.5403, 0.0100, 0.9999]]])
    """

    def __init__(
        self,
        num_hiddens: int,
        dropout: float = 0.0,
        max_len: int = 1000,
        *,
        encoding: Additive | None = None,
        combine: Combine = "add",
        persistent: bool = False,
    ) -> None:
        layers.check_dropout(dropout)
        super().__init__(layers.additive_for(num_hiddens, encoding, combine), max_len, persistent=persistent)
        self.combine = combine
        self.dropout = nn.Dropout(dropout)

    @property
    def said(self) -> dict[str, Any]:
        return {**super().said, "combine": self.combine}

    @property
    def P(self) -> Tensor:  # noqa: N802
        """The table, `(1, max_len, num_hiddens)`, as it is held: to read, not to write."""
        return self.held_table[None]

    def looked_up(self, x: Tensor, start: Any = 0, positions: Any = None) -> Tensor:
        return beside(super().looked_up(x, start, positions), x)

    def __dir__(self) -> list[str]:
        """Without a table where there is none: `torch.jit.trace` asks for all that is listed."""
        return [name for name in super().__dir__() if name not in ("P", "held_table") or self.tables]

    def forward(self, x: Tensor, start: Any = 0, positions: Any = None) -> Tensor:
        """`x`, `(..., length, num_hiddens)`, with its positions; they count from `start`, or are given."""
        return self.dropout(self.added(x, start, positions))


class RotaryEmbedding(layers.Rotation, Layer):
    """Rotates queries and keys by the angles of their positions.

    Args:
        encoding: a rotary encoding.
        max_len: number of positions held from the start; eager calls beyond it grow the tables.
        persistent: whether the tables are a part of `state_dict`, and of plain dicts and files made of that. Loading compares
            them with the layer's own, so that a state of another encoding is told even where metadata were lost.

    >>> import torch
    >>> from posenc_core import Rotary
    >>> rope = RotaryEmbedding(Rotary(head_dim=2, layout="half"))
    >>> rope(torch.ones(1, 1, 2, 2))
    tensor([[[[ 1.0000,  1.0000],
              [-0.3012,  1.3818]]]])
    """

    def __init__(self, encoding: RotaryEncoding, *, max_len: int = 2048, persistent: bool = False) -> None:
        layers.check_rotary(encoding)
        super().__init__(encoding, max_len, persistent=persistent)

    def looked_up(self, q: Tensor, *rest: Any) -> tuple[Tensor, ...]:
        tables = super().looked_up(q, *rest)
        return tables if type(q) is Tensor else tuple(beside(rows, q) for rows in tables)

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
        return self.rotated(q, k, start, positions, seq_axis, seq_len)

    def turned_by(self, x: Tensor, tables: tuple[Any, ...], seq_axis: int) -> Tensor:
        if operators.fits(x, self.encoding.pairing, seq_axis):
            cos, sin = tables
            return operators.turned(x, cos, sin, self.encoding.pairing)
        return super().turned_by(x, tables, seq_axis)


class AttentionBias(layers.Bias, Layer):
    """Adds to attention scores what a scoring encoding knows of the positions.

    Args:
        encoding: a scoring encoding.
        persistent: whether what never changes is a part of `state_dict`, and of plain dicts and files made of that. Loading
            compares it with the layer's own, so that a state of another encoding is told even where metadata were lost.

    >>> import torch
    >>> from posenc_core import Alibi
    >>> AttentionBias(Alibi(num_heads=1))(torch.zeros(1, 1, 2, 2))
    tensor([[[[ 0.0000, -0.0039],
              [-0.0039,  0.0000]]]])
    """

    def __init__(self, encoding: Scoring, *, persistent: bool = False) -> None:
        layers.check_scoring(encoding)
        super().__init__(encoding, persistent=persistent)

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
        self.check_array("scores", scores)
        with replicating(scores):
            if not torch.is_autocast_enabled(scores.device.type):
                return self.biased(scores, start, query_positions, key_positions, q, k)
            with torch.autocast(scores.device.type, enabled=False):  # which would multiply in half precision
                return self.biased(scores, start, query_positions, key_positions, q, k)
