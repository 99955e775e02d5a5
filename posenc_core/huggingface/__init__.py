"""Hugging Face configs: load the RoPE or all positional encodings that they describe, and write RoPE back."""

from .export import to_config
from .layer_types import layer_types
from .position import PositionEncodings, load_position
from .rope import load_rope

__all__ = ["PositionEncodings", "layer_types", "load_position", "load_rope", "to_config"]
