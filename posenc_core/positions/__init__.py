"""Position builders for sequences, padded and packed batches, shards and grids."""

from .augmentation import Augmentation, augment, draw_augmentation
from .grids import After, Block, By, Multimodal, Segment, grid, left_padded, multimodal, normalized_grid
from .mixed import centered, diagonal, indexed, with_audio
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
    "Augmentation",
    "Block",
    "By",
    "Multimodal",
    "Order",
    "Segment",
    "arange_like",
    "augment",
    "centered",
    "counted_from",
    "diagonal",
    "draw_augmentation",
    "from_array",
    "from_cu_seqlens",
    "from_mask",
    "grid",
    "indexed",
    "left_padded",
    "multimodal",
    "normalized_grid",
    "sequence",
    "sequence_ids",
    "shard",
    "with_audio",
]
