"""What FlexAttention adds to a score: the scoring encodings as functions of one query and one key."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import singledispatch
from typing import Any

import torch
from torch import Tensor

from posenc_core.encodings import Alibi, Fire, Kerple, PositionScoring, SwinBias, T5Bias
from posenc_core.encodings.scoring.kerple import LEAST

from .layers import AttentionBias

Weights = Mapping[str, Tensor]
OfPair = Callable[[Tensor, Tensor, Tensor], Tensor]  # of a head, and the positions of a query and a key


def score_mod(
    bias: AttentionBias | PositionScoring,
    *,
    start: Any = 0,
    query_positions: Tensor | None = None,
    key_positions: Tensor | None = None,
) -> Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]:
    """The `score_mod` of `torch.nn.attention.flex_attention`, which adds a bias that is never built.

    Args:
        bias: an `AttentionBias`, or an encoding that learns nothing; one that looks at positions alone.
        start: the first position of the queries, or one for each row, `(batch,)`; keys count from 0.
        query_positions: in place of `start`, `(queries,)` or `(batch, queries)`, integers on the device of the tokens.
        key_positions: likewise.
    Raises:
        TypeError: if an encoding learns something, which only a layer holds.
        ValueError: if it looks at queries and keys, which FlexAttention does not show to the function.

    >>> import torch
    >>> from torch.nn.attention.flex_attention import flex_attention
    >>> add = score_mod(Alibi(num_heads=2))
    >>> add(torch.zeros(()), *(torch.tensor(number) for number in (0, 1, 7, 5)))
    tensor(-0.0078)
    """
    encoding = bias.encoding if isinstance(bias, AttentionBias) else bias
    if not isinstance(encoding, PositionScoring):
        raise ValueError(  # noqa: TRY004 - it is an encoding, of another kind
            f"`bias` must look at positions alone, got {encoding!r}: FlexAttention shows a score and the numbers of its "
            "query and key, not what stands there; call `attend`."
        )
    if not isinstance(bias, AttentionBias) and encoding.parameters():
        raise TypeError(
            f"`bias` must be the `AttentionBias` that holds what {encoding!r} learns, got the encoding alone."
        )
    held = (bias if isinstance(bias, AttentionBias) else AttentionBias(encoding)).arrays
    of_pair = _of_pair(encoding, held)

    def add(score: Tensor, b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
        query = _at(query_positions, b, q_idx) + (_row(start, b) if query_positions is None else 0)
        return (score + of_pair(h, query, _at(key_positions, b, kv_idx))).to(score.dtype)

    return add


def _at(positions: Tensor | None, b: Tensor, index: Tensor) -> Tensor:
    if positions is None:
        return index
    return positions[index] if positions.ndim == 1 else positions[b, index]


def _row(start: Any, b: Tensor) -> Any:
    return start[b] if isinstance(start, Tensor) and start.ndim else start


@singledispatch
def _of_pair(encoding: PositionScoring, held: Weights) -> OfPair:
    raise ValueError(f"`bias` must be of an encoding that FlexAttention has a formula for, got {encoding!r}.")


@_of_pair.register
def _(encoding: Alibi, held: Weights) -> OfPair:
    return lambda h, query, key: -held["slopes"][h] * _distance(query, key, encoding.sides)


@_of_pair.register
def _(encoding: T5Bias, held: Weights) -> OfPair:
    reach, table = encoding.max_distance, held["table"].float()
    return lambda h, query, key: table[held["buckets"][(key - query).clamp(-reach, reach) + reach], h]


@_of_pair.register
def _(encoding: Kerple, held: Weights) -> OfPair:
    size, rate = (held[name].float().clamp(min=LEAST) for name in ("r1", "r2"))
    if encoding.variant == "logarithmic":
        return lambda h, query, key: -size[h] * torch.log(rate[h] * _distance(query, key, encoding.sides) + 1)
    exponent = rate.clamp(max=2)

    def power(h: Tensor, query: Tensor, key: Tensor) -> Tensor:
        far = _distance(query, key, encoding.sides)
        grown = torch.exp(exponent[h] * torch.log(far.clamp(min=1)))  # distances are whole
        return -size[h] * torch.where(far > 0, grown, 0)

    return power


@_of_pair.register
def _(encoding: Fire, held: Weights) -> OfPair:
    wide = {name: each.float() for name, each in held.items()}
    rate, threshold = wide["c"][0], (wide["l"][0] * encoding.threshold).abs()

    def perceived(h: Tensor, query: Tensor, key: Tensor) -> Tensor:
        share = _bent(rate * (query - key).abs().float()) / (
            _bent(rate * torch.maximum(query.float(), threshold)) + 1e-6
        )
        result = wide["head_bias"][h]
        for unit in range(encoding.hidden):
            hidden = (wide["hidden_weight"][unit] * share + wide["hidden_bias"][unit]).clamp(min=0)
            result = result + wide["head_weight"][h, unit] * hidden
        return result

    return perceived


@_of_pair.register
def _(encoding: SwinBias, held: Weights) -> OfPair:
    table, tokens = held["table"].float(), encoding.limit
    table = torch.cat([table, torch.full_like(table[:1], math.nan)])

    def looked_up(h: Tensor, query: Tensor, key: Tensor) -> Tensor:
        query, key = ((each + 1).clamp(0, tokens + 1) for each in (query, key))
        return table[held["index"][query * (tokens + 2) + key], h]

    return looked_up


def _distance(query: Tensor, key: Tensor, sides: str) -> Tensor:
    offset = query - key
    return (offset.abs() if sides == "both" else offset.clamp(min=0)).float()


def _bent(x: Tensor) -> Tensor:
    return torch.log(x.abs() + 1)
