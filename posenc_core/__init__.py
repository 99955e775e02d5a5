"""Positional encodings, computed once: exact tables, rotations and biases for arrays of any framework."""
# mypy: implicit-reexport

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._array_api.namespace import namespace_of as namespace_of
    from ._array_api.namespace import register_namespace as register_namespace
    from .addition import combine as combine
    from .attention.attend import attend as attend
    from .attention.attend import attention_weights as attention_weights
    from .attention.blockwise import AttentionState as AttentionState
    from .attention.blockwise import attend_by_block as attend_by_block
    from .attention.blockwise import attention_state as attention_state
    from .attention.blockwise import merge_states as merge_states
    from .attention.masks import causal as causal
    from .attention.masks import padding as padding
    from .attention.masks import same_sequence as same_sequence
    from .attention.masks import sliding_window as sliding_window
    from .attention.masks import valid_lengths as valid_lengths
    from .encodings import DualChunk as DualChunk
    from .encodings import Encoding as Encoding
    from .encodings import LeakyReRoPE as LeakyReRoPE
    from .encodings import LearnedQueryScale as LearnedQueryScale
    from .encodings import Placed as Placed
    from .encodings import QKNorm as QKNorm
    from .encodings import QueryScale as QueryScale
    from .encodings import ReRoPE as ReRoPE
    from .encodings import SelfExtend as SelfExtend
    from .encodings.additive import *
    from .encodings.rotary import *
    from .encodings.scoring import *
    from .encodings.write import write_tables as write_tables
    from .layers.backend import Backend as Backend
    from .layers.saved_encodings import allow_change as allow_change
    from .normalization import normalize_and_rotate as normalize_and_rotate
    from .positions.augmentation import Augmentation as Augmentation
    from .positions.augmentation import augment as augment
    from .positions.augmentation import draw_augmentation as draw_augmentation
    from .positions.grids import Multimodal as Multimodal
    from .positions.grids import grid as grid
    from .positions.grids import left_padded as left_padded
    from .positions.grids import multimodal as multimodal
    from .positions.grids import normalized_grid as normalized_grid
    from .positions.packed import from_cu_seqlens as from_cu_seqlens
    from .positions.packed import sequence_ids as sequence_ids
    from .positions.packed import sequence_ids_from_positions as sequence_ids_from_positions
    from .positions.packed import to_cu_seqlens as to_cu_seqlens
    from .positions.sequences import counted_from as counted_from
    from .positions.sequences import from_mask as from_mask
    from .positions.sequences import sequence as sequence
    from .positions.sequences import shard as shard
    from .rotation import rotate as rotate
    from .rotation import unrotate as unrotate
    from .scaling import NTK as NTK
    from .scaling import AttentionFactor as AttentionFactor
    from .scaling import DynamicNTK as DynamicNTK
    from .scaling import DyPE as DyPE
    from .scaling import Linear as Linear
    from .scaling import Llama3 as Llama3
    from .scaling import LongRoPE as LongRoPE
    from .scaling import NTKAlpha as NTKAlpha
    from .scaling import Proportional as Proportional
    from .scaling import RIFLEx as RIFLEx
    from .scaling import Scaling as Scaling
    from .scaling import YaRN as YaRN
    from .weights.resize import resize_bias_table as resize_bias_table
    from .weights.resize import resize_table as resize_table
    from .weights.rotary import fope_mixing as fope_mixing
    from .weights.rotary import relayout as relayout
    from .weights.rotary import rerotate as rerotate
else:  # importing all of them takes longer than importing NumPy
    from . import encodings
    from ._lazy import attach

    __getattr__, __dir__, __all__ = attach(
        __name__,
        {
            "_array_api.namespace": "namespace_of register_namespace",
            "addition": "combine",
            "attention.attend": "attend attention_weights",
            "attention.blockwise": "AttentionState attend_by_block attention_state merge_states",
            "attention.masks": "causal padding same_sequence sliding_window valid_lengths",
            "encodings": " ".join([*encodings.NAMES, "Encoding", "Placed", "QKNorm"]),
            "encodings.write": "write_tables",
            "layers.backend": "Backend",
            "layers.saved_encodings": "allow_change",
            "normalization": "normalize_and_rotate",
            "positions.augmentation": "Augmentation augment draw_augmentation",
            "positions.grids": "Multimodal grid left_padded multimodal normalized_grid",
            "positions.packed": "from_cu_seqlens sequence_ids sequence_ids_from_positions to_cu_seqlens",
            "positions.sequences": "counted_from from_mask sequence shard",
            "rotation": "rotate unrotate",
            "scaling": "NTK AttentionFactor DyPE DynamicNTK Linear Llama3 LongRoPE NTKAlpha Proportional RIFLEx "
            "Scaling YaRN",
            "weights.resize": "resize_bias_table resize_table",
            "weights.rotary": "fope_mixing relayout rerotate",
        },
    )

__version__ = "0.2.0"
