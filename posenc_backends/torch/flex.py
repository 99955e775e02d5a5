"""`score_mod`: what FlexAttention calls to add a scoring encoding to its scores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from posenc_core.attention.attend import AttentionInputs
from posenc_core.encodings import ForgettingBias, PositionScoring, RelativeLogits, Scoring

from .layers import AttentionBias

ScoreMod = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]


def score_mod(
    bias: AttentionBias | PositionScoring,
    *,
    start: Any = 0,
    query_positions: Tensor | None = None,
    key_positions: Tensor | None = None,
    queries: Tensor | None = None,
    keys: Tensor | None = None,
) -> ScoreMod:
    """Return the `score_mod` for `torch.nn.attention.flex_attention` that adds a bias, of which no array is made.

    FlexAttention shows a score and the numbers of its query and key. So an encoding that looks at them needs them here,
    where its numbers for each query, or for each key, are computed once.

    Args:
        bias: an `AttentionBias`, or an encoding without parameters; one that looks at positions alone, whose parameters
            are read at each call, so that one function serves a whole training; or `RelativeLogits` or
            `ForgettingBias`, for which a function is made for each call of `flex_attention`.
        start: the first position of the queries, or one for each row, `(batch,)`; keys count from 0.
        query_positions: in place of `start`, `(queries,)` or `(batch, queries)`, integers on the device of the tokens.
        key_positions: likewise.
        queries: for `RelativeLogits`, the queries `(batch, heads, queries, head_dim)`.
        keys: for `ForgettingBias`, the keys `(batch, heads, keys, head_dim)`, of as many heads as the queries. Mask
            those after their query, and no others: each of them has a gate. Gates are sums of all keys, so that their
            differences have the rounding error of these sums.
    Raises:
        TypeError: if an encoding has parameters, which only a layer holds; at a call, if its class defines no
            `score_of`.
        ValueError: if it looks at queries and keys in another way, or at those that are not given.

    >>> import torch
    >>> from posenc_core import Alibi
    >>> add = score_mod(Alibi(num_heads=2))
    >>> add(torch.zeros(()), *(torch.tensor(number) for number in (0, 1, 7, 5)))
    tensor(-0.0078)
    """
    encoding: Scoring = bias.encoding if isinstance(bias, AttentionBias) else bias

    def position_of(b: Tensor, q_idx: Tensor) -> Tensor:
        query = _position(query_positions, b, q_idx)
        if query_positions is None:
            query = query + (start[b] if isinstance(start, Tensor) and start.ndim else start)
        return query

    if not isinstance(encoding, PositionScoring | RelativeLogits | ForgettingBias):
        raise ValueError(  # noqa: TRY004 - it is an encoding, of another kind
            f"`bias` must look at positions alone, or be RelativeLogits or ForgettingBias, got {encoding!r}: "
            "FlexAttention shows a score and the numbers of its query and key, not what stands there; call `attend`."
        )
    if not isinstance(bias, AttentionBias) and encoding.parameters():
        raise TypeError(
            f"`bias` must be the `AttentionBias` that holds what {encoding!r} learns, got the encoding alone."
        )
    layer = bias if isinstance(bias, AttentionBias) else AttentionBias(encoding)
    if isinstance(encoding, ForgettingBias):
        sums = encoding.sums(layer.arrays, _given("keys", keys, encoding))

        def forget(score: Tensor, b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
            return (score + (sums[b, h, position_of(b, q_idx)] - sums[b, h, kv_idx])).to(score.dtype)

        return forget
    if isinstance(encoding, RelativeLogits):
        farthest = encoding.max_distance
        by_offset = _by_offset(encoding, layer.arrays, _given("queries", queries, encoding))

        def look_up(score: Tensor, b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
            offset = _position(key_positions, b, kv_idx) - position_of(b, q_idx)
            column = torch.clamp(offset, -farthest, farthest) + farthest
            return (score + by_offset[b, h, q_idx, column]).to(score.dtype)

        return look_up

    def add(score: Tensor, b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
        added = encoding.score_of(layer.arrays, h, position_of(b, q_idx), _position(key_positions, b, kv_idx))
        return (score + added).to(score.dtype)

    return add


def _given(name: str, x: Tensor | None, encoding: Scoring) -> Tensor:
    """Return queries or keys, which the encoding looks at.

    Raises:
        ValueError: if there are none, or they are not those of its heads.
    """
    shape = None if x is None else tuple(x.shape)
    heads = getattr(encoding, "num_heads", None), getattr(encoding, "head_dim", None)
    if x is None or x.ndim != 4 or (x.shape[1], x.shape[3]) != heads:
        wanted = f"(batch, {heads[0]}, {name}, {heads[1]})"
        raise ValueError(f"`{name}` must have shape {wanted}, as {type(encoding).__name__} looks at them, got {shape}.")
    return x


def _by_offset(encoding: RelativeLogits, arrays: Any, queries: Tensor) -> Tensor:
    """Return what each query adds for each offset of a key, `(batch, heads, queries, 2 * max_distance + 1)`."""
    farthest, (batch, heads, length, _) = encoding.max_distance, queries.shape
    offsets = torch.arange(-farthest, farthest + 1, device=queries.device)
    none = queries.new_zeros(batch, heads, length, len(offsets))
    content = AttentionInputs(queries, queries, none)
    found: Any = encoding.scores(arrays, torch.zeros_like(offsets[:1]).expand(length), offsets, content)
    return torch.as_tensor(found)


def _position(positions: Tensor | None, b: Tensor, index: Tensor) -> Tensor:
    if positions is None:
        return index
    return positions[index] if positions.ndim == 1 else positions[b, index]
