"""Compute attention, its masks, biases and relative offsets."""

from .attend import (
    AttentionInputs,
    Dropout,
    Position,
    attend,
    attention_weights,
    check_mask,
    grouped,
    merge_heads,
    scored,
    split_heads,
    weigh,
)

__all__ = [
    "AttentionInputs",
    "Dropout",
    "Position",
    "attend",
    "attention_weights",
    "check_mask",
    "grouped",
    "merge_heads",
    "scored",
    "split_heads",
    "weigh",
]
