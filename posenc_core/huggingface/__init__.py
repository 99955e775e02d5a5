"""Hugging Face configs: load RoPE, factors of queries or all positional encodings, and write RoPE back."""

from .export import to_config
from .layer_types import layer_types
from .multimodal import multimodal_positions
from .position import PositionEncodings, load_position
from .query_scale import load_query_scale
from .rope import load_rope
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
