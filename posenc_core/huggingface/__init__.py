"""Hugging Face configs: load the RoPE or all positional encodings that they describe, and write RoPE back."""

from .export import to_config
from .layer_types import layer_types
from .multimodal import multimodal_positions
from .position import PositionEncodings, load_position
from .rope import load_rope
from .vision import vision_positions

__all__ = [
    "PositionEncodings",
    "layer_types",
    "load_position",
    "load_rope",
    "multimodal_positions",
    "to_config",
    "vision_positions",
]
