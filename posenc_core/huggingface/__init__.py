"""Hugging Face configs: load RoPE, factors of queries or all positional encodings, and write RoPE back."""

from .export import to_config
from .load_position import PositionEncodings, load_position
from .load_query_scale import load_query_scale
from .load_rope import load_rope
from .multimodal import multimodal_positions
from .parameters import layer_types
from .vision import vision_positions

__all__ = [
    "PositionEncodings",
    "layer_types",
    "load_position",
    "load_query_scale",
    "load_rope",
    "multimodal_positions",
    "to_config",
    "vision_positions",
]
