"""Explain, compare and draw encodings: pairs, precision, curves, the RoPE of a config, that of two configs."""

from .same import compare_rope

__all__ = ["compare_rope"]
