"""The layers of the PyTorch room."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from posenc_core import layers
from posenc_core.addition import Combine
from posenc_core.encodings import Additive, Encoding, Rotary, Scoring
from posenc_core.encodings.encoding import Tables
from posenc_core.lookup import Holder, Host

from . import arrays


class Layer(Holder, nn.Module):
    """Holds an encoding: its constants as float32 buffers that no cast reaches, its parameters as parameters."""

    room = arrays
    _buffers: dict[str, Any]

    def __init__(self, encoding: Encoding, max_len: int = 0) -> None:
        super().__init__()
        self.encoding = encoding
        self.hold(encoding.constants(max_len))
        for name, parameter in encoding.parameters().items():
            self.register_parameter(name, nn.Parameter(torch.randn(parameter.shape) * parameter.std))

    def hold(self, constants: Tables) -> None:
        for name, constant in constants.items():
            self.register_buffer(name, arrays.from_numpy(constant, like=self._buffers.get(name)), persistent=False)

    @property
    def held(self) -> dict[str, Any]:
        return {**self._buffers, **self._parameters}

    @torch.compiler.disable
    def exact_rows(self, positions: Host) -> Tables:
        return super().exact_rows(positions)

    def extra_repr(self) -> str:
        return repr(self.encoding)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Layer:
        """Follow moves, not casts: `fn` is tried on no rows to learn the device that it leads to."""
        held, self._buffers = self._buffers, {}
        super()._apply(fn, recurse)
        for name, table in held.items():
            device = fn(table[:0]).device
            lost = table.is_meta and device.type != "meta"
            known = arrays.from_numpy(self.encoding.constants(len(table))[name]) if lost else table
            held[name] = known.to(device)
        self._buffers = held
        return self


class PositionalEncoding(layers.Addition, Layer):
    """Adds (or appends) the rows of an additive encoding to tokens; without `encoding`, the paper's sinusoids.

    Args:
        num_hiddens: width of the encoding; of the tokens too, unless `combine="concat"`.
        dropout: probability that a number of the result is dropped in training.
        max_len: number of rows held from the start; eager calls beyond it grow the table.
        encoding: an additive encoding of `dim` `num_hiddens`.
        combine: `"add"`, or `"concat"` to append the columns.

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
    ) -> None:
        layers.check_dropout(dropout)
        super().__init__(layers.additive_for(num_hiddens, encoding, combine), max_len)
        self.combine = combine
        self.dropout = nn.Dropout(dropout)

    @property
    def P(self) -> Tensor:  # noqa: N802
        """The table, `(1, max_len, num_hiddens)`, as it is held: to read, not to write."""
        return self.tables[0][None]

    def forward(self, x: Tensor, start: Any = 0, positions: Any = None) -> Tensor:
        """`x`, `(..., length, num_hiddens)`, with its positions; they count from `start`, or are given."""
        return self.dropout(self.added(x, start, positions))


class RotaryEmbedding(layers.Rotation, Layer):
    """Rotates queries and keys by the angles of their positions.

    Args:
        encoding: a `Rotary`.
        max_len: number of positions held from the start; eager calls beyond it grow the tables.

    >>> rope = RotaryEmbedding(Rotary(head_dim=2, layout="half"))
    >>> rope(torch.ones(1, 1, 2, 2))
    tensor([[[[ 1.0000,  1.0000],
              [-0.3012,  1.3818]]]])
    """

    def __init__(self, encoding: Rotary, *, max_len: int = 2048) -> None:
        layers.check_kind(encoding, Rotary)
        super().__init__(encoding, max_len)

    def forward(
        self, q: Tensor, k: Tensor | None = None, start: Any = 0, positions: Any = None, seq_axis: int = -2
    ) -> Any:
        """What was given, `q` or `q` and `k`, rotated; `(batch, heads, length, head_dim)`, or as `seq_axis` says."""
        return self.rotated(q, k, start, positions, seq_axis)


class AttentionBias(layers.Bias, Layer):
    """Adds to attention scores what a scoring encoding knows of the positions.

    Args:
        encoding: a scoring encoding.

    >>> from posenc_core import Alibi
    >>> AttentionBias(Alibi(num_heads=1))(torch.zeros(1, 1, 2, 2))
    tensor([[[[ 0.0000, -0.0039],
              [-0.0039,  0.0000]]]])
    """

    def __init__(self, encoding: Scoring) -> None:
        layers.check_kind(encoding, Scoring)
        super().__init__(encoding)

    def forward(self, scores: Tensor, start: Any = 0, query_positions: Any = None, key_positions: Any = None) -> Tensor:
        """`scores`, `(batch, heads, queries, keys)`, plus the bias; queries count from `start`, keys from 0."""
        return self.biased(scores, start, query_positions, key_positions)


class MultiHeadAttention(layers.Attention, nn.Module):
    """Multi-head attention, as in d2l, with the positions inside where a rotary or scoring encoding is given.

    Args:
        num_hiddens: width of queries, keys, values and result.
        num_heads: number of heads; divides `num_hiddens`.
        dropout: probability that an attention weight is dropped in training.
        bias: whether the projections have a bias.
        position: a rotary or scoring encoding.

    >>> MultiHeadAttention(100, 5, 0.5)(*[torch.ones(2, 4, 100)] * 3, torch.tensor([3, 2])).shape
    torch.Size([2, 4, 100])
    """

    room = arrays

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
        self.W_q = nn.Linear(num_hiddens, num_hiddens, bias=bias)
        self.W_k = nn.Linear(num_hiddens, num_hiddens, bias=bias)
        self.W_v = nn.Linear(num_hiddens, num_hiddens, bias=bias)
        self.W_o = nn.Linear(num_hiddens, num_hiddens, bias=bias)
        self.dropout = nn.Dropout(dropout)
        self.rotary = RotaryEmbedding(position) if isinstance(position, Rotary) else None
        self.scoring = AttentionBias(position) if isinstance(position, Scoring) else None

    def forward(self, queries: Tensor, keys: Tensor, values: Tensor, valid_lens: Any = None) -> Tensor:
        """`(batch, queries, num_hiddens)`; `valid_lens`, `(batch,)` or `(batch, queries)`, says how many keys count."""
        return self.attended(queries, keys, values, valid_lens, self.dropout)
