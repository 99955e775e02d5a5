"""Hugging Face configs: the rotary encoding that a `config.json` describes, and the way back."""

from .export import to_config
from .layer_types import layer_types
from .rope import load_rope

__all__ = ["layer_types", "load_rope", "to_config"]
