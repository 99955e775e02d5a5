"""Position builders for sequences, padded and packed batches, shards and grids."""

from .grids import After, By, Multimodal, Segment, grid, left_padded, multimodal, normalized_grid
from .sequences import (
    LIMIT,
    Order,
    arange_like,
    counted_from,
    from_array,
    from_cu_seqlens,
    from_mask,
    sequence,
    sequence_ids,
    shard,
)

__all__ = [
    "LIMIT",
    "After",
    "By",
    "Multimodal",
    "Order",
    "Segment",
    "arange_like",
    "counted_from",
    "from_array",
    "from_cu_seqlens",
    "from_mask",
    "grid",
    "left_padded",
    "multimodal",
    "normalized_grid",
    "sequence",
    "sequence_ids",
    "shard",
]
