"""Positional encodings, computed once: exact tables, rotations and biases for arrays of any framework."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._array_api.namespace import namespace_of, register_namespace
    from .addition import combine
    from .attention.attend import attend, attention_weights
    from .attention.blockwise import attend_by_block
    from .attention.masks import causal, padding, same_sequence, valid_lengths
    from .encodings import (
        Alibi,
        AxialRotary,
        Binary,
        Cope,
        DebertaBias,
        DecomposedBias,
        DualChunk,
        DynamicPositionBias,
        Encoding,
        Fire,
        FoPE,
        ForgettingBias,
        FourierFeatures,
        GridSinusoidal,
        Integer,
        Kerple,
        LeakyReRoPE,
        Learned,
        LearnedQueryScale,
        LearnedRotary,
        LearnedSinusoidal,
        MixedRotary,
        MultimodalRotary,
        Normalized,
        Placed,
        PoPE,
        QueryScale,
        RandomFourierFeatures,
        RelativeLogits,
        ReRoPE,
        Rotary,
        Sandwich,
        SelfExtend,
        ShawBias,
        Sine,
        Sinusoidal,
        SwinBias,
        SwinV2Bias,
        T5Bias,
        Timestep,
        TransformerXLBias,
        XPos,
    )
    from .encodings.write import write_tables
    from .layers.base import Backend
    from .positions.augmentation import Augmentation, augment, draw_augmentation
    from .positions.grids import Multimodal, grid, left_padded, multimodal, normalized_grid
    from .positions.sequences import counted_from, from_cu_seqlens, from_mask, sequence, sequence_ids, shard
    from .rotation import rotate, unrotate
    from .scaling import (
        NTK,
        AttentionFactor,
        DynamicNTK,
        Linear,
        Llama3,
        LongRoPE,
        NTKAlpha,
        Proportional,
        Scaling,
        YaRN,
    )
    from .weights.resize import resize_bias_table, resize_table
    from .weights.rotary import fope_mixing, relayout, rerotate

__version__ = "0.2.0"

__all__ = [
    "NTK",
    "Alibi",
    "AttentionFactor",
    "Augmentation",
    "AxialRotary",
    "Backend",
    "Binary",
    "Cope",
    "DebertaBias",
    "DecomposedBias",
    "DualChunk",
    "DynamicNTK",
    "DynamicPositionBias",
    "Encoding",
    "Fire",
    "FoPE",
    "ForgettingBias",
    "FourierFeatures",
    "GridSinusoidal",
    "Integer",
    "Kerple",
    "LeakyReRoPE",
    "Learned",
    "LearnedQueryScale",
    "LearnedRotary",
    "LearnedSinusoidal",
    "Linear",
    "Llama3",
    "LongRoPE",
    "MixedRotary",
    "Multimodal",
    "MultimodalRotary",
    "NTKAlpha",
    "Normalized",
    "Placed",
    "PoPE",
    "Proportional",
    "QueryScale",
    "RandomFourierFeatures",
    "ReRoPE",
    "RelativeLogits",
    "Rotary",
    "Sandwich",
    "Scaling",
    "SelfExtend",
    "ShawBias",
    "Sine",
    "Sinusoidal",
    "SwinBias",
    "SwinV2Bias",
    "T5Bias",
    "Timestep",
    "TransformerXLBias",
    "XPos",
    "YaRN",
    "attend",
    "attend_by_block",
    "attention_weights",
    "augment",
    "causal",
    "combine",
    "counted_from",
    "draw_augmentation",
    "fope_mixing",
    "from_cu_seqlens",
    "from_mask",
    "grid",
    "left_padded",
    "multimodal",
    "namespace_of",
    "normalized_grid",
    "padding",
    "register_namespace",
    "relayout",
    "rerotate",
    "resize_bias_table",
    "resize_table",
    "rotate",
    "same_sequence",
    "sequence",
    "sequence_ids",
    "shard",
    "unrotate",
    "valid_lengths",
    "write_tables",
]

# importing all of them takes longer than importing NumPy, so each is imported when a name of it is asked for
_MODULES = {
    "_array_api.namespace": "namespace_of register_namespace",
    "addition": "combine",
    "attention.attend": "attend attention_weights",
    "attention.blockwise": "attend_by_block",
    "attention.masks": "causal padding same_sequence valid_lengths",
    "encodings": (
        "Alibi AxialRotary Binary Cope DebertaBias DecomposedBias DualChunk DynamicPositionBias Encoding Fire FoPE "
        "ForgettingBias FourierFeatures GridSinusoidal Integer Kerple LeakyReRoPE Learned LearnedQueryScale "
        "LearnedRotary LearnedSinusoidal MixedRotary MultimodalRotary Normalized Placed PoPE QueryScale "
        "RandomFourierFeatures RelativeLogits ReRoPE Rotary Sandwich SelfExtend ShawBias Sine Sinusoidal SwinBias "
        "SwinV2Bias T5Bias Timestep TransformerXLBias XPos"
    ),
    "encodings.write": "write_tables",
    "layers.base": "Backend",
    "positions.augmentation": "Augmentation augment draw_augmentation",
    "positions.grids": "Multimodal grid left_padded multimodal normalized_grid",
    "positions.sequences": "counted_from from_cu_seqlens from_mask sequence sequence_ids shard",
    "rotation": "rotate unrotate",
    "scaling": "NTK AttentionFactor DynamicNTK Linear Llama3 LongRoPE NTKAlpha Proportional Scaling YaRN",
    "weights.resize": "resize_bias_table resize_table",
    "weights.rotary": "fope_mixing relayout rerotate",
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """Import the module of a public name at its first use, and return what the name stands for."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f".{_MODULE_OF[name]}", __name__), name)
    return value


def __dir__() -> list[str]:
    """List all public names, imported or not."""
    return sorted({*globals(), *__all__})
