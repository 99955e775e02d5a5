"""Positional encodings, computed once: exact tables, rotations and biases for arrays of any framework."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._arrays import namespace_of, register_namespace
    from .addition import combine
    from .attention import attend, attention_weights
    from .blockwise import attend_by_block
    from .encodings import (
        Alibi,
        AxialRotary,
        Binary,
        Cope,
        Fire,
        FourierFeatures,
        GridSinusoidal,
        Integer,
        Kerple,
        Learned,
        LearnedRotary,
        LearnedSinusoidal,
        MultimodalRotary,
        Normalized,
        RandomFourierFeatures,
        Rotary,
        ShawBias,
        Sine,
        Sinusoidal,
        SwinBias,
        T5Bias,
        Timestep,
        TransformerXLBias,
        XPos,
    )
    from .grids import Multimodal, grid, left_padded, multimodal, normalized_grid
    from .masks import causal, padding, same_sequence, valid_lengths
    from .positions import counted_from, from_cu_seqlens, from_mask, sequence, sequence_ids, shard
    from .resizing import resize_bias_table, resize_table
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
    from .weights import relayout, rerotate
    from .writing import write_tables

__version__ = "0.1.0"

__all__ = [
    "NTK",
    "Alibi",
    "AttentionFactor",
    "AxialRotary",
    "Binary",
    "Cope",
    "DynamicNTK",
    "Fire",
    "FourierFeatures",
    "GridSinusoidal",
    "Integer",
    "Kerple",
    "Learned",
    "LearnedRotary",
    "LearnedSinusoidal",
    "Linear",
    "Llama3",
    "LongRoPE",
    "Multimodal",
    "MultimodalRotary",
    "NTKAlpha",
    "Normalized",
    "Proportional",
    "RandomFourierFeatures",
    "Rotary",
    "Scaling",
    "ShawBias",
    "Sine",
    "Sinusoidal",
    "SwinBias",
    "T5Bias",
    "Timestep",
    "TransformerXLBias",
    "XPos",
    "YaRN",
    "attend",
    "attend_by_block",
    "attention_weights",
    "causal",
    "combine",
    "counted_from",
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

_HOMES = {
    "_arrays": "namespace_of register_namespace",
    "addition": "combine",
    "attention": "attend attention_weights",
    "blockwise": "attend_by_block",
    "encodings": (
        "Alibi AxialRotary Binary Cope Fire FourierFeatures GridSinusoidal Integer Kerple Learned LearnedRotary "
        "LearnedSinusoidal MultimodalRotary Normalized RandomFourierFeatures Rotary ShawBias Sine Sinusoidal "
        "SwinBias T5Bias Timestep TransformerXLBias XPos"
    ),
    "grids": "Multimodal grid left_padded multimodal normalized_grid",
    "masks": "causal padding same_sequence valid_lengths",
    "positions": "counted_from from_cu_seqlens from_mask sequence sequence_ids shard",
    "resizing": "resize_bias_table resize_table",
    "rotation": "rotate unrotate",
    "scaling": "NTK AttentionFactor DynamicNTK Linear Llama3 LongRoPE NTKAlpha Proportional Scaling YaRN",
    "weights": "relayout rerotate",
    "writing": "write_tables",
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """Import what is asked for, when it is: all of it takes most of NumPy's own time to import."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f".{_HOME[name]}", __name__), name)
    return found


def __dir__() -> list[str]:
    """All names, whether they were asked for or not."""
    return sorted({*globals(), *__all__})
