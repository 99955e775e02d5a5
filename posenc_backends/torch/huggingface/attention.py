"""Scoring encodings as an attention implementation of transformers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import dropout as dropped

from posenc_core._array_api.checks import shown
from posenc_core.encodings import PositionScoring

from ..layers import AttentionBias


def register_attention(name: str, bias: AttentionBias | PositionScoring) -> None:
    """Add an attention implementation to those of transformers: scores plus a bias of positions, then softmax.

    A model with `attn_implementation=name` uses it in all its layers. The model should not rotate queries and keys as
    well. Scores, bias and softmax are computed in float32. Positions count the keys of the cache from its first one on:
    behind padding on the left, distances are right, and positions are too large. Attention to another sequence is
    refused.

    The how-to page *Use it in transformers* has an example.

    Args:
        name: of the implementation, such as `"posenc_alibi"`.
        bias: an `AttentionBias`, which may learn if it is also a part of the model, or an encoding without parameters;
            one that looks at positions alone.
    Raises:
        ImportError: if transformers is not installed, or is older than version 5.
        TypeError: if `bias` is neither.
        ValueError: if it looks at queries and keys, an encoding has parameters, or transformers has another
            implementation of this name.
    """
    layer = _layer_of(bias)
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import eager_mask

    implementations = AttentionInterface()
    if name in implementations and not hasattr(implementations[name], "bias_layer"):
        raise ValueError(f"`name` must be a new one, got {shown(name)}, which transformers has; call it 'posenc_…'.")
    AttentionInterface.register(name, _attention(name, layer))
    AttentionMaskInterface.register(name, eager_mask)


def _layer_of(bias: Any) -> AttentionBias:
    encoding = bias.encoding if isinstance(bias, AttentionBias) else bias
    if not isinstance(encoding, PositionScoring):
        raise TypeError(f"`bias` must be a scoring encoding that looks at positions alone, got {shown(encoding)}.")
    if isinstance(bias, AttentionBias):
        return bias
    if encoding.parameters():
        raise ValueError(f"`bias` must be the `AttentionBias` that holds what {shown(encoding)} learns.")
    return AttentionBias(encoding)


def _attention(name: str, layer: AttentionBias) -> Callable[..., tuple[Tensor, Tensor]]:
    """Return attention with the signature of transformers."""

    def attention(
        module: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor | None,
        scaling: float | None = None,
        dropout: float = 0.0,
        **kwargs: Any,
    ) -> tuple[Tensor, Tensor]:
        if not getattr(module, "is_causal", True) and query.shape[2] != key.shape[2]:
            raise ValueError(
                f"`{name}` is for attention within a sequence, got {query.shape[2]} and {key.shape[2]} tokens."
            )
        groups = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(groups, dim=1), value.repeat_interleave(groups, dim=1)
        scale = query.shape[-1] ** -0.5 if scaling is None else scaling
        scores = query.float() @ key.float().mT * scale
        scores = layer(scores, query_positions=_positions(attention_mask, scores))
        if attention_mask is not None:
            scores = scores + attention_mask
        weights = dropped(scores.softmax(dim=-1), p=dropout, training=module.training)
        return (weights @ value.float()).to(query.dtype).transpose(1, 2).contiguous(), weights.to(query.dtype)

    attention.bias_layer = layer  # type: ignore[attr-defined]
    return attention


def _positions(mask: Tensor | None, scores: Tensor) -> Tensor:
    """Return the number of the key of each query itself, `(batch, queries)`.

    Queries are the last tokens, except in a static cache: there, keys after them are not yet written, and masked.
    """
    batch, _, queries, keys = scores.shape
    numbers = torch.arange(keys, device=scores.device)
    last = numbers[keys - queries :].expand(batch, -1)
    if mask is None:
        return last
    is_seen = mask[:, 0, :, :keys] > torch.finfo(mask.dtype).min
    return torch.minimum(last, (is_seen * numbers).amax(dim=-1))
