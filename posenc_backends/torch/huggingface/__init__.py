"""Models of Hugging Face transformers: their rotation, their rotary modules, their configs, their attention."""

from .apply_rotary import apply_rotary_transformers, rotary_kernel
from .attention import register_attention
from .replacement import Replacement, replace_rotary
from .rope_type import register
from .tables import RotaryTables

__all__ = [
    "Replacement", "RotaryTables", "apply_rotary_transformers", "register", "register_attention", "replace_rotary",
    "rotary_kernel",
]  # fmt: skip
