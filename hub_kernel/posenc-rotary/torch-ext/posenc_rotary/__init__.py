"""Rotary position embedding (RoPE) of queries and keys in one launch of a Triton kernel, with a gradient."""

from . import layers
from .rotary import apply_rotary, apply_rotary_transformers

__kernel_metadata__ = {"license": "mit"}
__all__ = ["__kernel_metadata__", "apply_rotary", "apply_rotary_transformers", "layers"]
