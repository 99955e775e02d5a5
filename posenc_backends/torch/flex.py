"""`score_mod`: what FlexAttention calls to add a scoring encoding to its scores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from posenc_core._array_api.namespace import repeat_heads
from posenc_core.encodings import ContentScoring, Pairs, PositionScoring

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

    FlexAttention passes a score and the numbers of its query and key. So an encoding that looks at their content needs
    `queries` or `keys`. It computes a table from them once, usually of one number for each token and offset, and looks
    scores up there.

    Args:
        bias: an `AttentionBias`, or an encoding without parameters. One function for an encoding that looks at
            positions alone reads the parameters at each call, so that it serves a whole training; for the others, make
            a function for each call of `flex_attention`.
        start: the first position of the queries, or one for each row, `(batch,)`; keys count from 0.
        query_positions: in place of `start`, `(queries,)` or `(batch, queries)`, integers on the device of the tokens.
        key_positions: likewise.
        queries: for `ShawBias` with `applies_to="keys"`, `TransformerXLBias`, `DebertaBias`, `DecomposedBias` and
            `RelativeLogits`: the queries `(batch, heads, queries, head_dim)`, not rotated or scaled.
        keys: for `TransformerXLBias`, `DebertaBias` and `ForgettingBias`: the keys `(batch, key_heads, keys,
            head_dim)`, of as many heads as the queries, or of fewer that divide them. `ForgettingBias` needs a
            causal mask and no other: a hidden key before the query still counts, by its gate. Gates are sums of all
            keys, so that their differences have the rounding error of these sums.
    Raises:
        TypeError: if an encoding has parameters, which only a layer holds; at a call, if its class defines no
            `score_of`.
        ValueError: if scores depend on other scores, as in `Cope`, if it adds to the values as well, as `ShawBias` by
            default, or if it looks at queries or keys that are not given.

    >>> import torch
    >>> from posenc_core import Alibi
    >>> add = score_mod(Alibi(num_heads=2))
    >>> add(torch.zeros(()), *(torch.tensor(number) for number in (0, 1, 7, 5)))
    tensor(-0.0078)
    """
    encoding: Any = bias.encoding if isinstance(bias, AttentionBias) else bias

    def position_of(b: Tensor, q_idx: Tensor) -> Tensor:
        query = _position(query_positions, b, q_idx)
        if query_positions is None:
            query = query + (start[b] if isinstance(start, Tensor) and start.ndim else start)
        return query

    if encoding.uses_content and not encoding.lookup_inputs:
        reason = "adds to the values as well" if encoding.adds_values else "computes scores from other scores"
        raise ValueError(f"`bias` must add one number to a score, got {encoding!r}, which {reason}; call `attend`.")
    if not isinstance(bias, AttentionBias) and encoding.parameters():
        raise TypeError(
            f"`bias` must be the `AttentionBias` that holds what {encoding!r} learns, got the encoding alone."
        )
    layer = bias if isinstance(bias, AttentionBias) else AttentionBias(encoding)
    added = _added(layer, {"queries": queries, "keys": keys})

    def add(score: Tensor, b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
        pairs = Pairs(b, h, q_idx, kv_idx, position_of(b, q_idx), _position(key_positions, b, kv_idx))
        return (score + added(score, pairs)).to(score.dtype)

    return add


def _added(layer: AttentionBias, tokens: dict[str, Tensor | None]) -> Callable[[Tensor, Pairs], Any]:
    """Return the function that computes what is added to the score of a pair."""
    encoding: Any = layer.encoding
    if not encoding.uses_content:
        return lambda _, at: encoding.score_of(layer.arrays, at.head, at.query_position, at.key_position)
    given = {name: _given(name, tokens[name], encoding) for name in encoding.lookup_inputs}
    arrays: Any = layer.arrays
    tables = encoding.lookup_tables(arrays, given.get("queries"), given.get("keys"))
    return lambda score, pairs: encoding.score_of(arrays, tables, score, pairs)


def _given(name: str, x: Tensor | None, encoding: ContentScoring) -> Tensor:
    """Return queries or keys, which the encoding looks at, for each of its heads, in float32 at least.

    Raises:
        ValueError: if there are none, or they are not those of its heads.
    """
    shape, heads, width = None if x is None else tuple(x.shape), encoding.num_heads, encoding.head_dim
    if x is None or x.ndim != 4 or x.shape[3] != width or not _has_heads(name, x.shape[1], heads):
        wanted = f"(batch, {heads}, {name}, {width})"
        raise ValueError(f"`{name}` must have shape {wanted}, as {type(encoding).__name__} looks at them, got {shape}.")
    x = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    return torch.as_tensor(repeat_heads(x, heads))


def _has_heads(name: str, given: int, heads: int) -> bool:
    return given == heads or (name == "keys" and given > 0 and heads % given == 0)


def _position(positions: Tensor | None, b: Tensor, index: Tensor) -> Tensor:
    if positions is None:
        return index
    return positions[index] if positions.ndim == 1 else positions[b, index]
