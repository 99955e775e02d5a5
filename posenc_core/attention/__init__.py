"""Compute attention, its masks, biases and relative offsets."""

from .attend import (
    Content,
    Dropout,
    Position,
    attend,
    attention_weights,
    check_mask,
    fitted,
    grouped,
    merge_heads,
    scored,
    split_heads,
    weigh,
)

__all__ = [
    "Content",
    "Dropout",
    "Position",
    "attend",
    "attention_weights",
    "check_mask",
    "fitted",
    "grouped",
    "merge_heads",
    "scored",
    "split_heads",
    "weigh",
]
