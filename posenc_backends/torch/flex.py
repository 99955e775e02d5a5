"""`score_mod`: what FlexAttention calls to add a scoring encoding to its scores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from posenc_core.encodings import PositionScoring

from .layers import AttentionBias


def score_mod(
    bias: AttentionBias | PositionScoring,
    *,
    start: Any = 0,
    query_positions: Tensor | None = None,
    key_positions: Tensor | None = None,
) -> Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]:
    """Return the `score_mod` for `torch.nn.attention.flex_attention` that adds a bias, of which no array is made.

    Args:
        bias: an `AttentionBias`, or an encoding without parameters; one that looks at positions alone. Parameters are
            read at each call, so that one function serves a whole training.
        start: the first position of the queries, or one for each row, `(batch,)`; keys count from 0.
        query_positions: in place of `start`, `(queries,)` or `(batch, queries)`, integers on the device of the tokens.
        key_positions: likewise.
    Raises:
        TypeError: if an encoding has parameters, which only a layer holds; at a call, if its class defines no
            `score_of`.
        ValueError: if it looks at queries and keys, which FlexAttention does not show to the function.

    >>> import torch
    >>> from posenc_core import Alibi
    >>> add = score_mod(Alibi(num_heads=2))
    >>> add(torch.zeros(()), *(torch.tensor(number) for number in (0, 1, 7, 5)))
    tensor(-0.0078)
    """
    encoding = bias.encoding if isinstance(bias, AttentionBias) else bias
    if not isinstance(encoding, PositionScoring):
        raise ValueError(  # noqa: TRY004 - it is an encoding, of another kind
            f"`bias` must look at positions alone, got {encoding!r}: FlexAttention shows a score and the numbers of "
            "its query and key, not what stands there; call `attend`."
        )
    if not isinstance(bias, AttentionBias) and encoding.parameters():
        raise TypeError(
            f"`bias` must be the `AttentionBias` that holds what {encoding!r} learns, got the encoding alone."
        )
    layer = bias if isinstance(bias, AttentionBias) else AttentionBias(encoding)

    def add(score: Tensor, b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
        query = _position(query_positions, b, q_idx)
        if query_positions is None:
            query = query + (start[b] if isinstance(start, Tensor) and start.ndim else start)
        added = encoding.score_of(layer.arrays, h, query, _position(key_positions, b, kv_idx))
        return (score + added).to(score.dtype)

    return add


def _position(positions: Tensor | None, b: Tensor, index: Tensor) -> Tensor:
    if positions is None:
        return index
    return positions[index] if positions.ndim == 1 else positions[b, index]
