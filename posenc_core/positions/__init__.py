"""Position builders for sequences, padded and packed batches, shards and grids."""

from .augmentation import Augmentation as Augmentation
from .augmentation import augment as augment
from .augmentation import draw_augmentation as draw_augmentation
from .grids import After as After
from .grids import Block as Block
from .grids import By as By
from .grids import Multimodal as Multimodal
from .grids import Segment as Segment
from .grids import grid as grid
from .grids import left_padded as left_padded
from .grids import multimodal as multimodal
from .grids import normalized_grid as normalized_grid
from .mixed import centered as centered
from .mixed import diagonal as diagonal
from .mixed import indexed as indexed
from .mixed import with_audio as with_audio
from .sequences import LIMIT as LIMIT
from .sequences import Order as Order
from .sequences import arange_like as arange_like
from .sequences import counted_from as counted_from
from .sequences import from_array as from_array
from .sequences import from_cu_seqlens as from_cu_seqlens
from .sequences import from_mask as from_mask
from .sequences import sequence as sequence
from .sequences import sequence_ids as sequence_ids
from .sequences import shard as shard
