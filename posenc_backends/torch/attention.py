"""The attention layer of the PyTorch room."""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import Tensor, nn

from posenc_core import layers
from posenc_core.encodings import RotaryEncoding, Scoring

from . import backend as arrays
from . import state as states
from .distributed import replicating
from .layers import AttentionBias, RotaryEmbedding


class MultiHeadAttention(layers.Attention, nn.Module):
    """Multi-head attention, as in d2l, with the positions inside where a rotary or scoring encoding is given.

    Args:
        num_hiddens: width of queries, keys, values and result.
        num_heads: number of heads; divides `num_hiddens`.
        dropout: probability that an attention weight is dropped in training.
        bias: whether the projections have a bias.
        position: a rotary or scoring encoding, or the layer of one: blocks that are given one layer share its table.
        num_kv_heads: number of heads of keys and values, if fewer; each serves as many neighbouring heads of queries.
        max_len: number of positions whose angles are held from the start, where a rotary encoding is given; eager calls beyond
            it grow the tables.
        persistent: whether tables of positions are a part of `state_dict`, and of plain dicts and files made of that.
            Loading compares them with the layer's own, so that a state of another encoding is told even where metadata
            were lost.

    >>> import torch
    >>> MultiHeadAttention(100, 5, 0.5)(*[torch.ones(2, 4, 100)] * 3, torch.tensor([3, 2])).shape
    torch.Size([2, 4, 100])
    """

    backend = arrays

    def __init__(  # noqa: PLR0913 - all that can be said of a layer
        self,
        num_hiddens: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = False,
        *,
        position: RotaryEncoding | Scoring | RotaryEmbedding | AttentionBias | None = None,
        num_kv_heads: int | None = None,
        max_len: int = 2048,
        persistent: bool = False,
    ) -> None:
        super().__init__()
        encoding = layers.encoding_of(position, self.backend)
        kv_heads = layers.check_attention(num_hiddens, num_heads, encoding, num_kv_heads)
        layers.check_dropout(dropout)
        self.position = encoding
        self.num_hiddens, self.num_heads, self.num_kv_heads = num_hiddens, num_heads, kv_heads
        narrow = kv_heads * num_hiddens // num_heads
        self.W_q = nn.Linear(num_hiddens, num_hiddens, bias=bias)
        self.W_k = nn.Linear(num_hiddens, narrow, bias=bias)
        self.W_v = nn.Linear(num_hiddens, narrow, bias=bias)
        self.W_o = nn.Linear(num_hiddens, num_hiddens, bias=bias)
        self.dropout = nn.Dropout(dropout)
        rotary = partial(RotaryEmbedding, max_len=max_len, persistent=persistent)
        self.rotary = layers.layer_of(position, RotaryEncoding, rotary)
        self.scoring = layers.layer_of(position, Scoring, partial(AttentionBias, persistent=persistent))

    def forward(  # noqa: PLR0913 - all that can be said of a call
        self,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        valid_lens: Any = None,
        start: Any = 0,
        *,
        positions: Any = None,
        key_positions: Any = None,
        mask: Any = None,
        causal: bool = False,
        cache: Any = None,
        weights: bool = False,
    ) -> Any:
        """`(batch, queries, num_hiddens)`, or `AttentionOutput` where `weights` or a `cache` are asked for; `Options` says it all."""
        if isinstance(self.scoring, AttentionBias):
            self.scoring.follow(queries)
        options = layers.Options(valid_lens, start, positions, key_positions, mask, causal, cache, weights)
        dropout = self.dropout if self.training and self.dropout.p else None
        projection: Any = self.W_q
        with replicating(projection.weight):
            return self.attended(queries, keys, values, options, dropout)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        states.describe({"position": self.position}, destination, prefix)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, local_metadata: Any, *rest: Any) -> None:
        """A state with another kind of position is told of; `rotary` and `scoring` tell of another one of their kind."""
        *_, unexpected_keys, _ = rest
        if _kind(states.revived(local_metadata.get("position", self.position))) is not _kind(self.position):
            unexpected_keys += states.differences({"position": self.position}, local_metadata, prefix)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)


def _kind(position: Any) -> Any:
    return next((kind for kind in (RotaryEncoding, Scoring) if isinstance(position, kind)), type(position))
