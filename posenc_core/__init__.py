"""Positional encodings, computed once: exact tables, rotations and biases for arrays of any framework."""

from ._arrays import namespace_of, register_namespace
from .addition import combine
from .attention import attend
from .encodings import (
    Alibi,
    AxialRotary,
    Binary,
    Integer,
    Learned,
    LearnedRotary,
    MultimodalRotary,
    Normalized,
    Rotary,
    Sine,
    Sinusoidal,
    XPos,
)
from .grids import Multimodal, grid, left_padded, multimodal, normalized_grid
from .masks import causal, padding, valid_lengths
from .positions import counted_from, from_cu_seqlens, from_mask, sequence, shard
from .rotation import rotate, unrotate
from .scaling import NTK, AttentionFactor, DynamicNTK, Linear, Llama3, LongRoPE, NTKAlpha, Proportional, Scaling, YaRN
from .weights import relayout, rerotate

__version__ = "0.1.0"

__all__ = [
    "NTK",
    "Alibi",
    "AttentionFactor",
    "AxialRotary",
    "Binary",
    "DynamicNTK",
    "Integer",
    "Learned",
    "LearnedRotary",
    "Linear",
    "Llama3",
    "LongRoPE",
    "Multimodal",
    "MultimodalRotary",
    "NTKAlpha",
    "Normalized",
    "Proportional",
    "Rotary",
    "Scaling",
    "Sine",
    "Sinusoidal",
    "XPos",
    "YaRN",
    "attend",
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
    "rotate",
    "sequence",
    "shard",
    "unrotate",
    "valid_lengths",
]
