"""Explain, compare, extend and draw encodings: pairs, precision, curves, the RoPE of a config, that of two configs."""

from .extension import plan_extension
from .same import compare_rope

__all__ = ["compare_rope", "plan_extension"]
