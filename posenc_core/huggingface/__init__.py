"""Hugging Face configs: load the RoPE that a `config.json` describes, and write it back."""

from .export import to_config
from .layer_types import layer_types
from .multimodal import multimodal_positions
from .rope import load_rope
from .vision import vision_positions

__all__ = ["layer_types", "load_rope", "multimodal_positions", "to_config", "vision_positions"]
