"""Compute attention, its masks, biases and relative offsets."""

from .attend import AttentionInputs as AttentionInputs
from .attend import Dropout as Dropout
from .attend import Position as Position
from .attend import attend as attend
from .attend import attention_weights as attention_weights
from .attend import check_mask as check_mask
from .attend import grouped as grouped
from .attend import merge_heads as merge_heads
from .attend import split_heads as split_heads
